//! Commands of Sentinels: where the primary is, and who watches it.
//! <https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/#sentinel-api>
//!
//! Only a server that is a Sentinel has them. It has few others.

mod context;
mod fields;
mod settings;

use std::net::IpAddr;

use super::Flag::{self, Admin};
use super::{Argv, Ctx, Outcome, Row, integer};
use crate::clock::Timestamp;
use crate::error::Error;
use crate::replication::is_same;
use crate::reply::Reply;
use crate::sentinel::{NotWatched, Primary, Refusal};
use context::{NO_SUCH_MASTER, done, state};

const FLAGS: &[Flag] = &[Admin];

pub(super) const ROWS: &[Row] = &[Row::container(
    "sentinel",
    &[
        Row::new("sentinel|ckquorum", 3, FLAGS, ckquorum),
        Row::new("sentinel|config", -3, FLAGS, settings::config),
        Row::new("sentinel|debug", -2, FLAGS, settings::debug),
        Row::new("sentinel|failover", 3, FLAGS, failover),
        Row::new("sentinel|flushconfig", 2, FLAGS, |_, _| Ok(Reply::OK)),
        Row::new("sentinel|get-master-addr-by-name", 3, FLAGS, get_master_addr_by_name),
        Row::help("sentinel|help"),
        Row::new("sentinel|info-cache", -3, FLAGS, info_cache),
        Row::new("sentinel|is-master-down-by-addr", 6, FLAGS, is_master_down_by_addr),
        Row::new("sentinel|master", 3, FLAGS, master),
        Row::new("sentinel|masters", 2, FLAGS, masters),
        Row::new("sentinel|monitor", 6, FLAGS, monitor),
        Row::new("sentinel|myid", 2, FLAGS, myid),
        Row::new("sentinel|pending-scripts", 2, FLAGS, |_, _| Ok(Reply::Array(Vec::new()))),
        Row::new("sentinel|remove", 3, FLAGS, remove),
        Row::new("sentinel|replicas", 3, FLAGS, replicas),
        Row::new("sentinel|reset", 3, FLAGS, reset),
        Row::new("sentinel|sentinels", 3, FLAGS, sentinels),
        Row::new("sentinel|set", -5, FLAGS, settings::set),
        Row::new("sentinel|slaves", 3, FLAGS, replicas),
    ],
)
.on_sentinels_only()];

fn primary<'a>(ctx: &'a mut Ctx<'_>, name: &[u8]) -> Result<(&'a Primary, Timestamp), Error> {
    let (sentinel, now) = state(ctx);
    Ok((sentinel.primary(name).ok_or(NO_SUCH_MASTER)?, now))
}

/// `SENTINEL MASTERS`
fn masters(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    let (sentinel, now) = state(ctx);
    let primaries = sentinel.primaries.iter().map(|primary| fields::of_primary(primary, now));
    Ok(Reply::Array(primaries.collect()))
}

/// `SENTINEL MASTER master-name`
fn master(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let (primary, now) = primary(ctx, argv[2])?;
    Ok(fields::of_primary(primary, now))
}

/// `SENTINEL REPLICAS master-name` and `SENTINEL SLAVES master-name`
fn replicas(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let (primary, now) = primary(ctx, argv[2])?;
    let replicas = primary.replicas.iter().map(|replica| fields::of_replica(primary, replica, now));
    Ok(Reply::Array(replicas.collect()))
}

/// `SENTINEL SENTINELS master-name`
fn sentinels(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let (primary, now) = primary(ctx, argv[2])?;
    let others = primary.sentinels.iter().map(|other| fields::of_sentinel(primary, other, now));
    Ok(Reply::Array(others.collect()))
}

/// `SENTINEL GET-MASTER-ADDR-BY-NAME master-name`
fn get_master_addr_by_name(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Ok(match state(ctx).0.primary(argv[2]) {
        Some(primary) => {
            let (host, port) = &primary.instance.address;
            Reply::Array(vec![Reply::bulk(host), Reply::bulk(port.to_string())])
        }
        None => Reply::NilArray,
    })
}

/// `SENTINEL MYID`
fn myid(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Ok(Reply::bulk(&state(ctx).0.id))
}

/// `SENTINEL CKQUORUM master-name`
fn ckquorum(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let (primary, _) = primary(ctx, argv[2])?;
    let usable = primary.usable_sentinels();
    let lacks = [(usable as u64) < primary.settings.quorum, usable < primary.majority()];
    let texts = [
        "Not enough available Sentinels to reach the specified quorum for this master",
        "Not enough available Sentinels to reach the majority and authorize a failover",
    ];
    let missing: Vec<&str> =
        texts.into_iter().zip(lacks).filter(|(_, lacks)| *lacks).map(|(text, _)| text).collect();
    if missing.is_empty() {
        let text = format!("OK {usable} usable Sentinels. Quorum and failover authorization can be reached");
        return Ok(Reply::Status(text.into()));
    }
    Err(Error::new(format!("NOQUORUM {usable} usable Sentinels. {}", missing.join(". "))))
}

/// `SENTINEL FAILOVER master-name`
///
/// The replica takes over at once. The old primary stays writable, until its Sentinels make it a
/// replica after some time of their clocks.
fn failover(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    primary(ctx, argv[2])?;
    match ctx.engine.sentinel_failover(argv[2]) {
        Ok(()) => Ok(Reply::OK),
        Err(Refusal::InProgress) => Err(Error::from_static("INPROG Failover already in progress")),
        Err(Refusal::NoGoodReplica) => Err(Error::from_static("NOGOODSLAVE No suitable replica to promote")),
    }
}

/// `SENTINEL MONITOR name ip port quorum`
fn monitor(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let number = |arg: &[u8], error| crate::parse::parse_integer(arg).ok_or(Error::from_static(error));
    let quorum = number(argv[5], "ERR Invalid quorum")?;
    let port = number(argv[4], "ERR Invalid port")?;
    let quorum = u64::try_from(quorum).ok().filter(|&quorum| quorum > 0);
    let quorum = quorum.ok_or(Error::from_static("ERR Quorum must be 1 or greater."))?;
    let port = u16::try_from(port).map_err(|_| Error::from_static("ERR Invalid port number."))?;
    let host = String::from_utf8_lossy(argv[3]).into_owned();
    let (sentinel, now) = state(ctx);
    let resolves = sentinel.options[0] == b"yes";
    if !resolves && host.parse::<IpAddr>().is_err() {
        return Err(Error::from_static("ERR Invalid IP address or hostname specified"));
    }
    match sentinel.monitor(argv[2], (host, port), quorum, now) {
        Ok(deeds) => Ok(done(ctx, deeds, Reply::OK)),
        Err(NotWatched::Duplicate) => Err(Error::from_static("ERR Duplicate master name.")),
        Err(NotWatched::TooMany) => {
            Err(Error::from_static("ERR the emulator's Sentinel watches at most 1000 primaries: remove some"))
        }
    }
}

/// `SENTINEL REMOVE master-name`
fn remove(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let deeds = state(ctx).0.remove(argv[2]).ok_or(NO_SUCH_MASTER)?;
    Ok(done(ctx, deeds, Reply::OK))
}

/// `SENTINEL RESET pattern`
fn reset(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let (sentinel, now) = state(ctx);
    let deeds = sentinel.reset(argv[2], now);
    let count = Reply::count(deeds.len());
    Ok(done(ctx, deeds, count))
}

/// `SENTINEL IS-MASTER-DOWN-BY-ADDR ip port current-epoch runid`
///
/// Sentinels of Redis ask each other so. With an identity, it asks for a vote.
fn is_master_down_by_addr(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let port = integer(argv[3])?;
    let epoch = integer(argv[4])?.unsigned_abs();
    let address = u16::try_from(port).map(|port| (String::from_utf8_lossy(argv[2]).into_owned(), port));
    let (sentinel, now) = state(ctx);
    let is_asked = |primary: &&Primary| {
        address.as_ref().is_ok_and(|address| is_same(&primary.instance.address, address))
    };
    let asked = sentinel.primaries.iter().find(is_asked).map(|primary| primary.name.clone());
    let is_down = |primary: &Primary| primary.instance.down_since.is_some();
    let is_down = asked.as_ref().and_then(|name| sentinel.primary(name)).is_some_and(is_down);
    let (deeds, leader, leader_epoch) = match asked {
        Some(name) if argv[5] != b"*" => sentinel.vote(&name, epoch, &String::from_utf8_lossy(argv[5]), now),
        _ => (Vec::new(), "*".to_owned(), 0),
    };
    let reply = vec![Reply::truth(is_down), Reply::bulk(leader), Reply::Integer(leader_epoch as i64)];
    Ok(done(ctx, deeds, Reply::Array(reply)))
}

/// `SENTINEL INFO-CACHE nodename [nodename ...]`
///
/// Each text has only those fields of `INFO` that a Sentinel reads.
fn info_cache(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let (sentinel, now) = state(ctx);
    let is_asked = |primary: &&Primary| argv[2..].contains(&&primary.name[..]);
    let known = sentinel.primaries.iter().filter(is_asked).flat_map(|primary| {
        let instances = std::iter::once(&primary.instance).chain(&primary.replicas);
        let texts = instances.map(|instance| fields::info(instance, now));
        [Reply::bulk(&primary.name), Reply::Array(texts.collect())]
    });
    Ok(Reply::Array(known.collect()))
}
