//! Commands on the role of the server: `REPLICAOF`, `FAILOVER` and `ROLE`.

use std::time::Duration;

use bytes::Bytes;

use super::super::Flag::{self, Admin, Fast, Loading, NoAsyncLoading, NoScript, Stale};
use super::super::{Argv, Ctx, Outcome, Row, integer, is_word};
use crate::error::{self, Error};
use crate::replication::{Address, Failover, Upstream};
use crate::reply::Reply;

const ROLES: &[Flag] = &[Admin, NoScript, Stale, NoAsyncLoading];

pub(super) const REPLICAOF: Row = Row::new("replicaof", 3, ROLES, replicaof);
pub(super) const SLAVEOF: Row = Row::new("slaveof", 3, ROLES, replicaof);
pub(super) const FAILOVER: Row = Row::new("failover", -1, &[Admin, NoScript, Stale], failover);
pub(super) const ROLE: Row = Row::new("role", 1, &[NoScript, Loading, Stale, Fast], role)
    .categories(&["admin", "dangerous"])
    .on_sentinels_too();

/// `REPLICAOF <host port | NO ONE>`
fn replicaof(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    if ctx.engine.cluster.is_some() {
        return Err(Error::from_static("ERR REPLICAOF not allowed in cluster mode."));
    }
    if ctx.engine.fails_over() {
        return Err(Error::from_static("ERR REPLICAOF not allowed while failing over."));
    }
    let [host, port] = [argv[1], argv[2]];
    if is_word(host, "no") && is_word(port, "one") {
        ctx.engine.become_primary();
        return Ok(Reply::OK);
    }
    let port = port_number(port, "ERR Invalid master port")?;
    let is_same = |upstream: &Upstream| upstream.host.eq_ignore_ascii_case(host) && upstream.port == port;
    if ctx.engine.replication.upstream.as_ref().is_some_and(is_same) {
        return Ok(Reply::status("OK Already connected to specified master"));
    }
    let primary = (String::from_utf8_lossy(host).into_owned(), port);
    if let Some((network, own)) = &ctx.engine.replication.place
        && network.at(&primary) == Some(*own)
    {
        // Redis replies OK, and never finds its primary.
        return Err(Error::from_static(
            "ERR a server cannot be a replica of itself: name the address of another one",
        ));
    }
    ctx.engine.follow(Bytes::copy_from_slice(host), port);
    Ok(Reply::OK)
}

fn port_number(arg: &[u8], error: &'static str) -> Result<u16, Error> {
    let port = crate::parse::parse_integer(arg).and_then(|port| u16::try_from(port).ok());
    port.ok_or(Error::from_static(error))
}

/// `FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]`
///
/// Writes wait until a replica has all data. Then it takes over, and this server becomes its
/// replica.
fn failover(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    if ctx.engine.cluster.is_some() {
        return Err(Error::from_static(
            "ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.",
        ));
    }
    let mut target: Option<Address> = None;
    let (mut timeout_ms, mut is_forced, mut aborts) = (None, false, false);
    let mut options = &argv[1..];
    while let Some((option, rest)) = options.split_first() {
        options = match rest {
            [amount, rest @ ..] if is_word(option, "timeout") && timeout_ms.is_none() => {
                timeout_ms = Some(integer(amount)?);
                if timeout_ms.is_some_and(|timeout_ms| timeout_ms <= 0) {
                    return Err(Error::from_static("ERR FAILOVER timeout must be greater than 0"));
                }
                rest
            }
            _ if is_word(option, "abort") => {
                aborts = true;
                rest
            }
            [host, port, rest @ ..] if is_word(option, "to") && target.is_none() => {
                let port = port_number(port, "ERR value is not an integer or out of range")?;
                target = Some((String::from_utf8_lossy(host).into_owned(), port));
                rest
            }
            _ if is_word(option, "force") && !is_forced => {
                is_forced = true;
                rest
            }
            _ => return Err(error::SYNTAX),
        };
    }
    if aborts && argv.len() > 2 {
        return Err(error::SYNTAX);
    }
    if aborts {
        if !ctx.engine.fails_over() {
            return Err(Error::from_static("ERR No failover in progress."));
        }
        ctx.engine.set_failover(None);
        return Ok(Reply::OK);
    }
    begin_failover(ctx, target, timeout_ms, is_forced)
}

fn begin_failover(
    ctx: &mut Ctx<'_>,
    target: Option<Address>,
    timeout_ms: Option<i64>,
    is_forced: bool,
) -> Outcome {
    let replication = &ctx.engine.replication;
    let refusal = match () {
        () if replication.failover.is_some() => Some("ERR FAILOVER already in progress."),
        () if replication.upstream.is_some() => Some("ERR FAILOVER is not valid when server is a replica."),
        () if replication.followers.is_empty() => Some("ERR FAILOVER requires connected replicas."),
        () if is_forced && (timeout_ms.is_none() || target.is_none()) => {
            Some("ERR FAILOVER with force option requires both a timeout and target HOST and IP.")
        }
        () if target.is_some()
            && replication.followers.iter().all(|own| Some(&own.address) != target.as_ref()) =>
        {
            Some("ERR FAILOVER target HOST and PORT is not a replica.")
        }
        () => None,
    };
    if let Some(refusal) = refusal {
        return Err(Error::from_static(refusal));
    }
    let now = ctx.engine.keyspace.now();
    let deadline = timeout_ms.map(|timeout_ms| now + Duration::from_millis(timeout_ms.unsigned_abs()));
    ctx.engine.set_failover(Some(Failover { target, deadline, is_forced }));
    Ok(Reply::OK)
}

/// `ROLE`
fn role(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    if let Some(sentinel) = &ctx.engine.sentinel {
        let names = sentinel.primaries.iter().map(|primary| Reply::bulk(&primary.name[..]));
        return Ok(Reply::Array(vec![Reply::bulk("sentinel"), Reply::Array(names.collect())]));
    }
    let replication = &ctx.engine.replication;
    let offset = |offset: u64| Reply::Integer(offset as i64);
    Ok(Reply::Array(match &replication.upstream {
        None => {
            let followers = replication.followers.iter().map(|follower| {
                let (host, port) = &follower.address;
                let acknowledged = follower.link.acknowledged().to_string();
                Reply::Array([host.clone(), port.to_string(), acknowledged].map(Reply::bulk).into())
            });
            vec![Reply::bulk("master"), offset(replication.offset), Reply::Array(followers.collect())]
        }
        Some(Upstream { host, port, link, has_synced, .. }) => {
            let state = if link.is_some() { "connected" } else { "connect" };
            let own_offset = if *has_synced { offset(replication.offset) } else { Reply::Integer(-1) };
            let host = Reply::Bulk(host.clone());
            vec![Reply::bulk("slave"), host, Reply::Integer((*port).into()), Reply::bulk(state), own_offset]
        }
    }))
}
