//! The places of an execution from which the next one can continue. An exploration repeats most
//! steps of the execution before.

use std::sync::Arc;
use std::time::Duration;

use emulator::Clock;

use super::clients::Clients;
use super::simulation::start_clock;
use super::{Simulation, World};
use crate::memo::CodeId;
use crate::schedule::Step;
use crate::trace::{History, HistoryMark};

/// The worlds between the steps of the last execution, and its history.
#[derive(Default)]
pub(crate) struct Checkpoints {
    places: Vec<Checkpoint>,
    history: Arc<History>,
    /// The learned execution itself. The next one takes its place.
    last: Option<Box<Simulation>>,
}

struct Checkpoint {
    history: HistoryMark,
    /// The world, without its history.
    world: World,
    /// The clocks of the servers, if one was set.
    clocks: Option<Vec<Clock>>,
    /// The steps that can happen next.
    enabled: Box<[Step]>,
}

impl std::fmt::Debug for Checkpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoints").field("places", &self.places.len()).finish_non_exhaustive()
    }
}

impl Checkpoints {
    /// Keeps the places up to the one after `steps` steps of the last execution. If that one is
    /// missing, none is kept.
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
    pub(crate) fn after(self, sim: Box<Simulation>) -> Checkpoints {
        let goes_on = matches!(sim.clients, Clients::Learned(_)) && !sim.world.is_clock_set;
        Checkpoints { last: goes_on.then_some(sim), ..self }
    }

    /// An execution that continues at the last place in the place of the last execution, if it can.
    pub(crate) fn next_simulation(&mut self) -> Option<Box<Simulation>> {
        let mut last = self.last.take().filter(|_| !self.places.is_empty())?;
        last.restart();
        Some(last)
    }

    /// Keeps this place of an execution for the next one: one of these steps is chosen here.
    pub(crate) fn keep(&mut self, sim: &mut Simulation, enabled: &[Step]) {
        let history = sim.world.history().mark();
        if self.places.last().is_none_or(|place| place.history.steps < history.steps) {
            let clocks = sim.world.is_clock_set.then(|| sim.clocks.iter().map(Clock::view).collect());
            let world = sim.world.without_history();
            self.places.push(Checkpoint { history, world, clocks, enabled: enabled.into() });
        }
    }

    /// Continues an execution of learned clients at the last place, if there is one. Returns the
    /// steps that can happen next there.
    pub(crate) fn resume(&mut self, sim: &mut Simulation) -> Option<Box<[Step]>> {
        let Clients::Learned(_) = &sim.clients else { return None };
        let place = self.places.last()?;
        sim.continue_at(place, Arc::unwrap_or_clone(std::mem::take(&mut self.history)));
        Some(place.enabled.clone())
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
    fn restart(&mut self) {
        self.clocks.iter_mut().for_each(|clock| *clock = start_clock());
        self.world.now = Duration::ZERO;
        self.forget_emulators();
    }

    /// Continues at this place of an execution with this history.
    fn continue_at(&mut self, Checkpoint { history, world, clocks, .. }: &Checkpoint, before: History) {
        self.world = World { now: self.world.now, ..world.clone() };
        self.world.recorder.continue_with(before, *history);
        for (clock, view) in self.clocks.iter().zip(clocks.iter().flatten()) {
            clock.follow(view);
        }
        self.set_time(world.now);
    }
}
