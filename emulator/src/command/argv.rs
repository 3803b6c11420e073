//! The arguments of a command, and what commands parse from them.

use std::ops::{Range, RangeInclusive};

use bytes::Bytes;
use smallvec::SmallVec;

use crate::error::{self, Error};

/// The arguments of a command, its name first.
pub type Argv<'a> = [&'a [u8]];

/// Borrows owned arguments as [`Argv`].
pub(crate) fn borrow(argv: &[Bytes]) -> SmallVec<[&[u8]; 8]> {
    argv.iter().map(AsRef::as_ref).collect()
}

/// Copies arguments.
pub(super) fn own(argv: &Argv<'_>) -> Vec<Bytes> {
    argv.iter().map(|arg| Bytes::copy_from_slice(arg)).collect()
}

/// Whether an argument is this word, in any case.
pub(crate) fn is_word(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// Parses an argument that is a 64-bit integer.
pub(crate) fn integer(arg: &[u8]) -> Result<i64, Error> {
    crate::parse::parse_integer(arg).ok_or(error::NOT_AN_INTEGER)
}

/// Parses an argument that is an integer within these bounds. Otherwise it returns this error.
pub(crate) fn integer_within(arg: &[u8], bounds: RangeInclusive<i64>, error: Error) -> Result<i64, Error> {
    crate::parse::parse_integer(arg).filter(|integer| bounds.contains(integer)).ok_or(error)
}

/// Parses an argument that is a count: 0 or more.
pub(crate) fn count(arg: &[u8]) -> Result<usize, Error> {
    integer_within(arg, 0..=i64::MAX, error::NOT_POSITIVE).map(|count| count as usize)
}

/// Returns the part of the places from `first` to `last`, both included, that exists in a value of
/// this length. A negative place counts from the end.
pub(crate) fn index_range(first: i64, last: i64, len: usize) -> Range<usize> {
    let len = len as i64;
    let from_front = |index: i64| if index < 0 { index + len } else { index };
    let (first, last) = (from_front(first).max(0), from_front(last).min(len - 1));
    if first > last { 0..0 } else { first as usize..last as usize + 1 }
}
