//! `EMULATOR MOVE-SLOT`: what `redis-cli --cluster reshard` does, in one step or in parts.

use bytes::Bytes;

use super::super::{Argv, Ctx, Outcome, is_word};
use super::servers::{address, server_at, shown};
use super::words::{number, unknown};
use crate::cluster::{HashSlot, Node, SLOTS, key_slot};
use crate::error::Error;
use crate::keyspace::{Class, Content};
use crate::replication::Order;
use crate::reply::Reply;

/// `EMULATOR MOVE-SLOT slot host port [KEYS [key ...]]`
///
/// Without `KEYS`, the slot belongs to the other server from now on, with all its keys. With
/// `KEYS`, only these keys are there, and the slot is on its way: clients get `ASK` and `TRYAGAIN`.
pub(super) fn move_slot(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let slot = number(argv[2], 0..=i64::from(SLOTS) - 1, "EMULATOR MOVE-SLOT: slot")? as HashSlot;
    let target = target(ctx, slot, argv[3], argv[4])?;
    let (keys, stays_open) = match &argv[5..] {
        [] => (ctx.engine.keys_in(slot), false),
        [word, keys @ ..] if is_word(word, "keys") => {
            if let Some(foreign) = keys.iter().find(|key| key_slot(key) != slot) {
                let (foreign, other) = (foreign.escape_ascii(), key_slot(foreign));
                return Err(Error::new(format!(
                    "ERR key '{foreign}' is in slot {other}, not in {slot}: CLUSTER KEYSLOT tells the slot of a key"
                )));
            }
            (keys.iter().map(|key| Bytes::copy_from_slice(key)).collect(), true)
        }
        [word, ..] => return Err(unknown("EMULATOR MOVE-SLOT", word, &["KEYS [key ...]"])),
    };
    let contents = take(ctx, keys);
    let cluster = ctx.engine.cluster_mut()?;
    let (own, claim) = (cluster.own, cluster.claim_of_gain(target, slot));
    if stays_open {
        cluster.migrating.insert(slot, target);
    } else {
        cluster.migrating.remove(&slot);
    }
    if let Some((_, network)) = ctx.engine.cluster_place() {
        network.give(target, Order::Import(slot, stays_open.then_some(own), contents));
        network.stir();
    }
    if !stays_open {
        ctx.engine.spread(&claim);
    }
    Ok(Reply::OK)
}

/// The server that is to get a slot of this one.
fn target(ctx: &mut Ctx<'_>, slot: HashSlot, host: &[u8], port: &[u8]) -> Result<Node, Error> {
    let address = address(host, port)?;
    ctx.engine.cluster()?;
    let Some((cluster, network)) = ctx.engine.cluster_place() else {
        return Err(crate::error::NO_CLUSTER);
    };
    let target = server_at(network, &address)?;
    let address = shown(&address);
    let refusal = match cluster.owner(slot) {
        _ if !cluster.nodes().contains(&target) => format!("{address} is no server of the cluster"),
        Some(owner) if owner != cluster.own => {
            let owner = shown(&network.address(owner));
            format!("slot {slot} belongs to {owner}: send EMULATOR MOVE-SLOT there")
        }
        None => format!("slot {slot} belongs to no server: CLUSTER ADDSLOTS gives it to one"),
        Some(_) if target == cluster.own => format!("slot {slot} is here already: name another server"),
        Some(_) if cluster.primary_of(target).is_some() => {
            format!("{address} is a replica: name a primary, which CLUSTER NODES lists")
        }
        Some(_) if !network.reaches(cluster.own, target) => {
            format!("{address} is not reached: EMULATOR HEAL ends the partition")
        }
        Some(_) => return Ok(target),
    };
    Err(Error::new(format!("ERR {refusal}")))
}

/// Takes keys out of the data.
fn take(ctx: &mut Ctx<'_>, keys: Vec<Bytes>) -> Vec<(Bytes, Content)> {
    let mut taken = Vec::new();
    for key in keys {
        let mut db = ctx.engine.keyspace.db(0);
        if let Some(content) = db.take(&key) {
            db.notify(Class::Generic, "del", &key);
            ctx.replicate_as(&[b"DEL", &key]);
            taken.push((key, content));
        }
    }
    taken
}
