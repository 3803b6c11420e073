//! Commands that move elements from one list to another.

use bytes::Bytes;

use super::super::multi_pop::PopEnd as _;
use super::super::{Argv, Ctx, Outcome};
use super::end::{End, push_all};
use super::pop::take;
use crate::error::Error;
use crate::keyspace::List;
use crate::reply::Reply;

/// `LMOVE source destination <LEFT | RIGHT> <LEFT | RIGHT>`
pub(super) fn lmove(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Ok(move_element(ctx, argv, ends(argv)?)?.unwrap_or(Reply::Nil))
}

/// `RPOPLPUSH source destination`
pub(super) fn rpoplpush(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Ok(move_element(ctx, argv, [End::Tail, End::Head])?.unwrap_or(Reply::Nil))
}

/// Parses the two ends of LMOVE.
pub(super) fn ends(argv: &Argv<'_>) -> Result<[End; 2], Error> {
    Ok([End::parse(argv[3])?, End::parse(argv[4])?])
}

/// Moves an element from an end of the first list to an end of the second, which may be the same
/// list. `None` if the first does not exist.
pub(super) fn move_element(
    ctx: &mut Ctx<'_>,
    argv: &Argv<'_>,
    [from, to]: [End; 2],
) -> Result<Option<Reply>, Error> {
    let element =
        ctx.db().lookup_as::<List>(argv[1])?.and_then(|list| from.peek(list)).map(Bytes::copy_from_slice);
    let Some(element) = element else { return Ok(None) };
    // The element is pushed before it is popped. This is also the order of Redis's events.
    push_all(ctx.db().edit_or_create::<List>(argv[2])?, &[&element], to);
    if let Some(source) = ctx.db().edit::<List>(argv[1])? {
        take(source, from, 1);
    }
    Ok(Some(Reply::Bulk(element)))
}
