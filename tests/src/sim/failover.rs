//! Failovers, and clients that wait for replicas.

use std::sync::Arc;

use emulator::{Clock, Emulator, Unit};
use redis::Value;

use super::gate::{Gate, Passage};
use super::replication::{Arrived, Follower, Sighting};
use super::{Server, Simulation, World};
use crate::fault::{FaultKind, Faults, LostWrites, Target};
use crate::live::{Answer, Loss, Request};
use crate::memo::ServerState;
use crate::schedule::Step;
use crate::trace::HappensBefore;

impl Simulation {
    /// Begins the logs: replicas have what their primaries hold now.
    pub(crate) fn begin_replication(&mut self) {
        (0..self.world.replication.len()).for_each(|server| self.begin_replication_of(server));
        // What the code before the actors has loaded is known at primaries alone.
        for node in 0..self.servers.len() {
            if self.followed(node).is_some() {
                self.execute(node, &["SCRIPT FLUSH"]);
            }
        }
    }

    /// A node has another state than its replicas. If it is a primary, they copy that.
    pub(crate) fn copy_to_replicas(&mut self, node: usize) {
        let server = self.world.home(node);
        if self.world.primary(server) == node {
            self.begin_replication_of(server);
        }
    }

    fn begin_replication_of(&mut self, server: usize) {
        if self.config.replicas == 0 {
            return;
        }
        let primary = self.world.primary(server);
        let base = self.snapshot(primary);
        self.world.replication[server].begin_log(base);
        for gate in self.world.gates.iter_mut().filter(|gate| gate.server == primary) {
            gate.wrote_before |= gate.wrote.take().is_some();
        }
    }

    /// Lets a replica take over without these writes. If its primary `stays`, that still serves the
    /// connections that are open. Returns what is lost.
    pub(crate) fn fail_over(&mut self, replica: usize, lost: LostWrites, stays: bool) -> LostWrites {
        let Some((server, place)) = self.world.followed_by(replica) else { return lost };
        // Real servers have copied among themselves, and have changed their roles by now.
        let is_real = matches!(self.servers[replica], Server::Redis(_));
        let arrived = if is_real { None } else { self.arrived(server, place, lost) };
        if arrived.is_none() && !is_real {
            return lost;
        }
        let lost = arrived.as_ref().map_or(lost, |arrived| arrived.lost);
        self.world.recorder.reached().lost |= lost != LostWrites::default();
        self.demote(server);
        let former = self.world.primary(server);
        if !stays {
            self.hang_up(former);
        }
        self.world.replication[server].promote(place, stays);
        if let Some(Arrived { base, units, steps: [has, lacks], .. }) = arrived {
            let commands: Vec<_> = units.iter().map(|unit| unit.commands()).collect();
            let keeps_scripts = self.config.reads_replicas;
            let deed = ("take over", keeps_scripts, base.digest(), commands);
            self.on_server(replica, deed, |emulator| match keeps_scripts {
                true => emulator.receive(&base, &units),
                false => emulator.take_over(&base, &units),
            });
            self.on_server(replica, "tick", Emulator::tick);
            self.world.note_sighting(replica, true, [has, lacks]);
        }
        // What it has now cannot be lost by a restart.
        self.begin_log(replica);
        self.begin_replication_of(server);
        let nodes: Vec<usize> = self.world.replication[server].nodes().collect();
        self.world.recorder.roles_changed(nodes);
        if !stays {
            self.follow_the_primary(former);
        }
        lost
    }

    /// What a follower of a server has if it takes over without these writes.
    fn arrived(&self, server: usize, place: usize, lost: LostWrites) -> Option<Arrived> {
        let order = HappensBefore::of(self.world.history());
        self.world.replication[server].arrived(place, &order, lost)
    }

    /// The former primaries no longer serve their clients, and all replicas get everything. Returns
    /// whether that concerns any client.
    pub(crate) fn heal_replication(&mut self) -> bool {
        let was_split =
            (0..self.world.replication.len()).fold(false, |any, server| any | self.demote(server));
        let waits = |gate: &Gate| gate.is_blocked() && gate.waits_for_replicas().is_some();
        let waiting = (0..self.world.gates.len()).filter(|&gate| waits(&self.world.gates[gate]));
        let waiting: Vec<usize> = waiting.collect();
        for &gate in &waiting {
            self.stop_waiting(gate);
            self.finish(gate, Ok(Value::Int(0)), Passage::default());
        }
        was_split || !waiting.is_empty()
    }

    /// Whether something depends on what a replica has, so that it matters if it restarts.
    pub(crate) fn is_seen(&self, node: usize) -> bool {
        let own = self.world.followed_by(node);
        let has_any = own.is_some_and(|(server, place)| self.world.replication[server].has_any(place));
        self.config.reads_replicas || has_any
    }

    /// A replica no longer has the last writes that it had for certain, so many or all of them,
    /// until it gets them again. Returns how many they are. `None` if the node is no replica.
    pub(super) fn forget(&mut self, node: usize, count: usize) -> Option<usize> {
        let (server, place) = self.world.followed_by(node)?;
        let primary = self.world.primary(server);
        self.world.recorder.log_written(primary);
        Some(self.world.replication[server].forget(place, count))
    }

    fn demote(&mut self, server: usize) -> bool {
        let Some(node) = self.world.replication[server].demote() else { return false };
        self.hang_up(node);
        self.follow_the_primary(node);
        true
    }

    /// The clients of this node go on at the new primary. Only a connection that is as it was when
    /// it opened can be replaced unnoticed.
    fn follow_the_primary(&mut self, former: usize) {
        for gate in 0..self.world.gates.len() {
            let own = &mut self.world.gates[gate];
            let Some(session) = own.session.as_ref().filter(|_| own.server == former) else { continue };
            let (is_as_new, has_written) = (session.is_as_new(), own.wrote.is_some() || own.wrote_before);
            // They are on their way to a server that nobody finds.
            if !std::mem::take(&mut own.late).is_empty() {
                self.world.recorder.requests_changed(own.actor);
            }
            // A client that waits for the server learns of the end by that.
            if own.subscription.is_none() && !own.is_blocked() {
                own.is_broken |= !is_as_new;
                self.reopen(gate);
                self.world.gates[gate].wrote_before = has_written;
            }
        }
    }

    /// If the connection has ended unnoticed, a request that depends on it fails. `WAIT` depends on
    /// the last write.
    pub(super) fn notice_broken(&mut self, gate: usize, request: &Request) -> bool {
        let own = &mut self.world.gates[gate];
        let waits_for_earlier = own.wrote_before && request.waits_for_replicas().is_some();
        let is_broken = std::mem::take(&mut own.is_broken) || waits_for_earlier;
        if is_broken {
            let (actor, server) = self.world.ends(gate);
            self.world.gates[gate].wrote_before = false;
            self.world.recorder.primary_found(server);
            self.world.note_fault_error(actor);
            self.answer(gate, Answer::Lost(Loss::Connection));
        }
        is_broken
    }

    /// A request of this connection has run.
    pub(super) fn note_last_write(&mut self, gate: usize) {
        let Gate { server, .. } = self.world.gates[gate];
        let own = &self.world.replication[self.world.home(server)];
        let wrote = own.last_write_of(self.world.history().steps.len());
        if own.primary == server && wrote.is_some() {
            (self.world.gates[gate].wrote, self.world.gates[gate].wrote_before) = (wrote, false);
        }
    }

    /// If a client waits for replicas and enough have what it has written, returns their number.
    pub(super) fn acknowledged_at_once(
        &mut self,
        gate: usize,
        request: &Request,
        passage: Passage,
    ) -> Option<Value> {
        let (wanted, _) = request.waits_for_replicas()?;
        let reply = self.acknowledged(gate, passage)?;
        let Gate { server, wrote, .. } = self.world.gates[gate];
        let home = self.world.home(server);
        // A former primary has no replicas any more.
        if let Some(write) = wrote.filter(|_| self.world.primary(home) == server) {
            let order = HappensBefore::of(self.world.history());
            self.world.replication[home].acknowledge(write, &order, lacking(passage));
        }
        self.world.recorder.log_written(server);
        (wanted <= reply).then(|| {
            self.engines[server].footprint = Arc::default();
            self.note_footprint(server);
            Value::Int(reply)
        })
    }

    /// How many replicas have what a client has written, at the end of its `WAIT`. `None` if its
    /// server has no replicas.
    pub(super) fn acknowledged(&self, gate: usize, passage: Passage) -> Option<i64> {
        let Gate { server, .. } = self.world.gates[gate];
        let own = &self.world.replication[self.world.home(server)];
        // A replica says itself that nobody waits there.
        let is_meant = self.config.replicas > 0
            && matches!(self.servers[server], Server::Emulator(_))
            && self.followed(server).is_none();
        // A primary that was deposed has no replicas.
        let all = if own.primary == server { own.followers.len() as i64 } else { 0 };
        is_meant.then(|| (all - i64::from(lacking(passage).count_ones())).max(0))
    }

    /// The replicas that may not have what a client has written when its `WAIT` ends.
    pub(crate) fn may_be_unacknowledged(&self, gate: usize) -> Vec<i64> {
        let Gate { server, wrote, .. } = self.world.gates[gate];
        let own = &self.world.replication[self.world.home(server)];
        let request = self.world.gates[gate].waits_for_replicas();
        let (Some((wanted, is_limited)), Some(write)) = (request, wrote.filter(|_| own.primary == server))
        else {
            return Vec::new();
        };
        let order = HappensBefore::of(self.world.history());
        let Faults { behind, failovers, planned_failovers, .. } = self.config.faults;
        let mut sets = own.may_not_have(write, &order, behind);
        // Nothing but a failover ends a wait without a limit before the writes have arrived.
        let ends = is_limited || failovers + planned_failovers > 0;
        sets.retain(|set| ends || wanted + i64::from(set.count_ones()) <= own.followers.len() as i64);
        sets
    }

    /// The nodes whose data clients can see, each with a clock by which they see it. A replica
    /// removes no key by itself. If it is read, it hides the keys of its primary by its own clock.
    pub(super) fn serving_clocks(&self) -> impl Iterator<Item = (usize, &Clock)> {
        self.clocks.iter().enumerate().filter_map(|(node, clock)| {
            let has_data = if self.world.is_serving(node) { Some(node) } else { self.followed(node) };
            has_data.map(|has_data| (has_data, clock))
        })
    }

    /// What a server has just written goes to its replicas.
    pub(super) fn note_units(&mut self, node: usize) {
        let units = std::mem::take(&mut self.engines[node].units);
        if !units.is_empty() {
            self.world.log_units(node, &units);
            if self.config.faults.behind > 0 {
                self.world.recorder.log_grew(node);
            }
        }
    }
}

/// The replicas that a fault keeps from having what was written, a bit each.
fn lacking(passage: Passage) -> i64 {
    let fault = passage.fault.filter(|fault| fault.kind == FaultKind::Unacknowledged);
    fault.map_or(0, |fault| fault.amount)
}

impl World {
    /// The node that is the primary of a server.
    pub(crate) fn primary(&self, server: usize) -> usize {
        self.replication[server].primary
    }

    /// The nodes that are primaries, by their servers.
    pub(crate) fn primaries(&self) -> impl Iterator<Item = usize> + Clone {
        self.replication.iter().map(|own| own.primary)
    }

    /// The states of the nodes that are primaries, if they are known.
    pub(super) fn states_of_primaries(&self) -> Vec<Option<ServerState>> {
        self.primaries().map(|node| self.servers[node]).collect()
    }

    /// The server whose data a node has.
    pub(super) fn home(&self, node: usize) -> usize {
        let is_home = self.replication.iter().position(|own| own.nodes().any(|own| own == node));
        is_home.expect("every node belongs to a server")
    }

    /// Whether clients can have connections to a node.
    pub(super) fn is_serving(&self, node: usize) -> bool {
        self.replication.iter().any(|own| own.primary == node || own.deposed == Some(node))
    }

    /// The server that a node follows, and its place among the followers.
    pub(super) fn followed_by(&self, node: usize) -> Option<(usize, usize)> {
        self.replication.iter().enumerate().find_map(|(server, own)| Some((server, own.place(node)?)))
    }

    /// The nodes that can take over. Of those that nothing distinguishes, the first one.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = usize> {
        self.replication.iter().flat_map(move |own| {
            let followers = &own.followers;
            let is_first = move |&nth: &usize| {
                let is_equal = |other: &Follower| {
                    own.are_alike(other, &followers[nth])
                        && self.have_right_clocks([other.node, followers[nth].node])
                };
                !followers[..nth].iter().any(is_equal)
            };
            (0..followers.len()).filter(is_first).map(|nth| followers[nth].node)
        })
    }

    fn have_right_clocks(&self, nodes: [usize; 2]) -> bool {
        let setup =
            self.history().steps.iter().filter_map(|step| step.fault()).filter(|fault| fault.is_setup());
        let mut wrong = setup.map(|fault| fault.target);
        !wrong.any(|target| nodes.map(Target::Server).contains(&target))
    }

    /// The writes that a node may lack when it takes over.
    pub(crate) fn may_lack(&self, node: usize, most: u32) -> Vec<i64> {
        let Some((server, place)) = self.followed_by(node) else { return Vec::new() };
        let own = &self.replication[server];
        if most == 0 || own.log_len() == 0 {
            return vec![LostWrites::default().0];
        }
        let order = HappensBefore::of(self.history());
        own.may_lack(place, &order, most).into_iter().map(|LostWrites(amount)| amount).collect()
    }

    /// Notes what a replica has when it takes over, or runs a request.
    pub(super) fn note_sighting(&mut self, node: usize, takes_over: bool, [has, lacks]: [Vec<usize>; 2]) {
        if self.recorder.is_in_step() {
            let step = self.history().steps.len() - 1;
            self.sightings.push(Sighting { node, step, takes_over, has, lacks });
        }
    }

    fn log_units(&mut self, node: usize, units: &[Arc<Unit>]) {
        let (by, step) = (self.last_step().and_then(Step::actor), self.history().steps.len() - 1);
        let own = self.replication.iter_mut().find(|own| own.primary == node);
        own.into_iter().for_each(|own| own.log(by, step, units));
    }
}
