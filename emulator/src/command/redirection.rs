//! Whether this server of a cluster may run a command, or which other one the client must ask.
//!
//! The checks and their order are those of Redis's `getNodeByQuery`.

use super::admission::script_flags;
use super::{Argv, Flag, Row, Table, borrow};
use crate::client::Client;
use crate::cluster::{HashSlot, Node, key_slot};
use crate::config::Id;
use crate::engine::Engine;
use crate::error::{self, Error};

const ALLOWS_READS_WHEN_DOWN: Id = Id::of("cluster-allow-reads-when-down");
const ALLOWS_SHARD_CHANNELS_WHEN_DOWN: Id = Id::of("cluster-allow-pubsubshard-when-down");

/// Why this server does not run a command.
enum Refusal {
    CrossSlot,
    NotServed,
    Down,
    OnlyReads,
    TryAgain,
    Ask(HashSlot, Node),
    Moved(HashSlot, Node),
}

/// The keys of a command or of a transaction, and what it does with them.
struct Query {
    keys: Vec<Vec<u8>>,
    has_shard_channels: bool,
    is_write: bool,
}

/// Checks whether this server runs a command of a client.
///
/// # Errors
/// Redis's text: where the client must ask, or why nobody can run the command.
pub(super) fn check(
    table: &Table,
    engine: &mut Engine,
    client: &mut Client,
    row: &Row,
    argv: &Argv<'_>,
) -> Result<(), Error> {
    client.hash_slot = None;
    if engine.cluster.is_none() || row.keys.is_empty() && row.name != "exec" {
        return Ok(());
    }
    let mut query = Query { keys: Vec::new(), has_shard_channels: has_shard_channels(row), is_write: false };
    if row.name == "exec" {
        let queue = client.transaction.iter().flat_map(|transaction| &transaction.queue);
        for argv in queue {
            let argv = borrow(argv);
            if let Ok(row) = table.resolve(&argv) {
                query.add(row, &argv);
                query.is_write |= row.has(Flag::Write);
            }
        }
    } else {
        query.add(row, argv);
        query.is_write = match script_flags(engine, row, argv) {
            Some(flags) => !flags.contains(&"no-writes"),
            None => row.has(Flag::Write),
        };
    }
    match route(engine, client, &query) {
        Ok(slot) => {
            client.hash_slot = slot;
            Ok(())
        }
        Err(refusal) => Err(match refusal {
            Refusal::CrossSlot => error::CROSSSLOT,
            Refusal::NotServed => error::SLOT_NOT_SERVED,
            Refusal::Down => error::CLUSTERDOWN,
            Refusal::OnlyReads => error::CLUSTERDOWN_READS,
            Refusal::TryAgain => error::TRYAGAIN,
            Refusal::Ask(slot, node) => engine.redirection("ASK", slot, node),
            Refusal::Moved(slot, node) => engine.redirection("MOVED", slot, node),
        }),
    }
}

/// Checks whether a script may use the keys of a command.
///
/// # Errors
/// Redis's text, if this server does not serve them.
pub(super) fn check_in_script(
    engine: &mut Engine,
    client: &mut Client,
    row: &Row,
    argv: &Argv<'_>,
) -> Result<(), Error> {
    if engine.cluster.is_none() || row.keys.is_empty() {
        return Ok(());
    }
    let (has_shard_channels, is_write) = (has_shard_channels(row), row.has(Flag::Write));
    let mut query = Query { keys: Vec::new(), has_shard_channels, is_write };
    query.add(row, argv);
    let slot = route(engine, client, &query).map_err(|refusal| match refusal {
        Refusal::OnlyReads => error::SCRIPT_CLUSTERDOWN_READS,
        Refusal::Down => error::SCRIPT_CLUSTERDOWN,
        _ => error::SCRIPT_NON_LOCAL_KEY,
    })?;
    if client.may_cross_slots || slot.is_none() {
        return Ok(());
    }
    client.hash_slot = client.hash_slot.or(slot);
    if client.hash_slot == slot { Ok(()) } else { Err(error::SCRIPT_CROSSSLOT) }
}

fn has_shard_channels(row: &Row) -> bool {
    matches!(row.name, "ssubscribe" | "sunsubscribe" | "spublish")
}

impl Query {
    fn add(&mut self, row: &Row, argv: &Argv<'_>) {
        let positions = row.keys.iter().flat_map(|spec| spec.positions(argv));
        self.keys.extend(positions.map(|idx| argv[idx].to_vec()));
    }
}

/// The slot of a query that this server runs. `None` if there are no keys.
fn route(engine: &mut Engine, client: &Client, query: &Query) -> Result<Option<HashSlot>, Refusal> {
    let Some(cluster) = engine.cluster.as_deref() else { return Ok(None) };
    let Some(slot) = query.keys.first().map(|key| key_slot(key)) else { return Ok(None) };
    let own = cluster.own;
    let owner = cluster.owner(slot).ok_or(Refusal::NotServed)?;
    let target = cluster.migrating.get(&slot).copied().filter(|_| owner == own);
    let is_importing = target.is_none() && cluster.importing.contains_key(&slot);
    let reads_own_primary = cluster.own_primary() == Some(owner);
    if query.keys.iter().any(|key| key_slot(key) != slot) {
        return Err(Refusal::CrossSlot);
    }
    let (mut missing, mut existing) = (0, 0);
    if (target.is_some() || is_importing) && !query.has_shard_channels {
        for key in &query.keys {
            *if engine.keyspace.db(0).contains(key) { &mut existing } else { &mut missing } += 1;
        }
    }
    check_state(engine, query)?;
    if let Some(target) = target.filter(|_| missing > 0) {
        return Err(if existing > 0 { Refusal::TryAgain } else { Refusal::Ask(slot, target) });
    }
    if is_importing && client.asking.holds {
        let has_several = query.keys.iter().any(|key| *key != query.keys[0]);
        return if has_several && missing > 0 { Err(Refusal::TryAgain) } else { Ok(Some(slot)) };
    }
    let reads = (client.reads_replicas || query.has_shard_channels) && !query.is_write;
    if owner == own || reads && reads_own_primary { Ok(Some(slot)) } else { Err(Refusal::Moved(slot, owner)) }
}

/// Checks whether the cluster is up, or may be used nevertheless.
fn check_state(engine: &mut Engine, query: &Query) -> Result<(), Refusal> {
    if !engine.is_cluster_down() {
        return Ok(());
    }
    if query.has_shard_channels {
        let is_allowed = engine.config.is_on(ALLOWS_SHARD_CHANNELS_WHEN_DOWN);
        return if is_allowed { Ok(()) } else { Err(Refusal::Down) };
    }
    match engine.config.is_on(ALLOWS_READS_WHEN_DOWN) {
        false => Err(Refusal::Down),
        true if query.is_write => Err(Refusal::OnlyReads),
        true => Ok(()),
    }
}
