//! The places of an execution from which the next one can continue. An exploration repeats most
//! steps of the execution before.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use emulator::Clock;

use super::known_servers::ServerState;
use super::learned_clients::Clients;
use super::{CodeId, Simulation, State, start_clock};
use crate::trace::{History, HistoryMark};

/// The states between the steps of the last execution, and its history.
#[derive(Default)]
pub(crate) struct Checkpoints {
    places: Vec<Checkpoint>,
    history: Arc<History>,
    /// The learned execution itself. The next one takes its place.
    last: Option<Arc<Simulation>>,
}

struct Checkpoint {
    history: HistoryMark,
    saved: Arc<Saved>,
}

/// The state of an execution between two steps, without its history.
struct Saved {
    state: State,
    at: Duration,
    servers: Vec<ServerState>,
    /// The clocks of the servers, if one was set.
    clocks: Option<Vec<Clock>>,
}

impl std::fmt::Debug for Checkpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoints").field("places", &self.places.len()).finish_non_exhaustive()
    }
}

impl Checkpoints {
    /// Keeps the places up to the one after so many steps of the last execution. None is kept if
    /// that one is missing.
    pub(crate) fn rewind(&mut self, steps: usize) {
        self.places.retain(|place| place.history.steps <= steps);
        if self.places.last().is_none_or(|place| place.history.steps < steps) {
            self.places.clear();
        }
    }

    /// Whether there is no place to continue from.
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// These places belong to this execution.
    pub(crate) fn after(self, sim: Arc<Simulation>) -> Checkpoints {
        let goes_on = matches!(sim.clients, Clients::Learned(_)) && !sim.state().is_clock_set;
        Checkpoints { last: goes_on.then_some(sim), ..self }
    }

    /// An execution that continues at the last place in the place of the last execution, if it can.
    /// It has these places from then on.
    pub(crate) fn next_simulation(&mut self) -> Option<Arc<Simulation>> {
        let mut last = self.last.take().filter(|_| !self.places.is_empty())?;
        Arc::get_mut(&mut last)?.restart(std::mem::take(self));
        Some(last)
    }

    /// The codes of the actors, if the last execution was learned.
    pub(crate) fn codes(&self) -> Option<&[CodeId]> {
        self.last.as_ref().map(|sim| &sim.config.codes[..])
    }

    /// The execution had this history.
    pub(crate) fn set_history(&mut self, history: Arc<History>) {
        self.history = history;
    }
}

impl Simulation {
    /// Sets the clocks to the start. All other state is that of a checkpoint when the execution
    /// continues.
    fn restart(&mut self, checkpoints: Checkpoints) {
        self.clocks.iter_mut().for_each(|clock| *clock = start_clock());
        *self.time.get_mut() = 0;
        self.forget_emulators();
        self.checkpoints = Mutex::new(Some(checkpoints));
    }

    /// To be called before each step that is chosen.
    pub(crate) fn checkpoint(&self) {
        let Some(checkpoints) = &mut *self.checkpoints() else { return };
        let mut state = self.state();
        let history = state.history().mark();
        if checkpoints.places.last().is_some_and(|place| place.history.steps >= history.steps) {
            return;
        }
        let recorder = std::mem::take(&mut state.recorder);
        let mut copy = state.clone();
        state.recorder = recorder;
        if let Clients::Teachers(_) = self.clients {
            copy.forget_tasks();
        }
        let clocks = state.is_clock_set.then(|| self.clocks.iter().map(Clock::view).collect());
        let saved = Saved { state: copy, at: self.now(), servers: self.server_states(), clocks };
        checkpoints.places.push(Checkpoint { history, saved: Arc::new(saved) });
    }

    /// Continues an execution of learned clients at the last checkpoint, if there is one.
    pub(crate) fn continue_learned(&self) -> bool {
        let Clients::Learned(_) = &self.clients else { return false };
        let Some(checkpoints) = &mut *self.checkpoints() else { return false };
        let Some(Checkpoint { history, saved }) = checkpoints.places.last() else { return false };
        let before = Arc::unwrap_or_clone(std::mem::take(&mut checkpoints.history));
        let mut state = self.state();
        *state = saved.state.clone();
        state.recorder.continue_with(before, *history);
        drop(state);
        self.set_server_states(&saved.servers);
        for (clock, view) in self.clocks.iter().zip(saved.clocks.iter().flatten()) {
            clock.follow(view);
        }
        self.set_time(saved.at);
        true
    }
}
