//! The common parts of the commands on scripts and of those on functions.

use bytes::Bytes;

use super::super::admission::script_flags;
use super::super::{Argv, Ctx, Outcome, integer, is_word};
use crate::busy::{Program, ProgramKind};
use crate::client::CallContext;
use crate::error::{self, Error};
use crate::reply::Reply;
use crate::script::Host;

pub(super) fn keys_and_args<'a, 'b>(
    argv: &'a Argv<'b>,
    not_an_integer: &Error,
) -> Result<(&'a Argv<'b>, &'a Argv<'b>), Error> {
    let numkeys = integer(argv[2]).map_err(|_| not_an_integer.clone())?;
    if numkeys > (argv.len() - 3) as i64 {
        return Err(error::NUMKEYS_TOO_MANY);
    }
    let numkeys = usize::try_from(numkeys).map_err(|_| error::NUMKEYS_NEGATIVE)?;
    Ok(argv[3..].split_at(numkeys))
}

/// Checks whether a script may run in a cluster, and finds out whether its commands may use keys of
/// several slots.
pub(super) fn prepare_for_cluster(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Result<(), Error> {
    if ctx.engine.cluster.is_none() {
        return Ok(());
    }
    let flags = script_flags(ctx.engine, ctx.row, argv);
    let has = |flag: &&str| flags.as_ref().is_some_and(|flags| flags.contains(flag));
    ctx.client.may_cross_slots = flags.is_none() || has(&"allow-cross-slot-keys");
    if has(&"no-cluster") { Err(error::NO_CLUSTER_SCRIPT) } else { Ok(()) }
}

/// Lends the engine and the client to a script.
///
/// The script starts in the caller's database. If it selects another, the caller's database does
/// not change. It has declared these keys.
pub(super) fn lend(
    ctx: &mut Ctx<'_>,
    keys: &Argv<'_>,
    program: impl FnOnce() -> Program,
    run: impl FnOnce(Box<dyn Host>) -> (Box<dyn Host>, Reply),
) -> Reply {
    let (db, protocol, runs) = (ctx.client.db, ctx.client.protocol, ctx.client.context);
    ctx.client.context = CallContext::InScript;
    ctx.client.protocol_outside = Some(protocol);
    if let Some(tracking) = &mut ctx.client.tracking {
        tracking.declared = keys.iter().map(|key| Bytes::copy_from_slice(key)).collect();
    }
    let reply = ctx.engine.lend(ctx.client, ctx.table, program, run);
    (ctx.client.db, ctx.client.protocol, ctx.client.context) = (db, protocol, runs);
    ctx.client.protocol_outside = None;
    reply
}

pub(super) fn check_flush_mode(options: &Argv<'_>, error: &Error) -> Result<(), Error> {
    match options {
        [] => Ok(()),
        [mode] if is_word(mode, "sync") || is_word(mode, "async") => Ok(()),
        _ => Err(error.clone()),
    }
}

/// `SCRIPT KILL`, `FUNCTION KILL`
pub(super) fn kill(ctx: &mut Ctx<'_>, kind: ProgramKind) -> Outcome {
    ctx.engine.busy.kill(kind)?;
    Ok(Reply::OK)
}
