//! `CONFIG`: the parameters of the server.

use super::super::Flag::{self, Admin, Loading, NoScript, Stale};
use super::super::{Argv, Ctx, Outcome, Row};
use crate::config::{Id, PARAMETERS};
use crate::error::{self, Error};
use crate::glob;
use crate::reply::Reply;

const FLAGS: &[Flag] = &[Admin, NoScript, Loading, Stale];

pub(super) const CONFIG: Row = Row::container(
    "config",
    &[
        Row::new("config|get", -3, FLAGS, get),
        Row::help("config|help"),
        Row::new("config|resetstat", 2, FLAGS, resetstat),
        Row::new("config|rewrite", 2, FLAGS, rewrite),
        Row::new("config|set", -4, FLAGS, set)
            .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    ],
);

/// `CONFIG GET parameter [parameter ...]`
///
/// A name without wildcards is returned as the client has spelled it.
fn get(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let config = ctx.engine.parameters();
    let mut found: Vec<(&'static str, Reply, Reply)> = Vec::new();
    for pattern in &argv[2..] {
        let lower = pattern.to_ascii_lowercase();
        if !pattern.iter().any(|byte| b"[*?".contains(byte)) {
            if let Some((id, name)) = Id::lookup(&lower)
                && found.iter().all(|(other, ..)| *other != name)
            {
                found.push((name, Reply::bulk(pattern), Reply::Bulk(config.text(id).clone())));
            }
            continue;
        }
        for name in PARAMETERS.iter().flat_map(crate::config::Parameter::names) {
            if glob::matches(&lower, name.as_bytes())
                && found.iter().all(|(other, ..)| *other != name)
                && let Some((id, _)) = Id::lookup(name.as_bytes())
            {
                found.push((name, Reply::bulk(name), Reply::Bulk(config.text(id).clone())));
            }
        }
    }
    Ok(Reply::Map(found.into_iter().map(|(_, name, value)| (name, value)).collect()))
}

/// `CONFIG SET parameter value [parameter value ...]`
fn set(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    if !argv.len().is_multiple_of(2) {
        return Err(error::SYNTAX);
    }
    let pairs: Vec<(&[u8], &[u8])> = argv[2..].chunks(2).map(|pair| (pair[0], pair[1])).collect();
    ctx.engine.set_parameters(&pairs)?;
    Ok(Reply::OK)
}

/// `CONFIG RESETSTAT`
fn resetstat(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    // Every command counts, so the order matters to who reads the counters later.
    ctx.engine.concern_all();
    ctx.engine.stats.reset();
    ctx.engine.keyspace.events.counts = Default::default();
    Ok(Reply::OK)
}

/// `CONFIG REWRITE`
fn rewrite(_: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Err(Error::from_static("ERR The server is running without a config file"))
}
