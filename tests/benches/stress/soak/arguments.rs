//! The arguments of commands, and how Redis reads numbers, indexes and ranges in them.

/// The name of a command and its arguments.
pub(super) type Argv = Vec<Vec<u8>>;

pub(super) fn name(argv: &[Vec<u8>]) -> &str {
    str::from_utf8(&argv[0]).expect("names of commands are drawn as text")
}

/// An argument that was drawn as a number.
pub(super) fn number(arg: &[u8]) -> i64 {
    integer(arg).expect("it is drawn as a number")
}

/// A number in the form in which Redis stores it: without extra signs, zeros or blanks.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let number: i64 = str::from_utf8(text).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text).then_some(number)
}

/// The position of an index. A negative index counts from the end.
pub(super) fn index(len: usize, arg: &[u8]) -> Option<usize> {
    let idx = number(arg);
    let idx = if idx < 0 { idx + len as i64 } else { idx };
    usize::try_from(idx).ok().filter(|idx| *idx < len)
}

/// The bytes from one index to another, both included. If the end is before the start of the text,
/// GETRANGE uses the first byte as the end.
pub(super) fn text_range(len: usize, first: &[u8], last: &[u8]) -> std::ops::Range<usize> {
    let (from, to) = (number(first), number(last));
    if from < 0 && to < 0 && from > to {
        0..0
    } else {
        range(len, first, to.max(-(len as i64)).to_string().as_bytes())
    }
}

/// The elements from one index to another, both included.
pub(super) fn range(len: usize, first: &[u8], last: &[u8]) -> std::ops::Range<usize> {
    let from_start = |arg| {
        let idx = number(arg);
        if idx < 0 { idx + len as i64 } else { idx }
    };
    let first = from_start(first).max(0) as usize;
    let end = (from_start(last) + 1).clamp(0, len as i64) as usize;
    if first < end { first..end } else { 0..0 }
}
