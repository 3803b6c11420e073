//! The states of executions between two steps. Another execution can continue there.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use emulator::Clock;

use super::known_servers::ServerState;
use super::learned_clients::Clients;
use super::{Simulation, State};
use crate::schedule::Step;

/// The state of an execution between two steps, without its history.
pub(crate) struct Saved {
    state: State,
    at: Duration,
    servers: Vec<ServerState>,
    /// The clocks of the servers, if one was set.
    clocks: Option<Vec<Clock>>,
    /// A hash of everything that decides what follows, if it was computed.
    pub(crate) hash: Option<u64>,
    /// The steps that can happen next, when they have been listed.
    pub(crate) enabled: OnceLock<Box<[Step]>>,
}

impl Saved {
    /// These steps can happen next.
    pub(crate) fn set_enabled(&self, enabled: &[Step]) {
        self.enabled.get_or_init(|| enabled.into());
    }
}

impl Simulation {
    /// Saves the state of the execution. `hash` is that of [`Simulation::hash_state`].
    pub(crate) fn save(&self, hash: Option<u64>) -> Arc<Saved> {
        let mut state = self.state();
        let recorder = std::mem::take(&mut state.recorder);
        let mut copy = state.clone();
        state.recorder = recorder;
        if let Clients::Teachers(_) = self.clients {
            copy.forget_tasks();
        }
        let clocks = state.is_clock_set.then(|| self.clocks.iter().map(Clock::view).collect());
        let (at, servers) = (self.now(), self.server_states());
        Arc::new(Saved { state: copy, at, servers, clocks, hash, enabled: OnceLock::new() })
    }

    /// Continues in this state, with the history so far.
    pub(crate) fn continue_in(&self, saved: &Saved) {
        let mut state = self.state();
        let recorder = std::mem::take(&mut state.recorder);
        *state = saved.state.clone();
        state.recorder = recorder;
        drop(state);
        self.set_server_states(&saved.servers);
        for (clock, view) in self.clocks.iter().zip(saved.clocks.iter().flatten()) {
            clock.follow(view);
        }
        self.set_time(saved.at);
    }

    /// The execution ends in this state. Nothing but its results is taken over.
    pub(crate) fn end_in(&self, saved: &Saved) {
        let mut state = self.state();
        state.retries.clone_from(&saved.state.retries);
        state.livelock.clone_from(&saved.state.livelock);
    }
}
