//! Server commands: commands on a whole database or on the server itself. The larger ones have
//! their own files.

mod command;
mod config;
mod debug;
mod info;
mod latency;
mod memory;
mod replication;
mod slowlog;

use super::Flag::{Admin, Fast, Loading, NoScript, ReadOnly, Stale, Write};
use super::{Argv, Ctx, Outcome, Row, integer, is_word};
use crate::client::CallContext;
use crate::error::{self, Error};
use crate::reply::Reply;
use info::VERSION;

pub(super) const ROWS: &[Row] = &[
    command::COMMAND,
    config::CONFIG,
    Row::new("dbsize", 1, &[ReadOnly, Fast], dbsize)
        .categories(&["keyspace"])
        .tips(&["request_policy:all_shards", "response_policy:agg_sum"]),
    Row::new("debug", -2, &[Admin, NoScript, Loading, Stale], debug::debug).protected(),
    replication::FAILOVER,
    Row::new("flushall", -1, &[Write], flushall)
        .categories(&["keyspace", "dangerous"])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    Row::new("flushdb", -1, &[Write], flushdb)
        .categories(&["keyspace", "dangerous"])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    Row::new("info", -1, &[Loading, Stale], info::info)
        .categories(&["dangerous"])
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])
        .telling_counts()
        .on_sentinels_too(),
    Row::new("lastsave", 1, &[Loading, Stale, Fast], lastsave)
        .categories(&["admin", "dangerous"])
        .tips(&["nondeterministic_output"]),
    latency::LATENCY,
    Row::new("lolwut", -1, &[ReadOnly, Fast], lolwut),
    memory::MEMORY,
    Row::new("monitor", 1, &[Admin, NoScript, Loading, Stale], monitor),
    replication::REPLICAOF,
    replication::ROLE,
    replication::SLAVEOF,
    slowlog::SLOWLOG,
    Row::new("swapdb", 3, &[Write, Fast], swapdb).categories(&["keyspace", "dangerous"]),
    Row::new("time", 1, &[Loading, Stale, Fast], time).tips(&["nondeterministic_output"]),
];

/// `DBSIZE`
fn dbsize(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Ok(Reply::count(ctx.whole_db().len()))
}

/// `FLUSHALL [ASYNC | SYNC]`
fn flushall(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    check_flush_mode(argv)?;
    ctx.engine.keyspace.flush_all();
    ctx.replicate_as_is(argv);
    Ok(Reply::OK)
}

/// `FLUSHDB [ASYNC | SYNC]`
fn flushdb(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    check_flush_mode(argv)?;
    ctx.db().flush();
    ctx.replicate_as_is(argv);
    Ok(Reply::OK)
}

fn check_flush_mode(argv: &Argv<'_>) -> Result<(), Error> {
    match argv {
        [_] => Ok(()),
        [_, mode] if is_word(mode, "sync") || is_word(mode, "async") => Ok(()),
        _ => Err(error::SYNTAX),
    }
}

/// `TIME`
fn time(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    let micros = ctx.engine.keyspace.now().micros();
    let (seconds, micros) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    Ok(Reply::Array(vec![Reply::bulk(seconds.to_string()), Reply::bulk(micros.to_string())]))
}

/// `SWAPDB index1 index2`
fn swapdb(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    if ctx.engine.cluster.is_some() {
        return Err(Error::from_static("ERR SWAPDB is not allowed in cluster mode"));
    }
    let index = |arg: &[u8], error: &'static str| {
        let index = crate::parse::parse_integer(arg).and_then(|index| i32::try_from(index).ok());
        index.ok_or(Error::from_static(error))
    };
    let first = index(argv[1], "ERR invalid first DB index")?;
    let second = index(argv[2], "ERR invalid second DB index")?;
    let known =
        |index: i32| usize::try_from(index).ok().filter(|&index| index < ctx.engine.keyspace.databases());
    let (Some(first), Some(second)) = (known(first), known(second)) else {
        return Err(error::DB_OUT_OF_RANGE);
    };
    ctx.engine.swap(first, second);
    ctx.replicate_as_is(argv);
    Ok(Reply::OK)
}

/// `LASTSAVE`
///
/// Nothing is ever saved, so it is the time when the server began, as in Redis.
fn lastsave(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Ok(Reply::Integer(ctx.engine.stats.began.millis() / 1000))
}

/// `MONITOR`
fn monitor(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    if ctx.client.context == CallContext::InTransaction {
        return Err(Error::from_static("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    if std::mem::replace(&mut ctx.client.is_monitor, true) {
        return Ok(Reply::NOTHING);
    }
    ctx.engine.monitors.push(ctx.client.slot);
    Ok(Reply::OK)
}

/// `LOLWUT [VERSION version]`
///
/// The pictures of versions 5 and 6 are not emulated.
fn lolwut(_: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    if let [_, word, version, ..] = argv
        && is_word(word, "version")
    {
        integer(version)?;
    }
    Ok(Reply::Verbatim(*b"txt", format!("Redis ver. {VERSION}\n").into()))
}
