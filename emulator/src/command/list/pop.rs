//! Elements that are taken off.

use bytes::Bytes;

use super::super::{Argv, Ctx, Outcome, count, integer_within, is_word};
use super::End;
use crate::error::{self, Error};
use crate::keyspace::{Class, Edit, List};
use crate::reply::Reply;

/// `LPOP key [count]`, and RPOP
pub(super) fn pop(ctx: &mut Ctx<'_>, argv: &Argv<'_>, end: End) -> Outcome {
    if argv.len() > 3 {
        return Err(error::wrong_arity(ctx.row.name));
    }
    let wanted = argv.get(2).map(|arg| count(arg)).transpose()?;
    let list = ctx.db().edit::<List>(argv[1])?;
    Ok(match (wanted, list) {
        (None, None) => Reply::Nil,
        (Some(_), None) => Reply::NilArray,
        (None, Some(list)) => Reply::bulk_or_nil(take(list, end, 1).pop()),
        (Some(0), Some(_)) => Reply::Array(Vec::new()),
        (Some(wanted), Some(list)) => array(take(list, end, wanted)),
    })
}

/// `LMPOP numkeys key [key ...] <LEFT | RIGHT> [COUNT count]`
pub(super) fn lmpop(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let options = MultiPop::parse(&argv[1..])?;
    for key in options.keys {
        if let Some(reply) = options.pop(ctx, key)? {
            return Ok(reply);
        }
    }
    Ok(Reply::NilArray)
}

/// Takes up to this many elements off.
pub(super) fn take(mut edit: Edit<'_, List>, end: End, count: usize) -> Vec<Bytes> {
    let taken = end.take(edit.write(), count);
    edit.notify(Class::List, end.popped());
    taken
}

/// One element of a list, with the key; `None` without the list.
pub(super) fn pop_with_key(ctx: &mut Ctx<'_>, key: &[u8], end: End) -> Result<Option<Reply>, Error> {
    let list = ctx.db().edit::<List>(key)?;
    let element = list.and_then(|list| take(list, end, 1).pop());
    Ok(element.map(|element| Reply::Array(vec![Reply::bulk(key), Reply::Bulk(element)])))
}

/// What LMPOP is to do: `numkeys key [key ...] <LEFT | RIGHT> [COUNT count]`.
pub(super) struct MultiPop<'a, 'b> {
    /// The keys, of which one is served.
    pub(super) keys: &'a Argv<'b>,
    end: End,
    count: usize,
}

impl<'a, 'b> MultiPop<'a, 'b> {
    /// From the arguments, beginning with `numkeys`.
    pub(super) fn parse(args: &'a Argv<'b>) -> Result<MultiPop<'a, 'b>, Error> {
        let numkeys = integer_within(args[0], 1..=i64::MAX, error::NUMKEYS_NOT_POSITIVE)?;
        let (keys, rest) = args[1..].split_at_checked(numkeys as usize).ok_or(error::SYNTAX)?;
        let (end, options) = rest.split_first().ok_or(error::SYNTAX)?;
        let end = End::parse(end)?;
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

    /// Elements of one list, with its key; `None` without the list.
    pub(super) fn pop(&self, ctx: &mut Ctx<'_>, key: &[u8]) -> Result<Option<Reply>, Error> {
        let list = ctx.db().edit::<List>(key)?;
        Ok(list.map(|list| Reply::Array(vec![Reply::bulk(key), array(take(list, self.end, self.count))])))
    }
}

fn array(elements: Vec<Bytes>) -> Reply {
    Reply::Array(elements.into_iter().map(Reply::Bulk).collect())
}
