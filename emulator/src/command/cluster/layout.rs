//! Subcommands of `CLUSTER` that tell of servers and slots.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use bytes::Bytes;

use super::super::{Argv, Ctx, Outcome};
use super::roles::by_id;
use crate::cluster::{Cluster, HashSlot, Node};
use crate::error::{self, Error};
use crate::reply::Reply;

/// What the port of the connections between servers is above that of clients.
const BUS_PORT_OFFSET: u32 = 10_000;

/// `CLUSTER MYID`
pub(super) fn my_id(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Ok(Reply::bulk(Cluster::id(ctx.engine.cluster()?.own)))
}

/// `CLUSTER INFO`
pub(super) fn info(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    ctx.engine.cluster()?;
    let state = if ctx.engine.is_cluster_down() { "fail" } else { "ok" };
    let health = Health::of(ctx);
    let cluster = ctx.engine.cluster()?;
    let slots_of = |is: &dyn Fn(Node) -> bool| {
        cluster.nodes().filter(|&node| is(node)).map(|node| cluster.slot_count(node)).sum::<usize>()
    };
    let failed = slots_of(&|node| health.failed.contains(&node));
    let suspected = slots_of(&|node| health.is_suspected(node));
    let lines: [(&str, &dyn std::fmt::Display); 12] = [
        ("cluster_state", &state),
        ("cluster_slots_assigned", &cluster.assigned()),
        ("cluster_slots_ok", &(cluster.assigned() - failed - suspected)),
        ("cluster_slots_pfail", &suspected),
        ("cluster_slots_fail", &failed),
        ("cluster_known_nodes", &cluster.nodes().len()),
        ("cluster_size", &cluster.voters().count()),
        ("cluster_current_epoch", &cluster.last_epoch),
        ("cluster_my_epoch", &cluster.epoch_of(cluster.own)),
        ("cluster_stats_messages_sent", &0),
        ("cluster_stats_messages_received", &0),
        ("total_cluster_links_buffer_limit_exceeded", &0),
    ];
    let text: String = lines.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect();
    Ok(Reply::Verbatim(*b"txt", text.into()))
}

/// Which servers are out of reach, as far as this one knows.
struct Health {
    own: Node,
    missed: BTreeSet<(Node, Node)>,
    failed: Vec<Node>,
}

impl Health {
    fn of(ctx: &mut Ctx<'_>) -> Health {
        let missed = ctx.engine.missed();
        let (own, failed) = ctx
            .engine
            .cluster
            .as_ref()
            .map_or((0, Vec::new()), |cluster| (cluster.own, cluster.failed(&missed)));
        Health { own, missed, failed }
    }

    /// Whether only this server says that another one has failed.
    fn is_suspected(&self, node: Node) -> bool {
        self.missed.contains(&(self.own, node)) && !self.failed.contains(&node)
    }

    /// The end of the flags of a server.
    fn flag(&self, node: Node) -> &'static str {
        match () {
            () if self.failed.contains(&node) => ",fail",
            () if self.is_suspected(node) => ",fail?",
            () => "",
        }
    }
}

/// `CLUSTER NODES`
pub(super) fn nodes(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    let nodes = ctx.engine.cluster()?.nodes();
    let text: String = lines(ctx, nodes)?.into_iter().map(|line| line + "\n").collect();
    Ok(Reply::Verbatim(*b"txt", text.into()))
}

/// `CLUSTER REPLICAS node-id`, `CLUSTER SLAVES node-id`
pub(super) fn replicas(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let primary = by_id(ctx, argv[2])?;
    let cluster = ctx.engine.cluster()?;
    if cluster.primary_of(primary).is_some() {
        return Err(Error::from_static("ERR The specified node is not a master"));
    }
    let replicas: Vec<Node> = cluster.replicas_of(primary).collect();
    Ok(Reply::Array(lines(ctx, replicas)?.into_iter().map(Reply::bulk).collect()))
}

/// A line for each of these servers.
fn lines(ctx: &mut Ctx<'_>, nodes: impl IntoIterator<Item = Node>) -> Result<Vec<String>, Error> {
    let now_ms = ctx.engine.keyspace.now().millis();
    let health = Health::of(ctx);
    let Some((cluster, network)) = ctx.engine.cluster_place() else { return Err(error::NO_CLUSTER) };
    let line = |node: Node| {
        let (host, port) = network.address(node);
        let bus_port = u32::from(port) + BUS_PORT_OFFSET;
        let own = if node == cluster.own { "myself," } else { "" };
        let primary = cluster.primary_of(node);
        let role = if primary.is_some() { "slave" } else { "master" };
        let flag = health.flag(node);
        let primary = primary.map_or_else(|| "-".into(), Cluster::id);
        let link = if network.reaches(cluster.own, node) { "connected" } else { "disconnected" };
        let (id, epoch) = (Cluster::id(node), cluster.epoch_of(node));
        let mut line =
            format!("{id} {host}:{port}@{bus_port} {own}{role}{flag} {primary} 0 {now_ms} {epoch} {link}");
        for range in cluster.ranges_of(node) {
            // Writing to a `String` cannot fail.
            _ = match range.start() == range.end() {
                true => write!(line, " {}", range.start()),
                false => write!(line, " {}-{}", range.start(), range.end()),
            };
        }
        if node == cluster.own {
            let open = |(slot, other): (&HashSlot, &Node), sign: char| {
                format!(" [{slot}-{sign}-{}]", Cluster::id(*other))
            };
            line.extend(cluster.migrating.iter().map(|entry| open(entry, '>')));
            line.extend(cluster.importing.iter().map(|entry| open(entry, '<')));
        }
        line
    };
    Ok(nodes.into_iter().map(line).collect())
}

/// `CLUSTER SLOTS`
pub(super) fn slots(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    ctx.engine.cluster()?;
    let health = Health::of(ctx);
    let Some((cluster, network)) = ctx.engine.cluster_place() else { return Err(error::NO_CLUSTER) };
    let describe = |node: Node| {
        let (host, port) = network.address(node);
        let id = Reply::bulk(Cluster::id(node));
        Reply::Array(vec![Reply::bulk(host), Reply::Integer(port.into()), id, Reply::Map(Vec::new())])
    };
    let ranges = cluster.ranges().into_iter().map(|(range, owner)| {
        let ends = [range.start(), range.end()].map(|&slot| Reply::Integer(slot.into()));
        let replicas = cluster.replicas_of(owner).filter(|node| !health.failed.contains(node));
        let nodes = std::iter::once(owner).chain(replicas).map(describe);
        Reply::Array(ends.into_iter().chain(nodes).collect())
    });
    Ok(Reply::Array(ranges.collect()))
}

/// `CLUSTER SHARDS`
pub(super) fn shards(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    ctx.engine.cluster()?;
    let health = Health::of(ctx);
    let offset = Reply::Integer(ctx.engine.replication.offset as i64);
    let Some((cluster, network)) = ctx.engine.cluster_place() else { return Err(error::NO_CLUSTER) };
    let own_shard = cluster.shard_of(cluster.own);
    let describe = |node: Node| {
        let (host, port) = network.address(node);
        let is_known = cluster.shard_of(node) == own_shard;
        let role = if cluster.primary_of(node).is_some() { "replica" } else { "master" };
        fields([
            ("id", Reply::bulk(Cluster::id(node))),
            ("port", Reply::Integer(port.into())),
            ("ip", Reply::bulk(host.clone())),
            ("endpoint", Reply::bulk(host)),
            ("role", Reply::bulk(role)),
            ("replication-offset", if is_known { offset.clone() } else { Reply::Integer(0) }),
            ("health", Reply::bulk(if health.failed.contains(&node) { "fail" } else { "online" })),
        ])
    };
    let primaries = cluster.nodes().filter(|&node| cluster.primary_of(node).is_none());
    let shards = primaries.map(|primary| {
        let ranges = cluster.ranges_of(primary).into_iter();
        let ends = ranges.flat_map(|range| [*range.start(), *range.end()]);
        let nodes = std::iter::once(primary).chain(cluster.replicas_of(primary)).map(describe);
        fields([
            ("slots", Reply::Array(ends.map(|slot| Reply::Integer(slot.into())).collect())),
            ("nodes", Reply::Array(nodes.collect())),
        ])
    });
    Ok(Reply::Array(shards.collect()))
}

/// `CLUSTER LINKS`
pub(super) fn links(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    ctx.engine.cluster()?;
    let began_ms = ctx.engine.stats.began.millis();
    let Some((cluster, network)) = ctx.engine.cluster_place() else { return Err(error::NO_CLUSTER) };
    let reached = cluster.nodes().filter(|&node| node != cluster.own && network.reaches(cluster.own, node));
    let links = reached.flat_map(|node| {
        [("to", node), ("from", node)].map(|(direction, node)| {
            fields([
                ("direction", Reply::bulk(direction)),
                ("node", Reply::bulk(Cluster::id(node))),
                ("create-time", Reply::Integer(began_ms)),
                ("events", Reply::bulk("r")),
                ("send-buffer-allocated", Reply::Integer(0)),
                ("send-buffer-used", Reply::Integer(0)),
            ])
        })
    });
    Ok(Reply::Array(links.collect()))
}

fn fields<const N: usize>(fields: [(&'static str, Reply); N]) -> Reply {
    Reply::Map(
        fields
            .into_iter()
            .map(|(name, value)| (Reply::Bulk(Bytes::from_static(name.as_bytes())), value))
            .collect(),
    )
}
