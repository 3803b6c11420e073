//! Subcommands of `CLUSTER` on servers: who replicates whom, failover and epochs.

use super::super::{Argv, Ctx, Outcome, integer, is_word};
use crate::cluster::Node;
use crate::error::{self, Error};
use crate::replication::Order;
use crate::reply::Reply;

/// How a replica becomes the primary.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takeover {
    /// Its primary hands over when the replica has all data.
    Agreed,
    /// Most primaries agree, and its own is not asked.
    Forced,
    /// Nobody is asked.
    Alone,
}

/// `CLUSTER FAILOVER [FORCE | TAKEOVER]`
pub(super) fn failover(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    ctx.engine.cluster()?;
    let kind = match argv[2..] {
        [] => Takeover::Agreed,
        [word] if is_word(word, "force") => Takeover::Forced,
        [word] if is_word(word, "takeover") => Takeover::Alone,
        [_] => return Err(error::SYNTAX),
        _ => return Err(error::unknown_subcommand_or_arity("CLUSTER", argv[1])),
    };
    let cluster = ctx.engine.cluster_mut()?;
    let own = cluster.own;
    let Some(primary) = cluster.own_primary() else {
        return Err(Error::from_static("ERR You should send CLUSTER FAILOVER to a replica"));
    };
    let missed = ctx.engine.missed();
    let Some((cluster, network)) = ctx.engine.cluster_place() else { return Err(error::NO_CLUSTER) };
    if kind == Takeover::Agreed && !network.reaches(own, primary) {
        return Err(Error::from_static("ERR Master is down or failed, please use CLUSTER FAILOVER FORCE"));
    }
    if kind != Takeover::Alone && !cluster.is_in_majority(&missed) {
        // Redis replies this, too, and then nobody votes for the replica.
        return Ok(Reply::OK);
    }
    if kind == Takeover::Agreed {
        network.give(primary, Order::HandOver(network.address(own)));
        network.stir();
    } else {
        let claim = cluster.claim_of_successor(own);
        ctx.engine.spread(&claim);
    }
    Ok(Reply::OK)
}

/// `CLUSTER REPLICATE node-id`
pub(super) fn replicate(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let primary = by_id(ctx, argv[2])?;
    let has_keys = ctx.whole_db().len() > 0;
    let cluster = ctx.engine.cluster_mut()?;
    let refusal = match () {
        () if primary == cluster.own => "ERR Can't replicate myself",
        () if cluster.primary_of(primary).is_some() => "ERR I can only replicate a master, not a replica.",
        () if cluster.own_primary().is_none() && (cluster.slot_count(cluster.own) > 0 || has_keys) => {
            "ERR To set a master the node must be empty and without assigned slots."
        }
        () => {
            cluster.replicate(primary);
            ctx.engine.note_moved(&[]);
            return Ok(Reply::OK);
        }
    };
    Err(Error::from_static(refusal))
}

/// The server with this name.
pub(super) fn by_id(ctx: &mut Ctx<'_>, id: &[u8]) -> Result<Node, Error> {
    ctx.engine.cluster()?.by_id(id).ok_or_else(|| unknown_node("Unknown node", id))
}

pub(super) fn unknown_node(text: &str, id: &[u8]) -> Error {
    Error::new([b"ERR ", text.as_bytes(), b" ", id].concat())
}

/// `CLUSTER MEET ip port [cluster_bus_port]`: all servers of the process know each other already
pub(super) fn meet(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    ctx.engine.cluster()?;
    let (host, port) = (String::from_utf8_lossy(argv[2]), argv[3]);
    let Some(port) = crate::parse::parse_integer(port) else {
        let port = String::from_utf8_lossy(port);
        return Err(Error::new(format!("ERR Invalid TCP base port specified: {port}")));
    };
    if let Some(bus_port) = argv.get(4)
        && crate::parse::parse_integer(bus_port).is_none()
    {
        let bus_port = String::from_utf8_lossy(bus_port);
        return Err(Error::new(format!("ERR Invalid TCP bus port specified: {bus_port}")));
    }
    let own_port = u16::try_from(port).ok().filter(|_| host.parse::<std::net::IpAddr>().is_ok());
    let Some(own_port) = own_port else {
        return Err(Error::new(format!("ERR Invalid node address specified: {host}:{port}")));
    };
    let address = (host.to_string(), own_port);
    match ctx.engine.cluster_place().and_then(|(_, network)| network.at(&address)) {
        Some(_) => Ok(Reply::OK),
        None => Err(Error::new(format!(
            "ERR {host}:{port} is no server of this cluster, and the emulator lets no other join: start it with more servers"
        ))),
    }
}

/// `CLUSTER BUMPEPOCH`
pub(super) fn bump_epoch(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    let cluster = ctx.engine.cluster_mut()?;
    let word = if cluster.bump_epoch() { "BUMPED" } else { "STILL" };
    let epoch = cluster.claim().epoch;
    ctx.engine.note_moved(&[]);
    Ok(Reply::Status(format!("{word} {epoch}").into()))
}

/// `CLUSTER SET-CONFIG-EPOCH config-epoch`: only a server without an epoch takes one
pub(super) fn set_config_epoch(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let knows_others = ctx.engine.cluster()?.nodes().len() > 1;
    let epoch = integer(argv[2])?;
    Err(match () {
        () if epoch < 0 => Error::new(format!("ERR Invalid config epoch specified: {epoch}")),
        () if knows_others => Error::from_static(
            "ERR The user can assign a config epoch only when the node does not know any other node.",
        ),
        () => Error::from_static("ERR Node config epoch is already non-zero"),
    })
}

/// `CLUSTER SAVECONFIG`: there is no file
pub(super) fn save_config(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    ctx.engine.cluster()?;
    Ok(Reply::OK)
}

/// `CLUSTER COUNT-FAILURE-REPORTS node-id`: how many primaries miss a server
pub(super) fn count_failure_reports(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let node = by_id(ctx, argv[2])?;
    let missed = ctx.engine.missed_by_all();
    let cluster = ctx.engine.cluster()?;
    let own = cluster.own;
    let reports = cluster
        .voters()
        .filter(|&voter| voter != own && !missed.contains(&(own, voter)) && missed.contains(&(voter, node)));
    Ok(Reply::count(reports.count()))
}
