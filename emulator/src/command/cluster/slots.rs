//! Subcommands of `CLUSTER` on slots: their owners and their keys.

use super::super::{Argv, Ctx, Outcome, integer, is_word};
use crate::cluster::{self, Cluster, HashSlot, Node, SLOTS};
use crate::error::{self, Error};
use crate::reply::Reply;

/// What is done with a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Add,
    Delete,
}

/// `CLUSTER ADDSLOTS slot [slot ...]`
pub(super) fn add(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    assign(ctx, &single(ctx, argv)?, Act::Add)
}

/// `CLUSTER DELSLOTS slot [slot ...]`
pub(super) fn delete(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    assign(ctx, &single(ctx, argv)?, Act::Delete)
}

/// `CLUSTER ADDSLOTSRANGE start-slot end-slot [start-slot end-slot ...]`
pub(super) fn add_ranges(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    assign(ctx, &in_ranges(ctx, argv)?, Act::Add)
}

/// `CLUSTER DELSLOTSRANGE start-slot end-slot [start-slot end-slot ...]`
pub(super) fn delete_ranges(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    assign(ctx, &in_ranges(ctx, argv)?, Act::Delete)
}

fn single(ctx: &Ctx<'_>, argv: &Argv<'_>) -> Result<Vec<HashSlot>, Error> {
    if ctx.engine.cluster.is_none() {
        return Err(error::NO_CLUSTER);
    }
    argv[2..].iter().map(|arg| parse(arg)).collect()
}

fn in_ranges(ctx: &Ctx<'_>, argv: &Argv<'_>) -> Result<Vec<HashSlot>, Error> {
    if ctx.engine.cluster.is_none() {
        return Err(error::NO_CLUSTER);
    }
    let (pairs, []) = argv[2..].as_chunks::<2>() else { return Err(error::wrong_arity(ctx.row.name)) };
    let mut slots = Vec::new();
    for [start, end] in pairs {
        let (start, end) = (parse(start)?, parse(end)?);
        if start > end {
            return Err(Error::new(format!(
                "ERR start slot number {start} is greater than end slot number {end}"
            )));
        }
        slots.extend(start..=end);
    }
    Ok(slots)
}

fn parse(arg: &[u8]) -> Result<HashSlot, Error> {
    let slot = crate::parse::parse_integer(arg).and_then(|slot| HashSlot::try_from(slot).ok());
    slot.filter(|&slot| slot < SLOTS).ok_or(Error::from_static("ERR Invalid or out of range slot"))
}

fn assign(ctx: &mut Ctx<'_>, slots: &[HashSlot], act: Act) -> Outcome {
    let cluster = ctx.engine.cluster_mut()?;
    for &slot in slots {
        match (act, cluster.owner(slot)) {
            (Act::Add, Some(_)) => return Err(Error::new(format!("ERR Slot {slot} is already busy"))),
            (Act::Delete, None) => {
                return Err(Error::new(format!("ERR Slot {slot} is already unassigned")));
            }
            _ => {}
        }
    }
    let mut sorted = slots.to_vec();
    sorted.sort_unstable();
    let twice = sorted.windows(2).find(|pair| pair[0] == pair[1]);
    if let Some(&[slot, _]) = twice.and_then(|pair| pair.first_chunk::<2>()) {
        return Err(Error::new(format!("ERR Slot {slot} specified multiple times")));
    }
    let owner = (act == Act::Add).then_some(cluster.own);
    for &slot in slots {
        cluster.importing.remove(&slot);
        cluster.assign(slot, owner);
    }
    ctx.engine.note_moved(slots);
    Ok(Reply::OK)
}

/// `CLUSTER FLUSHSLOTS`
pub(super) fn flush(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    ctx.engine.cluster()?;
    if ctx.whole_db().len() > 0 {
        return Err(Error::from_static("ERR DB must be empty to perform CLUSTER FLUSHSLOTS."));
    }
    let cluster = ctx.engine.cluster_mut()?;
    let slots: Vec<HashSlot> = cluster.ranges_of(cluster.own).into_iter().flatten().collect();
    slots.iter().for_each(|&slot| cluster.assign(slot, None));
    ctx.engine.note_moved(&slots);
    Ok(Reply::OK)
}

/// `CLUSTER SETSLOT slot <IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE>`
pub(super) fn set(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let cluster = ctx.engine.cluster_mut()?;
    if cluster.own_primary().is_some() {
        return Err(Error::from_static("ERR Please use SETSLOT only with masters."));
    }
    let slot = parse(argv[2])?;
    let is_own = cluster.owner(slot) == Some(cluster.own);
    match argv[3..] {
        [word, id] if is_word(word, "migrating") => {
            if !is_own {
                return Err(Error::new(format!("ERR I'm not the owner of hash slot {slot}")));
            }
            let node = primary(cluster, id, "I don't know about node")?;
            cluster.migrating.insert(slot, node);
        }
        [word, id] if is_word(word, "importing") => {
            if is_own {
                return Err(Error::new(format!("ERR I'm already the owner of hash slot {slot}")));
            }
            let node = primary(cluster, id, "I don't know about node")?;
            cluster.importing.insert(slot, node);
        }
        [word] if is_word(word, "stable") => {
            cluster.migrating.remove(&slot);
            cluster.importing.remove(&slot);
        }
        [word, id] if is_word(word, "node") => {
            let node = primary(cluster, id, "Unknown node")?;
            return set_owner(ctx, slot, node);
        }
        _ => {
            return Err(Error::from_static(
                "ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP",
            ));
        }
    }
    Ok(Reply::OK)
}

/// The server with this name, which must be a primary.
fn primary(cluster: &Cluster, id: &[u8], unknown: &str) -> Result<Node, Error> {
    let node = cluster.by_id(id).ok_or_else(|| super::roles::unknown_node(unknown, id))?;
    match cluster.primary_of(node) {
        None => Ok(node),
        Some(_) => Err(Error::from_static("ERR Target node is not a master")),
    }
}

fn set_owner(ctx: &mut Ctx<'_>, slot: HashSlot, node: Node) -> Outcome {
    let has_keys = !ctx.engine.keys_in(slot).is_empty();
    let cluster = ctx.engine.cluster_mut()?;
    let own = cluster.own;
    let was_own = cluster.owner(slot) == Some(own);
    if was_own && node != own && has_keys {
        return Err(Error::new(format!(
            "ERR Can't assign hashslot {slot} to a different node while I still hold keys for this hash slot."
        )));
    }
    if !has_keys {
        cluster.migrating.remove(&slot);
    }
    cluster.assign(slot, Some(node));
    if node == own && cluster.importing.remove(&slot).is_some() {
        // The new epoch lets the others believe it.
        cluster.bump_epoch();
    }
    if was_own && node != own && cluster.slot_count(own) == 0 {
        cluster.replicate(node);
    }
    ctx.engine.note_moved(&[slot]);
    Ok(Reply::OK)
}

/// `CLUSTER KEYSLOT key`
pub(super) fn key_slot(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    ctx.engine.cluster()?;
    Ok(Reply::Integer(cluster::key_slot(argv[2]).into()))
}

/// `CLUSTER COUNTKEYSINSLOT slot`
pub(super) fn count_keys(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    ctx.engine.cluster()?;
    let slot = HashSlot::try_from(integer(argv[2])?).ok().filter(|&slot| slot < SLOTS);
    let slot = slot.ok_or(Error::from_static("ERR Invalid slot"))?;
    Ok(Reply::count(ctx.engine.keys_in(slot).len()))
}

/// `CLUSTER GETKEYSINSLOT slot count`
pub(super) fn get_keys(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    ctx.engine.cluster()?;
    let (slot, count) = (integer(argv[2])?, integer(argv[3])?);
    let slot = HashSlot::try_from(slot).ok().filter(|&slot| slot < SLOTS);
    let (Some(slot), Ok(count)) = (slot, usize::try_from(count)) else {
        return Err(Error::from_static("ERR Invalid slot or number of keys"));
    };
    let keys = ctx.engine.keys_in(slot).into_iter().take(count);
    Ok(Reply::Array(keys.map(Reply::Bulk).collect()))
}
