//! The places of an execution from which the next one can continue. An exploration repeats most
//! steps of the execution before.

use std::sync::{Arc, Mutex};

use super::learned_clients::Clients;
use super::saved::Saved;
use super::{CodeId, Simulation, start_clock};
use crate::schedule::Step;
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

    /// Keeps this place for the next execution: one of these steps is chosen here.
    pub(crate) fn checkpoint(&self, enabled: &[Step]) {
        let Some(checkpoints) = &mut *self.checkpoints() else { return };
        let history = self.state().history().mark();
        if checkpoints.places.last().is_some_and(|place| place.history.steps >= history.steps) {
            return;
        }
        checkpoints.places.push(Checkpoint { history, saved: self.save(enabled) });
    }

    /// Continues an execution of learned clients at the last checkpoint, if there is one. Returns
    /// the state there.
    pub(crate) fn continue_learned(&self) -> Option<Arc<Saved>> {
        let Clients::Learned(_) = &self.clients else { return None };
        let mut checkpoints = self.checkpoints();
        let checkpoints = checkpoints.as_mut()?;
        let Checkpoint { history, saved } = checkpoints.places.last()?;
        let before = Arc::unwrap_or_clone(std::mem::take(&mut checkpoints.history));
        let mut state = self.state();
        state.forget_end();
        state.recorder.continue_with(before, *history);
        drop(state);
        self.continue_in(saved);
        Some(saved.clone())
    }
}
