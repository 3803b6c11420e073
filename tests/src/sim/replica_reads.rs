//! Clients that read from replicas.
//!
//! Before a replica runs a request, it gets what has arrived at it. How much that is, is decided
//! only then. The request also counts as one of its primary: whatever is written there can change
//! what it reads.

use redis::{ErrorKind, RedisError, Value};

use super::gate::{Gate, Passage};
use super::replication::Arrived;
use super::{Server, Simulation, World};
use crate::fault::{Fault, FaultKind, LostWrites, RequestOutcome};
use crate::fingerprint::fingerprint;
use crate::live::{Request, RequestKind};
use crate::memo::Reply;
use crate::trace::HappensBefore;

/// The port of the first node. Those of the others follow.
const FIRST_PORT: u16 = 6379;

impl Simulation {
    /// The primary that a node follows, if clients can connect to both.
    pub(super) fn followed(&self, node: usize) -> Option<usize> {
        if !self.config.reads_replicas {
            return None;
        }
        let (server, _) = self.world.followed_by(node)?;
        Some(self.world.primary(server))
    }

    /// Shows a node what it follows, before it runs what is not known of it.
    pub(super) fn show_primary(&mut self, node: usize) {
        let followed = self.followed(node);
        let Server::Emulator(emulator) = &self.servers[node] else { return };
        if self.engines[node].followed != followed {
            let address = followed.map(|primary| ("127.0.0.1", FIRST_PORT + primary as u16));
            emulator.show_primary(address);
            self.engines[node].followed = followed;
        }
    }

    /// Why the replica to which this gate leads does not run a request, if so.
    pub(super) fn refusal_of_replica(&self, gate: usize, request: &Request) -> Option<RedisError> {
        let is_subscribing = matches!(request.kind, RequestKind::Subscribe { .. });
        let is_refused = is_subscribing && self.followed(self.world.gates[gate].server).is_some();
        let words =
            (ErrorKind::Client, "subscriptions at replicas are not simulated: subscribe at the primary");
        is_refused.then(|| words.into())
    }

    /// A request is about to run, and its reply or its error will arrive. If that is at a replica,
    /// this gets what has arrived there by now.
    pub(super) fn catch_up(&mut self, gate: usize, passage: Passage) {
        let node = self.world.gates[gate].server;
        let (Some(primary), Some((server, place))) = (self.followed(node), self.world.followed_by(node))
        else {
            return;
        };
        // What the client never learns does not decide what the replica had.
        if !passage.outcome().is_none_or(|outcome| outcome == RequestOutcome::Answered) {
            return;
        }
        let Server::Emulator(emulator) = self.servers[node].clone() else { return };
        let is_stale = |fault: &Fault| fault.kind == FaultKind::StaleRead;
        let lost =
            passage.fault.filter(is_stale).map_or(LostWrites::default(), |fault| LostWrites(fault.amount));
        let order = HappensBefore::of(self.world.history());
        let Some(arrived) = self.world.replication[server].catch_up(place, &order, lost) else { return };
        let Arrived { base, units, steps, .. } = arrived;
        self.world.note_sighting(node, false, steps);
        let commands: Vec<_> = units.iter().map(|unit| unit.commands()).collect();
        let deed = fingerprint(("receive", base.digest(), commands));
        if self.repeat_deed(node, deed).is_none() {
            emulator.receive(&base, &units);
            self.learn_deed(node, deed, Some(Reply::Now(Value::Nil)), ());
        }
        if self.config.faults.behind > 0 {
            self.world.recorder.log_written(primary);
        }
    }

    /// The writes that the replica to which this gate leads may lack when it runs what waits there.
    pub(crate) fn may_be_stale(&self, gate: usize) -> Vec<i64> {
        let Gate { server: node, .. } = self.world.gates[gate];
        if self.followed(node).is_none() {
            return Vec::new();
        }
        let mut amounts = self.world.may_lack(node, self.config.faults.behind);
        amounts.retain(|&amount| LostWrites(amount) != LostWrites::default());
        amounts
    }
}

impl World {
    /// The node to which a new connection to this number leads.
    pub(super) fn node_at(&self, address: usize) -> usize {
        self.replication.get(address).map_or(address, |own| own.primary)
    }
}
