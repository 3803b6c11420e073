//! The steps that are known: what followed when a step was taken in a state.
//!
//! In an execution of learned clients, that is a function of the state and the step. A state is
//! known by its hash, and the execution need not be in it: it can take step after step, and add to
//! its history what is known to follow.
//!
//! To remember a step takes longer than to take it, and many explorations hardly take a step twice.
//! So a step is remembered when it is taken for the second time. If an exploration begins with few
//! such steps, no more hashes are computed for it.

#![expect(clippy::disallowed_types, reason = "no order of these tables matters")]

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher as _;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::learned::Learned;
use super::saved::Saved;
use crate::schedule::Step;
use crate::trace::History;

/// No more outcomes are known than so many: they take much memory.
const OUTCOMES_MAX: usize = 8_192;
/// If more steps were taken than this, it is forgotten which.
const TAKEN_MAX: usize = 262_144;
/// So many steps at the start of an exploration are its trial.
const TRIAL: u64 = 1_000;
/// So many of them have to be steps that were taken before.
const AGAIN_MIN: u64 = 750;

/// The steps of executions, each with the hash of the state before it. The end of an execution has
/// no step.
#[derive(Clone, Default)]
pub(super) struct KnownStates {
    outcomes: HashMap<(u64, Option<Step>), Arc<Outcome>, FixedState>,
    /// Hashes of the steps that were taken, and of the states before them.
    taken: HashSet<u64, FixedState>,
    trial: Trial,
}

/// The start of an exploration.
#[derive(Clone, Copy, Default)]
struct Trial {
    /// The number of steps, and how many of them had been taken before.
    steps: u64,
    again: u64,
    /// The outcome of a step was known.
    has_repeated: bool,
}

impl Trial {
    fn is_passed(&self) -> bool {
        self.steps < TRIAL || self.again >= AGAIN_MIN
    }

    fn add(&mut self, is_again: bool) {
        if self.steps < TRIAL {
            self.steps += 1;
            self.again += u64::from(is_again);
        }
    }
}

/// The outcome of a step, or of the end of an execution.
pub(crate) struct Outcome {
    /// It is added to the history.
    pub(crate) added: History,
    /// The state after the step. `None` after the end.
    pub(crate) after: Option<Arc<Saved>>,
}

/// The knowledge of a step.
pub(crate) enum Recall {
    Known(Arc<Outcome>),
    /// It was taken before. Its outcome is to be remembered.
    Again,
    New,
}

impl Learned {
    /// An exploration begins. Maybe it takes more steps twice than the one before.
    pub(crate) fn begin_exploration(&self) {
        self.known().states.trial = Trial::default();
    }

    /// Whether hashes of states are of use in this exploration.
    pub(crate) fn uses_states(&self) -> bool {
        self.known().states.trial.is_passed()
    }

    /// A step is taken in a state with this hash. Returns what is known of it.
    pub(crate) fn recall(&self, before: u64, step: Option<Step>) -> Recall {
        let KnownStates { outcomes, taken, trial } = &mut self.known().states;
        if let Some(outcome) = outcomes.get(&(before, step)) {
            trial.add(true);
            trial.has_repeated = true;
            return Recall::Known(outcome.clone());
        }
        if taken.len() >= TAKEN_MAX {
            taken.clear();
        }
        let is_new = taken.insert(FixedState::default().hash_one((before, step)));
        trial.add(!is_new);
        if is_new { Recall::New } else { Recall::Again }
    }

    /// Remembers what followed from a state with this hash. If too much is known, what is of no use
    /// in this exploration is forgotten.
    pub(crate) fn remember(&self, before: u64, step: Option<Step>, outcome: Outcome) {
        let KnownStates { outcomes, trial, .. } = &mut self.known().states;
        if outcomes.len() >= OUTCOMES_MAX {
            if trial.has_repeated {
                return;
            }
            outcomes.clear();
        }
        outcomes.insert((before, step), Arc::new(outcome));
    }

    /// Forgets the events of all steps that are remembered. Returns how many such steps there are.
    #[cfg(test)]
    pub(crate) fn remember_without_events(&self) -> usize {
        let mut known = self.known();
        let outcomes = known.states.outcomes.values_mut().filter_map(Arc::get_mut);
        let with_events = outcomes.filter(|outcome| !outcome.added.events.is_empty());
        with_events.map(|outcome| outcome.added.events.clear()).count()
    }

    /// Forgets all steps. States have sessions, and those belong to the emulators of one runner.
    pub(crate) fn forget_states(&self) {
        self.known().states = KnownStates::default();
    }
}
