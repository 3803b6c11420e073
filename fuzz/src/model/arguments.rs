//! The arguments of the model's commands. `arbitrary` makes each from bytes, and each can produce
//! the words that are sent.

use arbitrary::{Arbitrary, Unstructured};

/// A part of a command that is sent as any number of words.
pub trait Argument {
    fn words(&self) -> Vec<Vec<u8>>;
}

/// The words of all arguments of a command.
pub fn words(arguments: &[&dyn Argument]) -> Vec<Vec<u8>> {
    arguments.iter().flat_map(|argument| argument.words()).collect()
}

impl Argument for &str {
    fn words(&self) -> Vec<Vec<u8>> {
        vec![(*self).into()]
    }
}

impl Argument for String {
    fn words(&self) -> Vec<Vec<u8>> {
        vec![self.clone().into()]
    }
}

/// Words that are already made.
impl Argument for Vec<Vec<u8>> {
    fn words(&self) -> Vec<Vec<u8>> {
        self.clone()
    }
}

impl<T: Argument> Argument for Vec<T> {
    fn words(&self) -> Vec<Vec<u8>> {
        self.iter().flat_map(T::words).collect()
    }
}

impl<T: Argument> Argument for Option<T> {
    fn words(&self) -> Vec<Vec<u8>> {
        self.iter().flat_map(T::words).collect()
    }
}

impl<A: Argument, B: Argument> Argument for (A, B) {
    fn words(&self) -> Vec<Vec<u8>> {
        [self.0.words(), self.1.words()].concat()
    }
}

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

impl Argument for Key {
    fn words(&self) -> Vec<Vec<u8>> {
        vec![self.bytes().into()]
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

impl Argument for Member {
    fn words(&self) -> Vec<Vec<u8>> {
        vec![self.bytes()]
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

impl Argument for Number {
    fn words(&self) -> Vec<Vec<u8>> {
        vec![self.text()]
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

impl Argument for Text {
    fn words(&self) -> Vec<Vec<u8>> {
        vec![self.bytes()]
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

impl<T: Argument> Argument for Some1<T> {
    fn words(&self) -> Vec<Vec<u8>> {
        self.0.words()
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

impl Argument for Score {
    fn words(&self) -> Vec<Vec<u8>> {
        vec![self.text()]
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

impl Expiry {
    /// The words of SET or GETEX, which have different words for `Expiry::Keep`.
    pub fn words(self, keep: &str) -> Vec<Vec<u8>> {
        match self {
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
    fn ends(self) -> [Vec<u8>; 2] {
        match self {
            Range::Rank(first, last) => [first.text(), last.text()],
            Range::Score(min, max) => [min.text(), max.text()],
            Range::Lex(min, max) => [min.text(), max.text()],
        }
    }

    /// The words of ZRANGE for this range, with its `BYSCORE` or `BYLEX`.
    pub fn zrange_words(self, is_reverse: bool) -> Vec<Vec<u8>> {
        let [min, max] = self.ends();
        let (by, swaps) = match self {
            Range::Rank(..) => (None, false),
            Range::Score(..) => (Some("BYSCORE"), is_reverse),
            Range::Lex(..) => (Some("BYLEX"), is_reverse),
        };
        let ends = if swaps { [max, min] } else { [min, max] };
        ends.into_iter().chain(by.map(Vec::from)).chain(is_reverse.then(|| b"REV".into())).collect()
    }
}

/// The ends alone, for commands whose names say by which order they select.
impl Argument for Range {
    fn words(&self) -> Vec<Vec<u8>> {
        self.ends().into()
    }
}

#[derive(Arbitrary, Clone, Copy, Debug, Default)]
pub struct Flags {
    pub nx: bool,
    pub xx: bool,
    pub gt: bool,
    pub lt: bool,
}

impl Argument for Flags {
    fn words(&self) -> Vec<Vec<u8>> {
        let flags = [(self.nx, "NX"), (self.xx, "XX"), (self.gt, "GT"), (self.lt, "LT")];
        flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, word)| word.into()).collect()
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
