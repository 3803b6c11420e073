//! `SLOWLOG`: slow commands.
//!
//! The time does not move while a command runs. So with the default threshold no command is slow,
//! and with `slowlog-log-slower-than 0` all are.

use super::super::Flag::{self, Admin, Loading, Stale};
use super::super::{Argv, Ctx, Outcome, Row};
use crate::error::{self, Error};
use crate::reply::Reply;
use crate::stats::Slow;

const FLAGS: &[Flag] = &[Admin, Loading, Stale];
/// The number of entries that `SLOWLOG GET` returns without a count.
const COUNT: usize = 10;

pub(super) const SLOWLOG: Row = Row::container(
    "slowlog",
    &[
        Row::new("slowlog|get", -2, FLAGS, get)
            .tips(&["request_policy:all_nodes", "nondeterministic_output"])
            .telling_counts(),
        Row::help("slowlog|help"),
        Row::new("slowlog|len", 2, FLAGS, len)
            .tips(&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"])
            .telling_counts(),
        Row::new("slowlog|reset", 2, FLAGS, reset)
            .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    ],
);

/// `SLOWLOG GET [count]`
fn get(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let count = match &argv[2..] {
        [] => COUNT,
        [count] => match crate::parse::parse_integer(count) {
            Some(-1) => usize::MAX,
            Some(count) if count >= 0 => count as usize,
            _ => return Err(Error::from_static("ERR count should be greater than or equal to -1")),
        },
        _ => return Err(error::unknown_subcommand_or_arity("SLOWLOG", argv[1])),
    };
    Ok(Reply::Array(ctx.engine.stats.slow_log.iter().take(count).map(describe).collect()))
}

fn describe(slow: &Slow) -> Reply {
    Reply::Array(vec![
        Reply::Integer(slow.id),
        Reply::Integer(slow.began.millis() / 1000),
        Reply::Integer(slow.micros),
        Reply::Array(slow.argv.iter().cloned().map(Reply::Bulk).collect()),
        Reply::bulk(&slow.address),
        Reply::Bulk(slow.client_name.clone()),
    ])
}

/// `SLOWLOG LEN`
fn len(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Ok(Reply::count(ctx.engine.stats.slow_log.len()))
}

/// `SLOWLOG RESET`
fn reset(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    // Every command may be slow.
    ctx.engine.concern_all();
    ctx.engine.stats.slow_log.clear();
    Ok(Reply::OK)
}
