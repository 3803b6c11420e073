//! Commands that pop members, and wait if there are none.

use super::super::blocking::pop_or_wait;
use super::super::multi_pop::multi_pop_or_wait;
use super::super::{Argv, Ctx, Outcome};
use super::pop::{End, pop_one_from};
use crate::keyspace::ZSet;

/// `BZPOPMIN key [key ...] timeout`
pub(super) fn bzpopmin(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    pop_or_wait::<ZSet>(ctx, argv, |ctx, _, key| pop_one_from(ctx, key, End::Min))
}

/// `BZPOPMAX key [key ...] timeout`
pub(super) fn bzpopmax(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    pop_or_wait::<ZSet>(ctx, argv, |ctx, _, key| pop_one_from(ctx, key, End::Max))
}

/// `BZMPOP timeout numkeys key [key ...] <MIN | MAX> [COUNT count]`
pub(super) fn bzmpop(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    multi_pop_or_wait::<End>(ctx, argv)
}
