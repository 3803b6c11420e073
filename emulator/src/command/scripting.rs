//! Scripting commands: EVAL, EVALSHA, SCRIPT.

use super::Flag::{MovableKeys, NoMandatoryKeys, NoScript, SkipMonitor, Stale};
use super::{Argv, Ctx, KeySpec, Outcome, Row, call_from_script, integer, is_known, is_word};
use crate::client::Runs;
use crate::engine::ScriptHost;
use crate::error;
use crate::footprint::Access;
use crate::reply::Reply;
use crate::script::{Sha, sha1_hex};

const SCRIPT_KEYS: KeySpec = KeySpec::numkeys(2, &["RW", "access", "update"]);

pub(super) const ROWS: &[Row] = &[
    Row::new("eval", -3, &[NoScript, Stale, SkipMonitor, NoMandatoryKeys, MovableKeys], eval)
        .keys(&[SCRIPT_KEYS
            .notes("We cannot tell how the keys will be used so we assume the worst, RW and UPDATE")]),
    Row::new("evalsha", -3, &[NoScript, Stale, SkipMonitor, NoMandatoryKeys, MovableKeys], evalsha)
        .keys(&[SCRIPT_KEYS]),
    Row::container(
        "script",
        &[
            Row::new("script|exists", -3, &[NoScript], script_exists)
                .tips(&["request_policy:all_shards", "response_policy:agg_logical_and"]),
            Row::new("script|flush", -2, &[NoScript], script_flush)
                .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
            Row::new("script|load", 3, &[NoScript, Stale], script_load)
                .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
        ],
    ),
];

/// `EVAL script numkeys [key [key ...]] [arg [arg ...]]`
fn eval(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let (keys, args) = keys_and_args(argv)?;
    let known = ctx.engine.scripts.lookup(&sha1_hex(argv[1])).is_some();
    let access = if known { Access::Read } else { Access::Write };
    ctx.engine.keyspace.footprint_mut().scripts(access);
    let sha = ctx.engine.scripts.load(argv[1])?;
    Ok(invoke(ctx, &sha, keys, args))
}

/// `EVALSHA sha1 numkeys [key [key ...]] [arg [arg ...]]`
fn evalsha(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    if argv[1].len() != size_of::<Sha>() {
        return Err(error::NO_SCRIPT);
    }
    let (keys, args) = keys_and_args(argv)?;
    ctx.engine.keyspace.footprint_mut().scripts(Access::Read);
    let sha = ctx.engine.scripts.lookup(argv[1]).ok_or(error::NO_SCRIPT)?;
    Ok(invoke(ctx, &sha, keys, args))
}

fn keys_and_args<'a, 'b>(argv: &'a Argv<'b>) -> Result<(&'a Argv<'b>, &'a Argv<'b>), error::Error> {
    let numkeys = integer(argv[2])?;
    if numkeys > (argv.len() - 3) as i64 {
        return Err(error::NUMKEYS_TOO_MANY);
    }
    let numkeys = usize::try_from(numkeys).map_err(|_| error::NUMKEYS_NEGATIVE)?;
    Ok(argv[3..].split_at(numkeys))
}

/// Lends the engine and the client to the script. The script starts in the caller's database; where it goes from there is its own
/// affair.
fn invoke(ctx: &mut Ctx<'_>, sha: &Sha, keys: &Argv<'_>, args: &Argv<'_>) -> Reply {
    let mut scripts = std::mem::take(&mut ctx.engine.scripts);
    let (engine, mut client) = (std::mem::take(ctx.engine), std::mem::take(ctx.client));
    let (db, protocol, runs) = (client.db, client.protocol, client.runs);
    client.runs = Runs::InScript;
    let host = Box::new(ScriptHost { engine, client, call: call_from_script, knows: is_known });
    let (host, reply) = scripts.run(sha, keys, args, host);
    (*ctx.engine, *ctx.client) = (host.engine, host.client);
    (ctx.client.db, ctx.client.protocol, ctx.client.runs) = (db, protocol, runs);
    ctx.engine.scripts = scripts;
    reply
}

/// `SCRIPT LOAD script`
fn script_load(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    ctx.engine.keyspace.footprint_mut().scripts(Access::Write);
    Ok(Reply::bulk(ctx.engine.scripts.load(argv[2])?))
}

/// `SCRIPT EXISTS sha1 [sha1 ...]`
fn script_exists(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    ctx.engine.keyspace.footprint_mut().scripts(Access::Read);
    let known = argv[2..].iter().map(|sha| Reply::truth(ctx.engine.scripts.lookup(sha).is_some()));
    Ok(Reply::Array(known.collect()))
}

/// `SCRIPT FLUSH [ASYNC | SYNC]`
fn script_flush(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    match argv {
        [_, _] => {}
        [_, _, mode] if is_word(mode, "sync") || is_word(mode, "async") => {}
        _ => return Err(error::SCRIPT_FLUSH_MODE),
    }
    ctx.engine.keyspace.footprint_mut().scripts(Access::Write);
    ctx.engine.scripts.flush();
    Ok(Reply::OK)
}
