//! What the commands are asked that pop from the first of several keys: `LMPOP`, `ZMPOP` and those that wait.

use super::{Argv, Ctx, Outcome, integer_within, is_word};
use crate::error::{self, Error};
use crate::reply::Reply;

/// Pops up to so many from this end of one key; `None` if there is nothing.
type PopFrom<End> = fn(&mut Ctx<'_>, &[u8], End, usize) -> Result<Option<Reply>, Error>;

/// `numkeys key [key ...] <end> [COUNT count]`
pub(super) struct MultiPop<'a, 'b, End> {
    pub(super) keys: &'a Argv<'b>,
    pub(super) end: End,
    pub(super) count: usize,
}

impl<'a, 'b, End> MultiPop<'a, 'b, End> {
    /// The arguments from `numkeys` on, with the words that name an end.
    pub(super) fn parse(
        args: &'a Argv<'b>,
        end: fn(&[u8]) -> Result<End, Error>,
    ) -> Result<MultiPop<'a, 'b, End>, Error> {
        let numkeys = integer_within(args[0], 1..=i64::MAX, error::NUMKEYS_NOT_POSITIVE)?;
        let (keys, rest) = args[1..].split_at_checked(numkeys as usize).ok_or(error::SYNTAX)?;
        let (word, options) = rest.split_first().ok_or(error::SYNTAX)?;
        let end = end(word)?;
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

    /// What there is to pop under the first key that has anything.
    pub(super) fn pop(self, ctx: &mut Ctx<'_>, pop_from: PopFrom<End>) -> Outcome
    where
        End: Copy,
    {
        for key in self.keys {
            if let Some(reply) = pop_from(ctx, key, self.end, self.count)? {
                return Ok(reply);
            }
        }
        Ok(Reply::NilArray)
    }
}
