//! The common parts of `SRANDMEMBER`, `HRANDFIELD` and `ZRANDMEMBER`: how many items are requested,
//! and the random choice.

use super::{Argv, integer, is_word};
use crate::error::{self, Error};
use crate::keyspace::{Edit, ValueType};
use crate::reply::Reply;

/// The limits on picks with repetitions: their number, and their bytes. Redis continues until it is
/// out of memory.
const REPEATED_MAX: u64 = 1 << 20;
const REPEATED_BYTES_MAX: usize = 512 << 20;

/// Parses `[count [word]]`: the count, if there is one, and whether each item comes with a second
/// part.
///
/// A negative count allows repetitions.
pub(super) fn options(args: &Argv<'_>, word: &str) -> Result<(Option<i64>, bool), Error> {
    Ok(match args {
        [] => (None, false),
        [wanted] => (Some(count(wanted)?), false),
        [wanted, rest @ ..] => {
            let wanted = count(wanted)?;
            if !matches!(rest, [given] if is_word(given, word)) {
                return Err(error::SYNTAX);
            }
            // Redis doubles the count, so half of the range is refused.
            if wanted.unsigned_abs() > (i64::MAX / 2).unsigned_abs() {
                return Err(error::OUT_OF_RANGE);
            }
            (Some(wanted), true)
        }
    })
}

/// Parses the number of requested items.
pub(super) fn count(arg: &[u8]) -> Result<i64, Error> {
    match integer(arg)? {
        i64::MIN => Err(error::out_of_bounds(-i64::MAX, i64::MAX)),
        wanted => Ok(wanted),
    }
}

/// The reply if there is nothing to pick from.
pub(super) fn nothing(wanted: Option<i64>) -> Reply {
    wanted.map_or(Reply::Nil, |_| Reply::Array(Vec::new()))
}

/// Picks one of `len` places. If there is only one, no random number is drawn.
pub(super) fn one<T: ValueType>(edit: &mut Edit<'_, T>, len: usize) -> usize {
    match len {
        1 => 0,
        len => edit.random().index(len),
    }
}

/// Picks as many of `len` places as requested. If there are no more than that, these are all
/// places, in order.
///
/// With repetitions a small count could make a reply of any size. So there `bytes_of` gives the
/// size of each picked item, and the sum is limited.
pub(super) fn some<T: ValueType>(
    edit: &mut Edit<'_, T>,
    len: usize,
    wanted: i64,
    bytes_of: impl Fn(&T, usize) -> usize,
) -> Result<Vec<usize>, Error> {
    Ok(match wanted {
        0 => Vec::new(),
        ..0 => {
            if wanted.unsigned_abs() > REPEATED_MAX {
                return Err(error::PICKED_TOO_MANY);
            }
            let random = edit.random();
            let picked: Vec<usize> = (wanted..0).map(|_| random.index(len)).collect();
            if picked.iter().map(|&idx| bytes_of(edit.get(), idx)).sum::<usize>() > REPEATED_BYTES_MAX {
                return Err(error::PICKED_TOO_MANY);
            }
            picked
        }
        _ if wanted >= len as i64 => (0..len).collect(),
        _ => edit.random().distinct_indices(len, wanted as usize),
    })
}
