//! `OBJECT`: how Redis would store a value.

use super::super::Flag::ReadOnly;
use super::super::{Argv, Ctx, KeySpec, Outcome, Row};
use crate::error;
use crate::keyspace::Db;
use crate::reply::Reply;

/// The reference count that Redis returns for the small integers that it shares.
const SHARED_REFCOUNT: i64 = i32::MAX as i64;

pub(super) const OBJECT: Row = Row::container(
    "object",
    &[
        row("object|encoding", encoding),
        row("object|freq", freq),
        Row::help("object|help"),
        row("object|idletime", idletime),
        row("object|refcount", refcount),
    ],
);

const fn row(name: &'static str, run: fn(&mut Ctx<'_>, &Argv<'_>) -> Outcome) -> Row {
    Row::new(name, 3, &[ReadOnly], run)
        .keys(const { &[KeySpec::at(2, &["RO"])] })
        .tips(&["nondeterministic_output"])
}

/// Returns the database for a read that counts neither as an access nor as a miss.
fn db<'a>(ctx: &'a mut Ctx<'_>) -> Db<'a> {
    ctx.engine.keyspace.db(ctx.client.db)
}

/// `OBJECT ENCODING key`
fn encoding(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Ok(db(ctx).encoding(argv[2]).map_or(Reply::Nil, |encoding| Reply::bulk(encoding.word())))
}

/// `OBJECT FREQ key`
fn freq(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    if db(ctx).contains(argv[2]) { Err(error::FREQUENCY_NOT_TRACKED) } else { Ok(Reply::Nil) }
}

/// `OBJECT IDLETIME key`
///
/// If another command reads the key, this reply changes, and no other reply does. That command
/// records only a read, so this one concerns all.
fn idletime(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    ctx.engine.concern_all();
    let Some(accessed) = db(ctx).accessed(argv[2]) else { return Ok(Reply::Nil) };
    let seconds = ctx.engine.keyspace.now().millis() / 1000 - accessed.millis() / 1000;
    Ok(Reply::Integer(seconds.max(0)))
}

/// `OBJECT REFCOUNT key`
fn refcount(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let refcount = |is_shared| Reply::Integer(if is_shared { SHARED_REFCOUNT } else { 1 });
    Ok(db(ctx).is_shared(argv[2]).map_or(Reply::Nil, refcount))
}
