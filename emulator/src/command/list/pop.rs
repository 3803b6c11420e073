//! Commands that pop elements.

use bytes::Bytes;

use super::super::multi_pop::{PopEnd, multi_pop};
use super::super::{Argv, Ctx, Outcome, count, is_word};
use super::end::End;
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
    multi_pop::<End>(ctx, &argv[1..])
}

/// Pops up to this many elements.
pub(super) fn take(mut edit: Edit<'_, List>, end: End, count: usize) -> Vec<Bytes> {
    let taken = end.take(edit.write(), count);
    edit.answer();
    edit.notify(Class::List, end.popped());
    taken
}

/// Pops one element of a list. The reply has the key, too; `None` if the list does not exist.
pub(super) fn pop_with_key(ctx: &mut Ctx<'_>, key: &[u8], end: End) -> Result<Option<Reply>, Error> {
    let list = ctx.db().edit::<List>(key)?;
    let element = list.and_then(|list| take(list, end, 1).pop());
    if element.is_some() {
        ctx.replicate_as(&[&end.popped().to_ascii_uppercase(), &key]);
    }
    Ok(element.map(|element| Reply::Array(vec![Reply::bulk(key), Reply::Bulk(element)])))
}

impl PopEnd for End {
    type Value = List;

    /// `LEFT` or `RIGHT`
    fn parse(word: &[u8]) -> Result<End, Error> {
        match () {
            () if is_word(word, "left") => Ok(End::Head),
            () if is_word(word, "right") => Ok(End::Tail),
            () => Err(error::SYNTAX),
        }
    }

    fn pop_from(self, ctx: &mut Ctx<'_>, key: &[u8], count: usize) -> Result<Option<Reply>, Error> {
        let Some(list) = ctx.db().edit::<List>(key)? else { return Ok(None) };
        let taken = take(list, self, count);
        ctx.replicate_as(&[&self.popped().to_ascii_uppercase(), &key, &taken.len().to_string()]);
        Ok(Some(Reply::Array(vec![Reply::bulk(key), array(taken)])))
    }
}

fn array(elements: Vec<Bytes>) -> Reply {
    Reply::Array(elements.into_iter().map(Reply::Bulk).collect())
}
