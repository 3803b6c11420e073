//! `LATENCY`: slow events. The time does not move while a command runs, so there are none.

use super::super::Flag::{self, Admin, Loading, NoScript, Stale};
use super::super::{Argv, Ctx, Outcome, Row};
use crate::error::Error;
use crate::reply::Reply;
use crate::stats::Calls;

const FLAGS: &[Flag] = &[Admin, NoScript, Loading, Stale];
const TIPS: &[&str] = &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"];

pub(super) const LATENCY: Row = Row::container(
    "latency",
    &[
        Row::new("latency|doctor", 2, FLAGS, doctor).tips(TIPS),
        Row::new("latency|graph", 3, FLAGS, graph).tips(TIPS),
        Row::help("latency|help"),
        Row::new("latency|histogram", -2, FLAGS, histogram).tips(TIPS).telling_counts(),
        Row::new("latency|history", 3, FLAGS, history).tips(TIPS),
        Row::new("latency|latest", 2, FLAGS, latest).tips(TIPS),
        Row::new("latency|reset", -2, FLAGS, reset)
            .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    ],
);

/// `LATENCY DOCTOR`
fn doctor(_: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Ok(Reply::Verbatim(*b"txt", "No time passes while a command runs, so no command was slow.\n".into()))
}

/// `LATENCY GRAPH event`
fn graph(_: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Err(Error::new([b"ERR No samples available for event '", argv[2], b"'"].concat()))
}

/// `LATENCY HISTORY event`
fn history(_: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Ok(Reply::Array(Vec::new()))
}

/// `LATENCY LATEST`
fn latest(_: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Ok(Reply::Array(Vec::new()))
}

/// `LATENCY RESET [event [event ...]]`
fn reset(_: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Ok(Reply::Integer(0))
}

/// `LATENCY HISTOGRAM [command [command ...]]`
///
/// All calls took no time, so they are in the first bucket, which goes up to a microsecond.
fn histogram(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let stats = &ctx.engine.stats;
    let describe = |(name, calls): (&str, &Calls)| {
        let calls = Reply::Integer(calls.calls as i64);
        let buckets = Reply::Map(vec![(Reply::Integer(1), calls.clone())]);
        let fields = vec![(Reply::bulk("calls"), calls), (Reply::bulk("histogram_usec"), buckets)];
        (Reply::bulk(name), Reply::Map(fields))
    };
    let called = |calls: &&Calls| calls.calls > 0;
    if argv.len() == 2 {
        let all = stats.commands().filter(|(_, calls)| called(calls));
        return Ok(Reply::Map(all.map(describe).collect()));
    }
    let rows = argv[2..].iter().filter_map(|name| ctx.table.lookup_full(name)).flat_map(|(row, _)| {
        let subcommands = row.subcommands.iter().filter(|_| row.is_container());
        std::iter::once(row).chain(subcommands)
    });
    let named = rows.filter_map(|row| Some((row.name, stats.command(row.name).filter(called)?)));
    Ok(Reply::Map(named.map(describe).collect()))
}
