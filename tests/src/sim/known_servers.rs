//! Servers repeat what they did before.
//!
//! A server is a function of its state, its clock and what it is to do. An exploration asks the
//! same again and again, in few different states. A known deed runs nowhere: the server only moves
//! to its next state. An emulator gets a state when something unknown is to run there.

#![expect(clippy::disallowed_types, reason = "nothing iterates over these maps")]

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, MutexGuard, PoisonError};

use emulator::{Data, Emulator, Footprint, Snapshot, Timestamp};
use foldhash::quality::FixedState;
use redis::Value;

use super::learned::Lack;
use super::{Server, Simulation};

/// Identifies a state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ServerState(usize);

/// The states of servers, and how they follow from one another.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownServers {
    snapshots: Vec<Arc<Snapshot>>,
    /// The digest of a server that holds nothing.
    empty: Option<u64>,
    states: HashMap<u64, ServerState, FixedState>,
    transitions: HashMap<Deed, Arc<Transition>, foldhash::fast::FixedState>,
}

/// A server does something: its state before, the time that its clock shows, and a hash of what it
/// does.
type Deed = (ServerState, Timestamp, u64);

#[derive(Debug)]
struct Transition {
    reply: Value,
    footprint: Arc<Footprint>,
    next: ServerState,
}

/// A server of an execution.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// `None` in an execution in which all servers run.
    state: Option<ServerState>,
    /// The footprint of its last deed.
    footprint: Arc<Footprint>,
    /// The state that its emulator has. `None` if that comes from another execution.
    loaded: Option<ServerState>,
}

impl KnownServers {
    /// The state of a server whose complete snapshot has this digest.
    fn state_of(&mut self, digest: u64, snapshot: impl FnOnce() -> Arc<Snapshot>) -> ServerState {
        *self.states.entry(digest).or_insert_with(|| {
            self.snapshots.push(snapshot());
            ServerState(self.snapshots.len() - 1)
        })
    }

    /// The state of a server that holds nothing.
    fn empty(&mut self) -> ServerState {
        let digest = *self.empty.get_or_insert_with(|| Emulator::new().snapshot().digest());
        self.state_of(digest, || Arc::new(Emulator::new().snapshot()))
    }

    /// The number of known deeds.
    pub(super) fn len(&self) -> usize {
        self.transitions.len()
    }
}

impl Simulation {
    fn places(&self) -> MutexGuard<'_, Vec<Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The states of all servers. Empty in an execution in which all servers run.
    pub(super) fn server_states(&self) -> Vec<ServerState> {
        self.places().iter().filter_map(|place| place.state).collect()
    }

    /// Continues with these states.
    pub(super) fn set_server_states(&self, states: &[ServerState]) {
        for (place, &state) in self.places().iter_mut().zip(states) {
            place.state = Some(state);
        }
    }

    /// Brings the servers to the state in which every execution begins: empty ones, or those of
    /// snapshots with their digests.
    pub(crate) fn begin_with(&self, snapshots: &[(Arc<Snapshot>, u64)]) {
        let Some(learned) = self.learned() else {
            let servers = self.emulators().zip(snapshots);
            return servers.for_each(|(emulator, (snapshot, _))| emulator.restore(snapshot));
        };
        let mut known = learned.known();
        let mut state_of = |server: usize| match snapshots.get(server) {
            Some((snapshot, digest)) => known.servers.state_of(*digest, || snapshot.clone()),
            None => known.servers.empty(),
        };
        let states: Vec<ServerState> = (0..self.servers.len()).map(&mut state_of).collect();
        drop(known);
        self.set_server_states(&states);
    }

    /// Whether the servers only run what is not known.
    fn are_known(&self) -> bool {
        self.learned().is_some()
    }

    /// Lets a server do something, as far as that is known. `None` if it has to run: its emulator
    /// then has its state, and [`Simulation::learn_deed`] is to follow.
    pub(super) fn repeat_deed(&self, server: usize, deed: u64) -> Option<Value> {
        let known = self.learned()?.known();
        let mut places = self.places();
        let place = &mut places[server];
        let state = place.state?;
        let deed = (state, self.clocks[server].now(), deed);
        if let Some(transition) = known.servers.transitions.get(&deed) {
            place.state = Some(transition.next);
            place.footprint = transition.footprint.clone();
            return Some(transition.reply.clone());
        }
        if let Server::Emulator(emulator) = &self.servers[server]
            && place.loaded != Some(state)
        {
            if place.loaded.is_none() {
                emulator.reset(self.clocks[server].clone());
            }
            emulator.restore(&known.servers.snapshots[state.0]);
            place.loaded = Some(state);
        }
        None
    }

    /// A server has done something, with this reply. `None` if it has not ended. If that, or what
    /// it left behind, is more than a snapshot has, the execution means nothing. It has to run with
    /// servers that run everything.
    pub(super) fn learn_deed(&self, server: usize, deed: u64, reply: Option<&Value>) {
        let Server::Emulator(emulator) = &self.servers[server] else { return };
        let footprint = Arc::new(emulator.footprint());
        let mut places = self.places();
        let place = &mut places[server];
        place.footprint = footprint.clone();
        let (Some(learned), Some(state)) = (self.learned(), place.state) else { return };
        let Some(reply) = reply.filter(|_| emulator.is_snapshot_complete()) else {
            drop(places);
            return self.stop(Lack::NoSnapshot);
        };
        let mut known = learned.known();
        let snapshot = emulator.snapshot();
        let next = known.servers.state_of(snapshot.digest(), || Arc::new(snapshot));
        let transition = Transition { reply: reply.clone(), footprint, next };
        known.servers.transitions.insert((state, self.clocks[server].now(), deed), Arc::new(transition));
        (place.state, place.loaded) = (Some(next), Some(next));
    }

    /// Lets an emulator do something that no client asked for, and records what that touches.
    pub(super) fn on_server(&self, server: usize, deed: impl Hash, act: impl FnOnce(&Emulator)) {
        if let Server::Emulator(emulator) = &self.servers[server] {
            let deed = std::hash::BuildHasher::hash_one(&FixedState::default(), deed);
            if self.repeat_deed(server, deed).is_none() {
                act(emulator);
                self.learn_deed(server, deed, Some(&Value::Nil));
            }
            self.note_footprint(server);
        }
    }

    /// Reads the data of a server. `None` if the server is real.
    pub(super) fn read<R>(&self, server: usize, read: impl FnOnce(Data<'_>) -> R) -> Option<R> {
        let Server::Emulator(emulator) = &self.servers[server] else { return None };
        let state = self.places()[server].state;
        let (Some(learned), Some(state)) = (self.learned(), state) else { return Some(emulator.read(read)) };
        let snapshot = learned.known().servers.snapshots[state.0].clone();
        Some(read(snapshot.at(self.clocks[server].now())))
    }

    /// The footprint of what a server has just done. `None` if that is not known.
    pub(crate) fn footprint(&self, server: usize) -> Option<Arc<Footprint>> {
        match &self.servers[server] {
            Server::Emulator(_) if self.are_known() => Some(self.places()[server].footprint.clone()),
            Server::Emulator(emulator) => Some(Arc::new(emulator.footprint())),
            Server::Redis(_) => None,
        }
    }

    /// A copy of what a server in this process holds.
    pub(super) fn snapshot(&self, server: usize) -> Option<Arc<Snapshot>> {
        let Server::Emulator(emulator) = &self.servers[server] else { return None };
        let state = self.places()[server].state;
        Some(match (self.learned(), state) {
            (Some(learned), Some(state)) => learned.known().servers.snapshots[state.0].clone(),
            _ => Arc::new(emulator.snapshot()),
        })
    }

    /// Records what a server has just touched, if a step is being taken.
    pub(crate) fn note_footprint(&self, server: usize) {
        let is_in_step = self.state().recorder.is_in_step();
        if is_in_step && let Some(footprint) = self.footprint(server) {
            self.state().recorder.server_access(server, footprint);
        }
    }
}
