//! What `SRANDMEMBER`, `HRANDFIELD` and `ZRANDMEMBER` share: how many are wanted, and which ones chance picks.

use super::{Argv, integer, is_word};
use crate::error::{self, Error};
use crate::keyspace::{Edit, Kind};
use crate::reply::Reply;

/// Most picks with repetitions, and most bytes in them; Redis goes on until it has no memory left.
const REPEATED_MAX: u64 = 1 << 20;
const REPEATED_BYTES_MAX: usize = 512 << 20;

/// `[count [word]]`: how many are wanted, where that is said, and whether each comes with a second part. A negative count
/// allows for repetitions.
pub(super) fn options(args: &Argv<'_>, word: &str) -> Result<(Option<i64>, bool), Error> {
    Ok(match args {
        [] => (None, false),
        [wanted] => (Some(count(wanted)?), false),
        [wanted, rest @ ..] => {
            let wanted = count(wanted)?;
            if !matches!(rest, [given] if is_word(given, word)) {
                return Err(error::SYNTAX);
            }
            // Redis doubles it.
            if wanted.unsigned_abs() > (i64::MAX / 2).unsigned_abs() {
                return Err(error::OUT_OF_RANGE);
            }
            (Some(wanted), true)
        }
    })
}

/// An argument that says how many are wanted.
pub(super) fn count(arg: &[u8]) -> Result<i64, Error> {
    match integer(arg)? {
        i64::MIN => Err(error::out_of_bounds(-i64::MAX, i64::MAX)),
        wanted => Ok(wanted),
    }
}

/// The answer where there is nothing to pick from.
pub(super) fn nothing(wanted: Option<i64>) -> Reply {
    wanted.map_or(Reply::Nil, |_| Reply::Array(Vec::new()))
}

/// One place of this many. Where there is but one, nothing is left to chance.
pub(super) fn one<T: Kind>(edit: &mut Edit<'_, T>, len: usize) -> usize {
    match len {
        1 => 0,
        len => edit.random().index(len),
    }
}

/// As many places of this many as are wanted: all of them, in order, where there are no more. With repetitions a count alone could
/// make a reply of any size, so there `bytes_of` what stands at a place is looked at.
pub(super) fn some<T: Kind>(
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
