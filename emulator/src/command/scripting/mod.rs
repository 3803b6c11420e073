//! Scripting commands: scripts are here, functions have their own file.

mod program;
mod function;

use super::Flag::{AllowBusy, MovableKeys, NoMandatoryKeys, NoScript, ReadOnly, SkipMonitor, Stale};
use super::{Argv, Ctx, KeySpec, Outcome, Row, is_word};
use crate::busy::{Program, ProgramKind};
use crate::client::CallContext;
use crate::error::{self, Error};
use crate::reply::Reply;
use crate::script::{Mode, Sha};
use program::{check_flush_mode, keys_and_args, kill, lend, prepare_for_cluster};

const KEYS: KeySpec = KeySpec::numkeys(2, &["RW", "access", "update"]);
const KEYS_RO: KeySpec = KeySpec::numkeys(2, &["RO", "access"]);
const NOTES: &str = "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE";
const NOTES_RO: &str = "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS";

pub(super) const ROWS: &[Row] = &[
    Row::new("eval", -3, &[NoScript, Stale, SkipMonitor, NoMandatoryKeys, MovableKeys], |ctx, argv| {
        eval(ctx, argv, Mode::Any)
    })
    .keys(&[KEYS.notes(NOTES)]),
    Row::new(
        "eval_ro",
        -3,
        &[NoScript, Stale, SkipMonitor, NoMandatoryKeys, MovableKeys, ReadOnly],
        |ctx, argv| eval(ctx, argv, Mode::ReadOnly),
    )
    .keys(&[KEYS_RO.notes(NOTES_RO)]),
    Row::new("evalsha", -3, &[NoScript, Stale, SkipMonitor, NoMandatoryKeys, MovableKeys], |ctx, argv| {
        evalsha(ctx, argv, Mode::Any)
    })
    .keys(&[KEYS]),
    Row::new(
        "evalsha_ro",
        -3,
        &[NoScript, Stale, SkipMonitor, NoMandatoryKeys, MovableKeys, ReadOnly],
        |ctx, argv| evalsha(ctx, argv, Mode::ReadOnly),
    )
    .keys(&[KEYS_RO]),
    Row::new("fcall", -3, &[NoScript, Stale, SkipMonitor, NoMandatoryKeys, MovableKeys], |ctx, argv| {
        function::fcall(ctx, argv, Mode::Any)
    })
    .keys(&[KEYS.notes(NOTES)]),
    Row::new(
        "fcall_ro",
        -3,
        &[NoScript, Stale, SkipMonitor, NoMandatoryKeys, MovableKeys, ReadOnly],
        |ctx, argv| function::fcall(ctx, argv, Mode::ReadOnly),
    )
    .keys(&[KEYS_RO.notes(NOTES_RO)]),
    Row::container("function", function::ROWS),
    Row::container(
        "script",
        &[
            Row::new("script|debug", 3, &[NoScript], script_debug),
            Row::new("script|exists", -3, &[NoScript], script_exists)
                .tips(&["request_policy:all_shards", "response_policy:agg_logical_and"]),
            Row::new("script|flush", -2, &[NoScript], script_flush)
                .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
            Row::help("script|help"),
            Row::new("script|kill", 2, &[NoScript, AllowBusy], |ctx, _| kill(ctx, ProgramKind::Script))
                .tips(&["request_policy:all_shards", "response_policy:one_succeeded"]),
            Row::new("script|load", 3, &[NoScript, Stale], script_load)
                .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
        ],
    ),
];

/// `EVAL script numkeys [key [key ...]] [arg [arg ...]]`, and `EVAL_RO`
fn eval(ctx: &mut Ctx<'_>, argv: &Argv<'_>, mode: Mode) -> Outcome {
    let (keys, args) = keys_and_args(argv, &error::NOT_AN_INTEGER)?;
    let sha = ctx.engine.load_script(argv[1])?;
    prepare_for_cluster(ctx, argv)?;
    invoke(ctx, &sha, mode, keys, args)
}

/// `EVALSHA sha1 numkeys [key [key ...]] [arg [arg ...]]`, and `EVALSHA_RO`
fn evalsha(ctx: &mut Ctx<'_>, argv: &Argv<'_>, mode: Mode) -> Outcome {
    if argv[1].len() != size_of::<Sha>() {
        return Err(error::NO_SCRIPT);
    }
    let (keys, args) = keys_and_args(argv, &error::NOT_AN_INTEGER)?;
    let sha = ctx.engine.lookup_script(argv[1]).ok_or(error::NO_SCRIPT)?;
    prepare_for_cluster(ctx, argv)?;
    invoke(ctx, &sha, mode, keys, args)
}

fn invoke(ctx: &mut Ctx<'_>, sha: &Sha, mode: Mode, keys: &Argv<'_>, args: &Argv<'_>) -> Outcome {
    let ready = ctx.engine.take_script(sha)?;
    let reply = lend(ctx, keys, || Program::Script, |host| ready.run(mode, keys, args, host));
    ctx.engine.put_back_script(ready);
    Ok(reply)
}

/// `SCRIPT LOAD script`
fn script_load(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Ok(Reply::bulk(ctx.engine.load_script(argv[2])?))
}

/// `SCRIPT EXISTS sha1 [sha1 ...]`
fn script_exists(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let known = argv[2..].iter().map(|sha| Reply::truth(ctx.engine.lookup_script(sha).is_some()));
    Ok(Reply::Array(known.collect()))
}

/// `SCRIPT FLUSH [ASYNC | SYNC]`
fn script_flush(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    check_flush_mode(&argv[2..], &error::SCRIPT_FLUSH_MODE)?;
    ctx.engine.flush_scripts();
    Ok(Reply::OK)
}

/// `SCRIPT DEBUG YES | SYNC | NO`: there is no debugger
fn script_debug(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    if ctx.client.context == CallContext::InTransaction {
        return Err(Error::from_static("ERR SCRIPT DEBUG must be called outside a pipeline"));
    }
    let is_mode = ["yes", "sync", "no"].iter().any(|mode| is_word(argv[2], mode));
    if is_mode { Ok(Reply::OK) } else { Err(Error::from_static("ERR Use SCRIPT DEBUG YES/SYNC/NO")) }
}
