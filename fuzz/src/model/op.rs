//! The commands of the model as types. `arbitrary` makes each from bytes, and each can produce its
//! arguments.

use arbitrary::Arbitrary;

use super::arguments::{
    Aggregate, Combination, Expiry, Flags, Key, Member, Number, Range, Score, Some1, Start, Text, Unit, words,
};

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
        let name = self.name()?.split(' ').map(Vec::from);
        Some(name.chain(self.arguments()).collect())
    }

    fn arguments(&self) -> Vec<Vec<u8>> {
        match self {
            Op::Advance(_) | Op::AdvanceSeconds(_) | Op::DbSize => words(&[]),
            Op::Set { key, text, must_exist, get, expiry } => {
                let condition = must_exist.map(|xx| if xx { "XX" } else { "NX" });
                words(&[key, text, &condition, &get.then_some("GET"), &expiry.words("KEEPTTL")])
            }
            Op::GetEx(key, expiry) => words(&[key, &expiry.words("PERSIST")]),
            Op::SetEx(key, amount, _, text) => words(&[key, amount, text]),
            Op::SetNx(key, text) | Op::GetSet(key, text) | Op::Append(key, text) => words(&[key, text]),
            Op::Get(key)
            | Op::GetDel(key)
            | Op::StrLen(key)
            | Op::Incr(key)
            | Op::Decr(key)
            | Op::Ttl(key, ..)
            | Op::Persist(key)
            | Op::Type(key)
            | Op::ZCard(key) => words(&[key]),
            Op::GetRange(key, start, end) => words(&[key, start, end]),
            Op::SetRange(key, offset, text) => words(&[key, offset, text]),
            Op::IncrBy(key, by) | Op::DecrBy(key, by) => words(&[key, by]),
            Op::MSet(pairs) | Op::MSetNx(pairs) => words(&[pairs]),
            Op::MGet(keys) | Op::Del(keys) | Op::Exists(keys) => words(&[keys]),
            Op::Expire { key, amount, flags, .. } => words(&[key, amount, flags]),
            Op::Rename { from, to, .. } => words(&[from, to]),
            Op::Copy { from, to, replace } => words(&[from, to, &replace.then_some("REPLACE")]),
            Op::ZAdd { key, flags, ch, incr, pairs } => {
                words(&[key, flags, &ch.then_some("CH"), &incr.then_some("INCR"), pairs])
            }
            Op::ZIncrBy(key, by, member) => words(&[key, by, member]),
            Op::ZScore(key, member) | Op::ZRank { key, member, .. } => words(&[key, member]),
            Op::ZMScore(key, members) | Op::ZRem(key, members) => words(&[key, members]),
            Op::ZCount(key, range) | Op::ZRemRange(key, range) => words(&[key, range]),
            Op::ZPop { key, count, .. } => words(&[key, count]),
            Op::ZRange { key, range, reverse, limit, with_scores } => {
                let limit = limit.map(|limit| ("LIMIT", limit));
                words(&[key, &range.zrange_words(*reverse), &limit, &with_scores.then_some("WITHSCORES")])
            }
            Op::ZRangeStore { to, key, range, reverse } => words(&[to, key, &range.zrange_words(*reverse)]),
            Op::Combine { how, to, inputs, weights, aggregate } => {
                let is_weighed = *how != Combination::Difference;
                let (keys, factors): (Vec<_>, Vec<_>) = inputs.0.iter().copied().unzip();
                let weights = (*weights && is_weighed).then_some(("WEIGHTS", factors));
                let aggregate = aggregate.filter(|_| is_weighed);
                let aggregate = aggregate.map(|aggregate| ("AGGREGATE", format!("{aggregate:?}")));
                let with_scores = to.is_none().then_some("WITHSCORES");
                words(&[to, &keys.len().to_string(), &keys, &weights, &aggregate, &with_scores])
            }
        }
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
