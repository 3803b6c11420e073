//! The memory of a sample, from which its policies estimate the steps to come. If an estimate is
//! wrong, other schedules are drawn, but no result is wrong.

use std::sync::Arc;

use emulator::Access;

use crate::actor::Actor;
use crate::fault::{Fault, FaultKind, Target};
use crate::schedule::Step;
use crate::trace::{History, StepFootprint, StepResource};

/// The footprints of each actor's steps in earlier schedules of a sample. Later schedules are drawn
/// by it.
#[derive(Clone, Debug, Default)]
pub struct AccessProfile {
    /// For each actor, the footprint of its n-th step when that step was last seen.
    touched: Vec<Vec<Arc<StepFootprint>>>,
    steps_max: usize,
}

impl AccessProfile {
    /// Adds one execution to the profile.
    pub fn learn(&mut self, history: &History) {
        self.steps_max = self.steps_max.max(history.steps.len());
        let mut taken = vec![0; self.touched.len()];
        for (step, footprint) in history.steps.iter().zip(&history.footprints) {
            let Some(Actor(actor)) = step.actor() else { continue };
            if actor >= taken.len() {
                taken.resize(actor + 1, 0);
                self.touched.resize_with(actor + 1, Vec::new);
            }
            let (of_actor, nth) = (&mut self.touched[actor], taken[actor]);
            match of_actor.get_mut(nth) {
                Some(known) => known.clone_from(footprint),
                None => of_actor.push(footprint.clone()),
            }
            taken[actor] += 1;
        }
    }

    /// The largest number of steps in one execution, and at least one.
    pub fn steps_max(&self) -> usize {
        self.steps_max.max(1)
    }

    /// An estimate of how many steps the actor still takes, and at least one. It is the largest
    /// number of steps that the actor ever took, less those that it has taken in this history.
    pub fn remaining(&self, actor: Actor, history: &History) -> usize {
        self.touched.get(actor.0).map_or(0, Vec::len).saturating_sub(taken(actor, history)).max(1)
    }

    /// Whether the order of a possible next step and the last step can matter.
    ///
    /// The footprint of the next step is the one from when it was last seen. A step that was never
    /// seen counts as one that races with every step.
    pub fn races(&self, step: Step, last: &StepFootprint, history: &History) -> bool {
        let guessed = |written| {
            let mut footprint = StepFootprint::default();
            footprint.budget = step.budget();
            footprint.touch(Access::Write, written);
            last.conflicts_with(&footprint)
        };
        match step {
            Step::Run(actor, _) | Step::Send(actor, _) | Step::Receive(actor, _) | Step::Start(actor) => {
                let seen = self.touched.get(actor.0).and_then(|touched| touched.get(taken(actor, history)));
                seen.is_none_or(|footprint| last.conflicts_with(footprint))
            }
            Step::Advance(_) | Step::Wait => guessed(StepResource::Time),
            Step::Fault(Fault { kind: FaultKind::Crash, target: Target::Client(actor), .. }) => {
                guessed(StepResource::Client(actor))
            }
            _ => true,
        }
    }
}

/// How many steps the actor has taken.
fn taken(actor: Actor, history: &History) -> usize {
    history.steps.iter().filter(|step| step.actor() == Some(actor)).count()
}
