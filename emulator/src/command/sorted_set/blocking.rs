//! The commands that pop members and wait if there are none.

use super::super::blocking::{Serve, Wait, seconds, serve_or_wait};
use super::super::multi_pop::MultiPop;
use super::super::{Argv, Ctx, Outcome};
use super::pop::{End, pop_from, pop_one_from};
use crate::keyspace::ZSet;
use crate::reply::Reply;

/// `BZPOPMIN key [key ...] timeout`
pub(super) fn bzpopmin(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    pop_or_wait(ctx, argv, |ctx, _, key| pop_one_from(ctx, key, End::Min))
}

/// `BZPOPMAX key [key ...] timeout`
pub(super) fn bzpopmax(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    pop_or_wait(ctx, argv, |ctx, _, key| pop_one_from(ctx, key, End::Max))
}

fn pop_or_wait(ctx: &mut Ctx<'_>, argv: &Argv<'_>, serve: Serve) -> Outcome {
    let last = argv.len() - 1;
    let wait = Wait { deadline: seconds(ctx, argv[last])?, on_timeout: Reply::NilArray };
    serve_or_wait::<ZSet>(ctx, argv, &argv[1..last], wait, serve)
}

/// `BZMPOP timeout numkeys key [key ...] <MIN | MAX> [COUNT count]`
pub(super) fn bzmpop(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let keys = MultiPop::parse(&argv[2..], End::parse)?.keys;
    let wait = Wait { deadline: seconds(ctx, argv[1])?, on_timeout: Reply::NilArray };
    serve_or_wait::<ZSet>(ctx, argv, keys, wait, |ctx, argv, key| {
        let MultiPop { end, count, .. } = MultiPop::parse(&argv[2..], End::parse)?;
        pop_from(ctx, key, end, count)
    })
}
