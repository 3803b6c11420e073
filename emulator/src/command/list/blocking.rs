//! Commands that pop elements, and wait if there are none.

use super::super::blocking::{Serve, Wait, pop_or_wait, seconds, serve_or_wait};
use super::super::multi_pop::multi_pop_or_wait;
use super::super::{Argv, Ctx, Outcome};
use super::end::End;
use super::lmove::{ends, move_element};
use super::pop::pop_with_key;
use crate::keyspace::List;
use crate::reply::Reply;

/// `BLPOP key [key ...] timeout`
pub(super) fn blpop(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    pop_or_wait::<List>(ctx, argv, |ctx, _, key| pop_with_key(ctx, key, End::Head))
}

/// `BRPOP key [key ...] timeout`
pub(super) fn brpop(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    pop_or_wait::<List>(ctx, argv, |ctx, _, key| pop_with_key(ctx, key, End::Tail))
}

/// `BLMPOP timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]`
pub(super) fn blmpop(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    multi_pop_or_wait::<End>(ctx, argv)
}

/// `BLMOVE source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout`
pub(super) fn blmove(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    ends(argv)?;
    move_or_wait(ctx, argv, |ctx, argv, _| {
        let moved = move_element(ctx, argv, ends(argv)?)?;
        if moved.is_some() {
            ctx.replicate_as(&[&"LMOVE", &argv[1], &argv[2], &argv[3], &argv[4]]);
        }
        Ok(moved)
    })
}

/// `BRPOPLPUSH source destination timeout`
pub(super) fn brpoplpush(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    move_or_wait(ctx, argv, |ctx, argv, _| {
        let moved = move_element(ctx, argv, [End::Tail, End::Head])?;
        if moved.is_some() {
            ctx.replicate_as(&[&"RPOPLPUSH", &argv[1], &argv[2]]);
        }
        Ok(moved)
    })
}

/// Moves an element or waits. If the client cannot wait, the reply is `Nil` and not the `NilArray`
/// of a timeout.
fn move_or_wait(ctx: &mut Ctx<'_>, argv: &Argv<'_>, serve: Serve) -> Outcome {
    let deadline = seconds(ctx, argv[argv.len() - 1])?;
    let on_timeout = if ctx.client.can_wait() { Reply::NilArray } else { Reply::Nil };
    serve_or_wait::<List>(ctx, argv, &argv[1..2], Wait { deadline, on_timeout }, serve)
}
