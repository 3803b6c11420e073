//! Which server of a cluster has which slots, as plain data.

use std::collections::BTreeMap;

use super::Node;
use super::slot::{HashSlot, even_ranges};

/// The slots of each server of a cluster, for servers that know nothing of each other:
/// [`Emulator::serve_slots`](crate::Emulator::serve_slots).
///
/// Servers are numbered from 0. At first, all slots are divided evenly among them, as
/// `redis-cli --cluster create` divides them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SlotMap {
    count: usize,
    /// The slots that have changed their owner.
    moved: BTreeMap<HashSlot, Node>,
    /// The slots on their way, and whither.
    moving: BTreeMap<HashSlot, Node>,
}

impl SlotMap {
    /// So many servers.
    pub fn new(count: usize) -> SlotMap {
        SlotMap { count, moved: BTreeMap::new(), moving: BTreeMap::new() }
    }

    /// The number of servers.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The server that owns a slot.
    pub fn owner(&self, slot: HashSlot) -> usize {
        let at_first = || even_ranges(self.count).position(|range| range.contains(&slot));
        self.moved.get(&slot).copied().or_else(at_first).expect("every slot is in a range")
    }

    /// The server to which a slot is on its way, as after `CLUSTER SETSLOT MIGRATING`.
    pub fn target(&self, slot: HashSlot) -> Option<usize> {
        self.moving.get(&slot).copied()
    }

    /// Whether a slot is on its way, or has changed its owner.
    pub fn has_moved(&self, slot: HashSlot) -> bool {
        self.moving.contains_key(&slot) || self.moved.contains_key(&slot)
    }

    /// The slots on their way, each with the server that gets it.
    pub fn moving(&self) -> impl Iterator<Item = (HashSlot, usize)> {
        self.moving.iter().map(|(&slot, &server)| (slot, server))
    }

    /// A slot is on its way to another server from now on.
    pub fn begin_move(&mut self, slot: HashSlot, to: usize) {
        self.moving.insert(slot, to);
    }

    /// A slot that was on its way has arrived.
    pub fn end_move(&mut self, slot: HashSlot) {
        let to = self.moving.remove(&slot);
        self.moved.extend(to.map(|to| (slot, to)));
    }

    /// The slots that have changed their owner, each with the new one.
    pub(super) fn moved(&self) -> impl Iterator<Item = (HashSlot, Node)> {
        self.moved.iter().map(|(&slot, &server)| (slot, server))
    }
}
