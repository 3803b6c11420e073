//! The commands of the model as types. `arbitrary` makes each from bytes, and each can produce its
//! arguments.

use arbitrary::{Arbitrary, Unstructured};

/// There are few keys, so that commands use the same ones. Strings and sorted sets share them.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    A,
    B,
    C,
    Strange,
}

impl Key {
    pub const ALL: [Key; 4] = [Key::A, Key::B, Key::C, Key::Strange];

    pub fn bytes(self) -> &'static [u8] {
        match self {
            Key::A => b"a",
            Key::B => b"b",
            Key::C => b"{a}c",
            Key::Strange => b"\x00\xff\r\n",
        }
    }
}

#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Member {
    A,
    B,
    Empty,
    Long,
    Other(u8),
}

impl Member {
    pub fn bytes(self) -> Vec<u8> {
        match self {
            Member::A => b"a".into(),
            Member::B => b"b".into(),
            Member::Empty => Vec::new(),
            // Longer than the elements that a listpack holds.
            Member::Long => vec![b'b'; 65],
            Member::Other(byte) => vec![byte],
        }
    }
}

/// An integer argument: mostly small, sometimes at the limits of its type.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Number {
    Small(i8),
    Medium(i32),
    Any(i64),
    Max,
    Min,
}

impl Number {
    pub fn get(self) -> i64 {
        match self {
            Number::Small(n) => n.into(),
            Number::Medium(n) => n.into(),
            Number::Any(n) => n,
            Number::Max => i64::MAX,
            Number::Min => i64::MIN,
        }
    }

    fn text(self) -> Vec<u8> {
        self.get().to_string().into()
    }
}

/// The value of a string.
#[derive(Arbitrary, Clone, Debug)]
pub enum Text {
    Number(Number),
    Bytes(#[arbitrary(with = few_bytes)] Vec<u8>),
}

impl Text {
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Text::Number(number) => number.text(),
            Text::Bytes(bytes) => bytes.clone(),
        }
    }
}

fn few_bytes(u: &mut Unstructured<'_>) -> arbitrary::Result<Vec<u8>> {
    let len = usize::from(u.arbitrary::<u8>()? % 64);
    Ok(u.bytes(len.min(u.len()))?.into())
}

/// A short list that is not empty.
#[derive(Clone, Debug)]
pub struct Some1<T>(pub Vec<T>);

impl<'a, T: Arbitrary<'a>> Arbitrary<'a> for Some1<T> {
    fn arbitrary(u: &mut Unstructured<'a>) -> arbitrary::Result<Some1<T>> {
        let len = 1 + u.arbitrary::<u8>()? % 3;
        Ok(Some1((0..len).map(|_| u.arbitrary()).collect::<arbitrary::Result<_>>()?))
    }
}

/// A score, a weight or an increment. They are multiples of one half, so that sums are exact in any
/// order.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Score {
    Halves(i8),
    ManyHalves(i32),
    Infinity,
    MinusInfinity,
    Nan,
}

impl Score {
    /// `None` if Redis does not accept it as a number.
    pub fn get(self) -> Option<f64> {
        match self {
            Score::Halves(n) => Some(f64::from(n) / 2.0),
            Score::ManyHalves(n) => Some(f64::from(n) / 2.0),
            Score::Infinity => Some(f64::INFINITY),
            Score::MinusInfinity => Some(f64::NEG_INFINITY),
            Score::Nan => None,
        }
    }

    fn text(self) -> Vec<u8> {
        self.get().map_or_else(|| "nan".into(), |score| score.to_string().into())
    }
}

#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Millis,
}

#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    Now,
    Epoch,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Expiry {
    None,
    /// `KEEPTTL` of SET, `PERSIST` of GETEX.
    Keep,
    At(Number, Unit, Start),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Bound {
    Included(Score),
    Excluded(Score),
}

impl Bound {
    fn text(self) -> Vec<u8> {
        match self {
            Bound::Included(score) => score.text(),
            Bound::Excluded(score) => [b"(", &score.text()[..]].concat(),
        }
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum LexBound {
    First,
    Last,
    Included(Member),
    Excluded(Member),
}

impl LexBound {
    fn text(self) -> Vec<u8> {
        match self {
            LexBound::First => b"-".into(),
            LexBound::Last => b"+".into(),
            LexBound::Included(member) => [b"[", &member.bytes()[..]].concat(),
            LexBound::Excluded(member) => [b"(", &member.bytes()[..]].concat(),
        }
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Range {
    Rank(Number, Number),
    Score(Bound, Bound),
    Lex(LexBound, LexBound),
}

impl Range {
    fn texts(self) -> [Vec<u8>; 2] {
        match self {
            Range::Rank(first, last) => [first.text(), last.text()],
            Range::Score(min, max) => [min.text(), max.text()],
            Range::Lex(min, max) => [min.text(), max.text()],
        }
    }

    /// The arguments of ZRANGE for this range, with its `BYSCORE` or `BYLEX`.
    fn arguments(self, is_reverse: bool) -> Vec<Vec<u8>> {
        let [min, max] = self.texts();
        let (by, swaps) = match self {
            Range::Rank(..) => (None, false),
            Range::Score(..) => (Some("BYSCORE"), is_reverse),
            Range::Lex(..) => (Some("BYLEX"), is_reverse),
        };
        let ends = if swaps { [max, min] } else { [min, max] };
        ends.into_iter().chain(by.map(Vec::from)).chain(is_reverse.then(|| b"REV".into())).collect()
    }
}

#[derive(Arbitrary, Clone, Copy, Debug, Default)]
pub struct Flags {
    pub nx: bool,
    pub xx: bool,
    pub gt: bool,
    pub lt: bool,
}

impl Flags {
    fn words(self) -> impl Iterator<Item = Vec<u8>> {
        let flags = [(self.nx, "NX"), (self.xx, "XX"), (self.gt, "GT"), (self.lt, "LT")];
        flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, word)| word.into())
    }
}

#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combination {
    Union,
    Intersection,
    Difference,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Aggregate {
    Sum,
    Min,
    Max,
}

#[derive(Arbitrary, Clone, Debug)]
pub enum Op {
    /// `must_exist` is NX if false, XX if true.
    Set {
        key: Key,
        text: Text,
        must_exist: Option<bool>,
        get: bool,
        expiry: Expiry,
    },
    SetNx(Key, Text),
    SetEx(Key, Number, Unit, Text),
    Get(Key),
    GetSet(Key, Text),
    GetEx(Key, Expiry),
    GetDel(Key),
    StrLen(Key),
    GetRange(Key, Number, Number),
    SetRange(Key, Number, Text),
    Append(Key, Text),
    Incr(Key),
    Decr(Key),
    IncrBy(Key, Number),
    DecrBy(Key, Number),
    MSet(Some1<(Key, Text)>),
    MSetNx(Some1<(Key, Text)>),
    MGet(Some1<Key>),
    Expire {
        key: Key,
        amount: Number,
        unit: Unit,
        from: Start,
        flags: Flags,
    },
    Ttl(Key, Unit, Start),
    Persist(Key),
    Del(Some1<Key>),
    Exists(Some1<Key>),
    Rename {
        from: Key,
        to: Key,
        nx: bool,
    },
    Copy {
        from: Key,
        to: Key,
        replace: bool,
    },
    Type(Key),
    DbSize,
    ZAdd {
        key: Key,
        flags: Flags,
        ch: bool,
        incr: bool,
        pairs: Some1<(Score, Member)>,
    },
    ZIncrBy(Key, Score, Member),
    ZScore(Key, Member),
    ZMScore(Key, Some1<Member>),
    ZRank {
        key: Key,
        member: Member,
        reverse: bool,
    },
    ZCard(Key),
    ZCount(Key, Range),
    ZRem(Key, Some1<Member>),
    ZPop {
        key: Key,
        max: bool,
        count: Option<Number>,
    },
    ZRange {
        key: Key,
        range: Range,
        reverse: bool,
        limit: Option<(Number, Number)>,
        with_scores: bool,
    },
    ZRangeStore {
        to: Key,
        key: Key,
        range: Range,
        reverse: bool,
    },
    ZRemRange(Key, Range),
    Combine {
        how: Combination,
        /// The key for the result. Without it, the command replies with the members and their
        /// scores.
        to: Option<Key>,
        inputs: Some1<(Key, Score)>,
        weights: bool,
        aggregate: Option<Aggregate>,
    },
    /// Moves the clock by this many milliseconds.
    Advance(i16),
    /// Moves the clock by this many seconds.
    AdvanceSeconds(i32),
}

impl Op {
    /// The command; `None` if the op is not a command.
    pub fn argv(&self) -> Option<Vec<Vec<u8>>> {
        let mut argv: Vec<Vec<u8>> = self.name()?.split(' ').map(Vec::from).collect();
        let mut push = |arg: &[u8]| argv.push(arg.into());
        match self {
            Op::Advance(_) | Op::AdvanceSeconds(_) | Op::DbSize => {}
            Op::Set { key, text, must_exist, get, expiry } => {
                push(key.bytes());
                push(&text.bytes());
                must_exist.iter().for_each(|&xx| push(if xx { b"XX" } else { b"NX" }));
                get.then(|| push(b"GET"));
                expiry_words(*expiry, "KEEPTTL").iter().for_each(|word| push(word));
            }
            Op::GetEx(key, expiry) => {
                push(key.bytes());
                expiry_words(*expiry, "PERSIST").iter().for_each(|word| push(word));
            }
            Op::SetEx(key, amount, _, text) => {
                [key.bytes(), &amount.text(), &text.bytes()].into_iter().for_each(push);
            }
            Op::SetNx(key, text) | Op::GetSet(key, text) | Op::Append(key, text) => {
                push(key.bytes());
                push(&text.bytes());
            }
            Op::Get(key)
            | Op::GetDel(key)
            | Op::StrLen(key)
            | Op::Incr(key)
            | Op::Decr(key)
            | Op::Ttl(key, ..)
            | Op::Persist(key)
            | Op::Type(key)
            | Op::ZCard(key) => push(key.bytes()),
            Op::GetRange(key, a, b) => [key.bytes(), &a.text(), &b.text()].into_iter().for_each(push),
            Op::SetRange(key, offset, text) => {
                [key.bytes(), &offset.text(), &text.bytes()].into_iter().for_each(push);
            }
            Op::IncrBy(key, by) | Op::DecrBy(key, by) => {
                push(key.bytes());
                push(&by.text());
            }
            Op::MSet(pairs) | Op::MSetNx(pairs) => {
                for (key, text) in &pairs.0 {
                    push(key.bytes());
                    push(&text.bytes());
                }
            }
            Op::MGet(keys) | Op::Del(keys) | Op::Exists(keys) => {
                keys.0.iter().for_each(|key| push(key.bytes()));
            }
            Op::Expire { key, amount, flags, .. } => {
                push(key.bytes());
                push(&amount.text());
                flags.words().for_each(|word| push(&word));
            }
            Op::Rename { from, to, .. } => [from, to].into_iter().for_each(|key| push(key.bytes())),
            Op::Copy { from, to, replace } => {
                [from, to].into_iter().for_each(|key| push(key.bytes()));
                replace.then(|| push(b"REPLACE"));
            }
            Op::ZAdd { key, flags, ch, incr, pairs } => {
                push(key.bytes());
                flags.words().for_each(|word| push(&word));
                ch.then(|| push(b"CH"));
                incr.then(|| push(b"INCR"));
                for (score, member) in &pairs.0 {
                    push(&score.text());
                    push(&member.bytes());
                }
            }
            Op::ZIncrBy(key, by, member) => {
                [key.bytes(), &by.text(), &member.bytes()].into_iter().for_each(push);
            }
            Op::ZScore(key, member) | Op::ZRank { key, member, .. } => {
                push(key.bytes());
                push(&member.bytes());
            }
            Op::ZMScore(key, members) | Op::ZRem(key, members) => {
                push(key.bytes());
                members.0.iter().for_each(|member| push(&member.bytes()));
            }
            Op::ZCount(key, range) | Op::ZRemRange(key, range) => {
                push(key.bytes());
                range.texts().iter().for_each(|text| push(text));
            }
            Op::ZPop { key, count, .. } => {
                push(key.bytes());
                count.iter().for_each(|count| push(&count.text()));
            }
            Op::ZRange { key, range, reverse, limit, with_scores } => {
                push(key.bytes());
                range.arguments(*reverse).iter().for_each(|word| push(word));
                if let Some((offset, count)) = limit {
                    [b"LIMIT", &offset.text()[..], &count.text()].into_iter().for_each(&mut push);
                }
                with_scores.then(|| push(b"WITHSCORES"));
            }
            Op::ZRangeStore { to, key, range, reverse } => {
                [to, key].into_iter().for_each(|key| push(key.bytes()));
                range.arguments(*reverse).iter().for_each(|word| push(word));
            }
            Op::Combine { how, to, inputs, weights, aggregate } => {
                to.iter().for_each(|key| push(key.bytes()));
                push(inputs.0.len().to_string().as_bytes());
                inputs.0.iter().for_each(|(key, _)| push(key.bytes()));
                let is_weighed = *how != Combination::Difference;
                if *weights && is_weighed {
                    push(b"WEIGHTS");
                    inputs.0.iter().for_each(|(_, weight)| push(&weight.text()));
                }
                if let (Some(aggregate), true) = (aggregate, is_weighed) {
                    push(b"AGGREGATE");
                    push(format!("{aggregate:?}").as_bytes());
                }
                to.is_none().then(|| push(b"WITHSCORES"));
            }
        }
        Some(argv)
    }

    /// The name of the command, as in error messages.
    pub fn name(&self) -> Option<&'static str> {
        use Start::{Epoch, Now};
        use Unit::{Millis, Seconds};
        Some(match self {
            Op::Advance(_) | Op::AdvanceSeconds(_) => return None,
            Op::Set { .. } => "set",
            Op::SetNx(..) => "setnx",
            Op::SetEx(_, _, Seconds, _) => "setex",
            Op::SetEx(_, _, Millis, _) => "psetex",
            Op::Get(_) => "get",
            Op::GetSet(..) => "getset",
            Op::GetEx(..) => "getex",
            Op::GetDel(_) => "getdel",
            Op::StrLen(_) => "strlen",
            Op::GetRange(..) => "getrange",
            Op::SetRange(..) => "setrange",
            Op::Append(..) => "append",
            Op::Incr(_) => "incr",
            Op::Decr(_) => "decr",
            Op::IncrBy(..) => "incrby",
            Op::DecrBy(..) => "decrby",
            Op::MSet(_) => "mset",
            Op::MSetNx(_) => "msetnx",
            Op::MGet(_) => "mget",
            Op::Expire { unit: Seconds, from: Now, .. } => "expire",
            Op::Expire { unit: Millis, from: Now, .. } => "pexpire",
            Op::Expire { unit: Seconds, from: Epoch, .. } => "expireat",
            Op::Expire { unit: Millis, from: Epoch, .. } => "pexpireat",
            Op::Ttl(_, Seconds, Now) => "ttl",
            Op::Ttl(_, Millis, Now) => "pttl",
            Op::Ttl(_, Seconds, Epoch) => "expiretime",
            Op::Ttl(_, Millis, Epoch) => "pexpiretime",
            Op::Persist(_) => "persist",
            Op::Del(_) => "del",
            Op::Exists(_) => "exists",
            Op::Rename { nx: false, .. } => "rename",
            Op::Rename { nx: true, .. } => "renamenx",
            Op::Copy { .. } => "copy",
            Op::Type(_) => "type",
            Op::DbSize => "dbsize",
            Op::ZAdd { .. } => "zadd",
            Op::ZIncrBy(..) => "zincrby",
            Op::ZScore(..) => "zscore",
            Op::ZMScore(..) => "zmscore",
            Op::ZRank { reverse: false, .. } => "zrank",
            Op::ZRank { reverse: true, .. } => "zrevrank",
            Op::ZCard(_) => "zcard",
            Op::ZCount(_, Range::Lex(..)) => "zlexcount",
            Op::ZCount(..) => "zcount",
            Op::ZRem(..) => "zrem",
            Op::ZPop { max: false, .. } => "zpopmin",
            Op::ZPop { max: true, .. } => "zpopmax",
            Op::ZRange { .. } => "zrange",
            Op::ZRangeStore { .. } => "zrangestore",
            Op::ZRemRange(_, Range::Rank(..)) => "zremrangebyrank",
            Op::ZRemRange(_, Range::Score(..)) => "zremrangebyscore",
            Op::ZRemRange(_, Range::Lex(..)) => "zremrangebylex",
            Op::Combine { how: Combination::Union, to: None, .. } => "zunion",
            Op::Combine { how: Combination::Union, to: Some(_), .. } => "zunionstore",
            Op::Combine { how: Combination::Intersection, to: None, .. } => "zinter",
            Op::Combine { how: Combination::Intersection, to: Some(_), .. } => "zinterstore",
            Op::Combine { how: Combination::Difference, to: None, .. } => "zdiff",
            Op::Combine { how: Combination::Difference, to: Some(_), .. } => "zdiffstore",
        })
    }
}

fn expiry_words(expiry: Expiry, keep: &str) -> Vec<Vec<u8>> {
    match expiry {
        Expiry::None => Vec::new(),
        Expiry::Keep => vec![keep.into()],
        Expiry::At(amount, unit, from) => {
            let word = match (unit, from) {
                (Unit::Seconds, Start::Now) => "EX",
                (Unit::Millis, Start::Now) => "PX",
                (Unit::Seconds, Start::Epoch) => "EXAT",
                (Unit::Millis, Start::Epoch) => "PXAT",
            };
            vec![word.into(), amount.text()]
        }
    }
}
