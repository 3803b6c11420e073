//! Commands that pop from the first of several keys that is not empty: `LMPOP`, `ZMPOP` and their
//! blocking variants.

use super::blocking::{Wait, seconds, serve_or_wait};
use super::{Argv, Ctx, Outcome, integer_within, is_word};
use crate::error::{self, Error};
use crate::keyspace::ValueType;
use crate::reply::Reply;

/// An end of a value from which a command pops.
pub(super) trait PopEnd: Copy {
    type Value: ValueType;

    /// Parses the name of an end, in any case.
    fn parse(word: &[u8]) -> Result<Self, Error>;

    /// Pops up to `count` items from this end of one key. The reply has the key in front; `None` if
    /// there is nothing.
    fn pop_from(self, ctx: &mut Ctx<'_>, key: &[u8], count: usize) -> Result<Option<Reply>, Error>;
}

/// Pops from the first key that is not empty. `args` begins with `numkeys`.
pub(super) fn multi_pop<End: PopEnd>(ctx: &mut Ctx<'_>, args: &Argv<'_>) -> Outcome {
    let MultiPop { keys, end, count } = MultiPop::<End>::parse(args)?;
    for key in keys {
        if let Some(reply) = end.pop_from(ctx, key, count)? {
            return Ok(reply);
        }
    }
    Ok(Reply::NilArray)
}

/// Like [`multi_pop`], but with a timeout before `numkeys`, until which it waits.
pub(super) fn multi_pop_or_wait<End: PopEnd>(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let keys = MultiPop::<End>::parse(&argv[2..])?.keys;
    let wait = Wait { deadline: seconds(ctx, argv[1])?, on_timeout: Reply::NilArray };
    serve_or_wait::<End::Value>(ctx, argv, keys, wait, |ctx, argv, key| {
        let MultiPop { end, count, .. } = MultiPop::<End>::parse(&argv[2..])?;
        end.pop_from(ctx, key, count)
    })
}

/// `numkeys key [key ...] <end> [COUNT count]`
struct MultiPop<'a, 'b, End> {
    keys: &'a Argv<'b>,
    end: End,
    count: usize,
}

impl<'a, 'b, End: PopEnd> MultiPop<'a, 'b, End> {
    fn parse(args: &'a Argv<'b>) -> Result<MultiPop<'a, 'b, End>, Error> {
        let numkeys = integer_within(args[0], 1..=i64::MAX, error::NUMKEYS_NOT_POSITIVE)?;
        let (keys, rest) = args[1..].split_at_checked(numkeys as usize).ok_or(error::SYNTAX)?;
        let (word, options) = rest.split_first().ok_or(error::SYNTAX)?;
        let end = End::parse(word)?;
        let count = match options {
            [] => 1,
            [option, count, rest @ ..] if is_word(option, "count") => {
                let count = integer_within(count, 1..=i64::MAX, error::COUNT_NOT_POSITIVE)?;
                if rest.is_empty() { count } else { return Err(error::SYNTAX) }
            }
            _ => return Err(error::SYNTAX),
        };
        Ok(MultiPop { keys, end, count: count as usize })
    }
}
