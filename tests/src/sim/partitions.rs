//! Clients and servers that do not reach each other for a while.
//!
//! What depends on a partition belongs to its client, and to the time at which the partition ends.

use std::time::Duration;

use super::actor_state::Partition;
use super::gate::{Gate, Passage};
use super::{GRACE, Simulation, World};
use crate::actor::Actor;
use crate::fault::{Fault, FaultKind, Passing};
use crate::fingerprint::fingerprint;
use crate::live::Traffic;

/// How many requests and messages a partition keeps from arriving. After that it ends: a client
/// that sends them faster than its library could would never come to its end.
const LOST_MAX: usize = 10;

impl Simulation {
    /// What waits at this gate may pass. Returns how it does.
    pub(super) fn passage_through(&mut self, gate: usize, passage: Passage) -> Passage {
        let Gate { actor, server, traffic, ref pending, .. } = self.world.gates[gate];
        if traffic == Traffic::Arrivals {
            return passage;
        }
        if let Some(fault) = passage.fault {
            if let Some(passing) = Passing::after(fault.kind) {
                self.part(actor, server, passing);
            }
            return passage;
        }
        let brief = pending.as_ref().map(|pending| pending.brief);
        let kind = match (self.world.lose(actor, server), brief) {
            (None, _) => return passage,
            (Some(_), None) => FaultKind::DropBefore,
            (Some(Passing::Requests), _) => FaultKind::LoseReply,
            (Some(Passing::Nothing), Some(brief)) => {
                self.note_exchange(actor, brief, fingerprint("lost"));
                FaultKind::LoseRequest
            }
        };
        Passage { fault: Some(self.world.gates[gate].fault(kind)), is_reply_late: false }
    }

    /// The server replies to a command that waited there. Returns how the reply passes.
    pub(super) fn passage_back(&mut self, gate: usize, passage: Passage) -> Passage {
        let (actor, server) = self.world.ends(gate);
        let is_of_partition = |fault: Fault| Passing::after(fault.kind).is_some();
        if !passage.fault.is_none_or(is_of_partition) {
            return passage;
        }
        let lost = passage.fault.unwrap_or(self.world.gates[gate].fault(FaultKind::LoseReply));
        Passage { fault: self.world.lose(actor, server).map(|_| lost), ..passage }
    }

    /// From now on, a client and a server are parted.
    fn part(&mut self, actor: Actor, server: usize, passing: Passing) {
        let span = match self.config.faults.parted_for {
            Duration::ZERO => self.config.terms.lease + GRACE,
            span => span,
        };
        let world = &mut self.world;
        world.recorder.time_read();
        world.recorder.primary_found(server);
        let until = world.now + span;
        world.actor(actor).partitions.push(Partition { server, passing, until, left: LOST_MAX - 1 });
    }
}

impl World {
    /// Something that would pass between a client and a server is lost if they are parted. Returns
    /// what passes then.
    pub(super) fn lose(&mut self, actor: Actor, server: usize) -> Option<Passing> {
        let idx = self.idx(actor);
        if !self.actors[idx].partitions.iter().any(|partition| partition.server == server) {
            return None;
        }
        // It passes or not by the time, and by the server to which the connection leads.
        self.recorder.time_read();
        self.recorder.primary_found(server);
        let now = self.now;
        let parts = |partition: &&mut Partition| {
            partition.server == server && partition.left > 0 && now < partition.until
        };
        let partition = self.actors[idx].partitions.iter_mut().find(parts)?;
        partition.left -= 1;
        Some(partition.passing)
    }

    /// When outages and partitions end.
    pub(super) fn ends_of_interruptions(&self) -> impl Iterator<Item = Duration> {
        let partitions = self.actors.iter().flat_map(|actor| &actor.partitions);
        let partitions = partitions.filter(|partition| partition.left > 0).map(|partition| partition.until);
        self.outages.iter().map(|&(_, until)| until).chain(partitions)
    }
}
