//! Servers that are a cluster, and slots that move between them.
//!
//! The servers know nothing of each other. Before one of them runs anything, it is shown which
//! server has which slots, so that what it does is known only together with that. A message that is
//! published at one of them is published at all.

use std::sync::Arc;

use emulator::{HashSlot, SlotMap, key_slot};
use redis::{RedisResult, ServerError, Value};

use super::{Server, Simulation, World};
use crate::fault::{Fault, FaultKind, Target};
use crate::live::Request;
use crate::render::keys_of;

impl Simulation {
    /// Shows a server which servers have which slots, before it runs what is not known of it.
    pub(super) fn show_slot_map(&mut self, node: usize) {
        let (Some(slot_map), Server::Emulator(emulator)) = (&self.world.slot_map, &self.servers[node]) else {
            return;
        };
        if self.engines[node].shown.as_ref() != Some(slot_map) {
            emulator.serve_slots(self.world.home(node), slot_map);
            self.engines[node].shown = Some(slot_map.clone());
        }
    }

    /// The slots in use so far that belong to other servers than that of this node, and do not move
    /// yet.
    pub(crate) fn slots_elsewhere(&self, node: usize) -> Vec<i64> {
        let Some(slot_map) = &self.world.slot_map else { return Vec::new() };
        let home = self.world.home(node);
        let can_move = |slot: &HashSlot| slot_map.owner(*slot) != home && slot_map.target(*slot).is_none();
        self.world.slots_in_use.iter().copied().filter(can_move).map(i64::from).collect()
    }

    /// Notes the slots of the keys that there are at the start.
    pub(crate) fn begin_cluster(&mut self) {
        let primaries: Vec<usize> = self.world.primaries().collect();
        for node in primaries.into_iter().filter(|_| self.config.is_cluster) {
            let keys = self.read(node, |data| data.keys("*")).unwrap_or_default();
            self.world.slots_in_use.extend(keys.iter().map(|key| key_slot(key)));
        }
    }

    /// A slot begins to move to the server of this node.
    pub(crate) fn begin_move(&mut self, slot: HashSlot, to: usize) {
        let Some(mut slot_map) = self.world.slot_map.as_deref().cloned() else { return };
        let to = self.world.home(to);
        if slot_map.owner(slot) == to || slot_map.target(slot).is_some() {
            return;
        }
        slot_map.begin_move(slot, to);
        self.world.note_moved([slot_map.owner(slot), to]);
        self.world.slot_map = Some(Arc::new(slot_map));
    }

    /// The keys of a slot that moves come to the new server, and the slot belongs to it.
    pub(crate) fn end_move(&mut self, slot: HashSlot) {
        let Some(before) = self.world.slot_map.clone() else { return };
        let Some(target) = before.target(slot) else { return };
        let owner = before.owner(slot);
        let [from, to] = [owner, target].map(|server| self.world.primary(server));
        let Some(held) = self.snapshot(from) else { return };
        let at = self.clocks[from].now();
        let mut slot_map = SlotMap::clone(&before);
        slot_map.end_move(slot);
        let slot_map = Arc::new(slot_map);
        self.on_server(from, ("lose slot", &slot_map), |emulator| emulator.lose_slots(owner, &slot_map));
        self.engines[from].shown = None;
        self.world.slot_map = Some(slot_map);
        let deed = ("take slot", slot, held.digest(), at);
        self.on_server(to, deed, |emulator| emulator.take_slot(slot, &held, at));
        self.copy_to_replicas(from);
        self.copy_to_replicas(to);
        self.world.note_moved([owner, target]);
    }

    /// Publishes at the other servers what has been published at one of them.
    pub(super) fn carry_messages(&mut self, node: usize) {
        if self.world.slot_map.is_none() {
            return;
        }
        let effects = self.engines[node].units.iter().flat_map(|unit| unit.effects());
        let published = effects.filter(|effect| effect.argv[0].eq_ignore_ascii_case(b"publish"));
        let published: Vec<_> = published.map(|effect| effect.argv.clone()).collect();
        let home = self.world.home(node);
        for words in published {
            let [_, channel, message] = &words[..] else { continue };
            for other in 0..self.servers.len() {
                if self.world.is_serving(other) && self.world.home(other) != home {
                    let deed = ("deliver", channel, message);
                    self.on_server(other, deed, |emulator| emulator.deliver(channel, message));
                }
            }
        }
    }
}

impl World {
    /// Notes the slots of the keys that a request names.
    pub(super) fn note_slots(&mut self, request: &Request) {
        if self.slot_map.is_some() {
            let keys = request.commands().flat_map(keys_of);
            self.slots_in_use.extend(keys.map(|key| key_slot(&key)));
        }
    }

    /// Whether a server has not run a request, or only a part of its script, because its slot moves
    /// or has moved: an error for which the client need not be to blame.
    pub(super) fn is_refused_by_move(&self, request: &Request, result: &RedisResult<Value>) -> bool {
        let Some(slot_map) = &self.slot_map else { return false };
        let error = match result {
            Ok(Value::Array(replies)) => replies.last(),
            Ok(reply) => Some(reply),
            Err(_) => None,
        };
        // A script has lost a key of its own: it removed it, so that it is no longer here.
        let is_foreign = |error: &ServerError| {
            error.details().is_some_and(|text| text.starts_with("Script attempted to access a non local key"))
        };
        let is_refusal =
            |error: &ServerError| matches!(error.code(), "TRYAGAIN" | "EXECABORT") || is_foreign(error);
        matches!(error, Some(Value::ServerError(error)) if is_refusal(error))
            && request.commands().flat_map(keys_of).any(|key| slot_map.has_moved(key_slot(&key)))
    }

    /// The slots that move, each with the server that gets it.
    fn moving_slots(&self) -> impl Iterator<Item = (HashSlot, usize)> {
        self.slot_map.iter().flat_map(|slot_map| slot_map.moving())
    }

    /// The step that ends the move of a slot, if one moves.
    pub(crate) fn next_end_of_move(&self) -> Option<Fault> {
        let (slot, server) = self.moving_slots().next()?;
        let target = Target::Server(self.primary(server));
        Some(Fault { target, kind: FaultKind::EndMove, amount: slot.into() })
    }

    /// The slots that move to the server of this node.
    pub(crate) fn slots_on_their_way(&self, to: usize) -> Vec<i64> {
        let home = self.home(to);
        self.moving_slots().filter(|&(_, server)| server == home).map(|(slot, _)| slot.into()).collect()
    }

    /// A slot has moved between these servers, or begins to.
    fn note_moved(&mut self, servers: [usize; 2]) {
        let nodes = servers.map(|server| self.primary(server));
        self.recorder.roles_changed(nodes);
    }

    /// The servers that may have what is at a key: in a cluster the owner of its slot, and the
    /// server to which the slot moves. Otherwise the first one.
    pub(super) fn keepers(&self, key: &str) -> impl Iterator<Item = usize> + use<> {
        let of_cluster = self.slot_map.as_ref().map(|slot_map| {
            let slot = key_slot(key.as_bytes());
            (slot_map.owner(slot), slot_map.target(slot))
        });
        let (owner, target) = of_cluster.unwrap_or_default();
        let target = target.map(|server| self.primary(server));
        std::iter::once(self.primary(owner)).chain(target)
    }
}
