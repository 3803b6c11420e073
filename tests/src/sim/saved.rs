//! The states of executions between two steps. Another execution can continue there.

use std::sync::Arc;
use std::time::Duration;

use emulator::Clock;

use super::known_servers::ServerState;
use super::{Simulation, State};
use crate::schedule::Step;

/// The state of an execution between two steps, without its history.
pub(crate) struct Saved {
    state: State,
    at: Duration,
    servers: Vec<ServerState>,
    /// The clocks of the servers, if one was set.
    clocks: Option<Vec<Clock>>,
    /// The steps that can happen next.
    pub(crate) enabled: Box<[Step]>,
}

impl Simulation {
    /// Saves the state of the execution, in which these steps can happen next.
    pub(super) fn save(&self, enabled: &[Step]) -> Arc<Saved> {
        let mut state = self.state();
        let recorder = std::mem::take(&mut state.recorder);
        let copy = state.clone();
        state.recorder = recorder;
        let clocks = state.is_clock_set.then(|| self.clocks.iter().map(Clock::view).collect());
        let (at, servers) = (self.now(), self.server_states());
        Arc::new(Saved { state: copy, at, servers, clocks, enabled: enabled.into() })
    }

    /// Continues in this state, with the history so far.
    pub(super) fn continue_in(&self, saved: &Saved) {
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
}
