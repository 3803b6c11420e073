//! Subcommands of `EMULATOR` on servers that replicate: failover, partitions and lag.

use std::time::Duration;

use super::super::{Argv, Ctx, Outcome, is_word};
use super::words::{MILLIS_MAX, number, unknown};
use crate::error::{self, Error};
use crate::replication::{Address, Lag, Network, Node, Order};
use crate::reply::Reply;

/// `EMULATOR FAILOVER [TO host port] [WRITABLE]`
///
/// It does what Sentinel does when a primary is gone: a replica takes over with what it has, and
/// clients of both servers are disconnected. In a cluster, it does what an election does, which
/// disconnects nobody.
pub(super) fn failover(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let (target, options) = match &argv[2..] {
        [to, host, port, options @ ..] if is_word(to, "to") => (Some(address(host, port)?), options),
        options => (None, options),
    };
    let stays_writable = match options {
        [] => false,
        [word] if is_word(word, "writable") => true,
        [word, ..] => return Err(unknown("EMULATOR FAILOVER", word, &["TO host port", "WRITABLE"])),
    };
    let (network, own) = place(ctx)?;
    if ctx.engine.sentinel.is_some() {
        return Err(Error::from_static(
            "ERR this server is a Sentinel: send it SENTINEL FAILOVER, or EMULATOR FAILOVER to the primary",
        ));
    }
    let replication = &ctx.engine.replication;
    if let Some(upstream) = &replication.upstream {
        let primary = shown(&upstream.address());
        return Err(Error::new(format!(
            "ERR this server is a replica of {primary}: send EMULATOR FAILOVER to the primary"
        )));
    }
    let followers: Vec<Address> = match ctx.engine.cluster_place() {
        Some((cluster, network)) => {
            cluster.replicas_of(cluster.own).map(|replica| network.address(replica)).collect()
        }
        None => replication.followers.iter().map(|own| own.address.clone()).collect(),
    };
    let target =
        target.as_ref().map_or(followers.first(), |target| followers.iter().find(|own| *own == target));
    let Some(target) = target else {
        let known: Vec<String> = followers.iter().map(shown).collect();
        let known = if known.is_empty() { "there are none".into() } else { known.join(", ") };
        return Err(Error::new(format!(
            "ERR no such replica can take over. Replicas of this server: {known}"
        )));
    };
    if let Some(claim) = ctx.engine.claim_for(target) {
        if stays_writable {
            part_from_all(ctx)?;
            network.publish(own, &claim);
        } else {
            ctx.engine.spread(&claim);
        }
        return Ok(Reply::OK);
    }
    let nodes =
        followers.iter().map(|follower| server_at(&network, follower)).collect::<Result<Vec<_>, _>>()?;
    for (follower, node) in followers.iter().zip(nodes) {
        let order = if follower == target { Order::TakeOver } else { Order::Follow(target.clone()) };
        network.give(node, order);
    }
    // They get nothing more, even if they do what they are told later.
    ctx.engine.drop_followers();
    if !stays_writable {
        let (host, port) = target.clone();
        ctx.engine.follow(host.into(), port);
    }
    ctx.engine.kill_all();
    network.announce(&network.address(own), target);
    Ok(Reply::OK)
}

/// `EMULATOR PARTITION <host port [host port ...] | ALL>`: parts this server from others
pub(super) fn partition(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    if let [_, _, word] = argv
        && is_word(word, "all")
    {
        part_from_all(ctx)?;
        return Ok(Reply::OK);
    }
    let (addresses, []) = argv[2..].as_chunks::<2>() else {
        return Err(error::wrong_arity(ctx.row.name));
    };
    let (network, own) = place(ctx)?;
    let parse = |[host, port]: &[&[u8]; 2]| {
        let other = address(host, port)?;
        match server_at(&network, &other)? {
            node if node == own => {
                Err(Error::from_static("ERR a server cannot be parted from itself: name another one"))
            }
            node => Ok((node, other)),
        }
    };
    // If one of them is wrong, none is parted.
    let others = addresses.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    part(ctx, &network, own, others);
    Ok(Reply::OK)
}

fn part_from_all(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let (network, own) = place(ctx)?;
    let others = network.addresses().into_iter().enumerate().filter(|&(node, _)| node != own);
    part(ctx, &network, own, others);
    Ok(())
}

fn part(ctx: &mut Ctx<'_>, network: &Network, own: Node, others: impl IntoIterator<Item = (Node, Address)>) {
    for (node, other) in others {
        network.part(own, node);
        ctx.engine.cut_links_to(&other);
    }
}

/// `EMULATOR HEAL`: ends all partitions
pub(super) fn heal(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    place(ctx)?.0.heal();
    Ok(Reply::OK)
}

/// `EMULATOR LAG <milliseconds | HOLD | NONE>`: how late this replica gets what its primary writes
pub(super) fn lag(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    if ctx.engine.replication.upstream.is_none() {
        return Err(Error::from_static("ERR only a replica can lag: ROLE shows what this server is"));
    }
    ctx.engine.set_lag(match argv[2] {
        word if is_word(word, "none") => Lag::None,
        word if is_word(word, "hold") => Lag::Hold,
        millis => {
            let millis = number(millis, 0..=MILLIS_MAX, "EMULATOR LAG: milliseconds, unless HOLD or NONE,")?;
            Lag::By(Duration::from_millis(millis.unsigned_abs()))
        }
    });
    Ok(Reply::OK)
}

/// The servers that this one reaches.
fn place(ctx: &Ctx<'_>) -> Result<(Network, Node), Error> {
    ctx.engine.replication.place.clone().ok_or(Error::from_static(
        "ERR this server is alone: start it with replicas (lockstep serve --replicas 1, Emulator::replica)",
    ))
}

pub(super) fn address(host: &[u8], port: &[u8]) -> Result<Address, Error> {
    let port = number(port, 0..=u16::MAX.into(), "port")?;
    Ok((String::from_utf8_lossy(host).into_owned(), port as u16))
}

pub(super) fn server_at(network: &Network, address: &Address) -> Result<Node, Error> {
    network.at(address).ok_or_else(|| {
        let known: Vec<String> = network.addresses().iter().map(shown).collect();
        let known = known.join(", ");
        Error::new(format!("ERR there is no server at {}. Servers: {known}", shown(address)))
    })
}

pub(super) fn shown((host, port): &Address) -> String {
    format!("{host}:{port}")
}
