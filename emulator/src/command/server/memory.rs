//! `MEMORY`: the memory that data takes. The numbers are estimates of the emulator's own memory,
//! not of Redis's.

use super::super::Flag::ReadOnly;
use super::super::{Argv, Ctx, KeySpec, Outcome, Row, integer, is_word};
use crate::error;
use crate::reply::Reply;

pub(super) const MEMORY: Row = Row::container(
    "memory",
    &[
        Row::new("memory|doctor", 2, &[], doctor).tips(TIPS),
        Row::help("memory|help"),
        Row::new("memory|malloc-stats", 2, &[], malloc_stats).tips(TIPS),
        Row::new("memory|purge", 2, &[], purge)
            .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
        Row::new("memory|stats", 2, &[], stats).tips(TIPS).telling_counts(),
        Row::new("memory|usage", -3, &[ReadOnly], usage).keys(&[KeySpec::at(2, &["RO"])]),
    ],
);

const TIPS: &[&str] = &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];

/// `MEMORY DOCTOR`
fn doctor(_: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Ok(Reply::Verbatim(*b"txt", "This server is part of another process, which manages the memory.\n".into()))
}

/// `MEMORY MALLOC-STATS`
fn malloc_stats(_: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Ok(Reply::bulk("Stats not supported for the current allocator"))
}

/// `MEMORY PURGE`
fn purge(_: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Ok(Reply::OK)
}

/// `MEMORY USAGE key [SAMPLES count]`
fn usage(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    match &argv[3..] {
        [] => {}
        [word, count] if is_word(word, "samples") => {
            if integer(count)? < 0 {
                return Err(error::SYNTAX);
            }
        }
        _ => return Err(error::SYNTAX),
    }
    // Not `reading()`: a missing key publishes no `keymiss` event here.
    let mut db = ctx.engine.keyspace.db(ctx.client.db);
    Ok(db.memory(argv[2]).map_or(Reply::Nil, Reply::count))
}

/// `MEMORY STATS`
///
/// Values that do not exist here are 0.
fn stats(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    const ZERO: [&str; 8] = [
        "startup.allocated",
        "replication.backlog",
        "clients.slaves",
        "clients.normal",
        "cluster.links",
        "aof.buffer",
        "lua.caches",
        "functions.caches",
    ];
    let stats = ctx.engine.keyspace.stats();
    let keys: usize = stats.iter().map(|stats| stats.keys).sum();
    let bytes: usize = stats.iter().map(|stats| stats.bytes).sum();
    let number = |name: &str, number: usize| (Reply::bulk(name), Reply::count(number));
    let share = |name: &str, share: f64| (Reply::bulk(name), Reply::Double(share));
    let mut fields = vec![number("peak.allocated", bytes), number("total.allocated", bytes)];
    fields.extend(ZERO.map(|name| number(name, 0)));
    for (idx, _) in stats.iter().enumerate().filter(|(_, stats)| stats.keys > 0) {
        let tables =
            ["overhead.hashtable.main", "overhead.hashtable.expires", "overhead.hashtable.slot-to-keys"];
        fields
            .push((Reply::bulk(format!("db.{idx}")), Reply::Map(tables.map(|name| number(name, 0)).into())));
    }
    fields.extend([
        number("overhead.total", 0),
        number("keys.count", keys),
        number("keys.bytes-per-key", bytes.checked_div(keys).unwrap_or(0)),
        number("dataset.bytes", bytes),
        share("dataset.percentage", 100.0),
        share("peak.percentage", 100.0),
        number("allocator.allocated", bytes),
        number("allocator.active", bytes),
        number("allocator.resident", bytes),
        share("allocator-fragmentation.ratio", 1.0),
        number("allocator-fragmentation.bytes", 0),
        share("allocator-rss.ratio", 1.0),
        number("allocator-rss.bytes", 0),
        share("rss-overhead.ratio", 1.0),
        number("rss-overhead.bytes", 0),
        share("fragmentation", 1.0),
        number("fragmentation.bytes", 0),
    ]);
    Ok(Reply::Map(fields))
}
