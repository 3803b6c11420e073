//! Makes a schedule that violates a property as simple as it gets: changes it a little, runs what came of it, and keeps that if it
//! violates the property too and is simpler.

mod cost;
mod pass;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use cost::Cost;
pub(crate) use cost::ScheduleSize;

use crate::execution::{Choice, Policy, Runner};
use crate::oracle::{Oracle, Violation};
use crate::replay::{Replay, replay};
use crate::scenario::Scenario;
use crate::schedule::{Schedule, Step};
use crate::sim::Recording;
use crate::trace::History;
use pass::PASSES;

/// A schedule that violates an oracle.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The oracle.
    pub oracle: Arc<dyn Oracle>,
    /// How many of the scenario's actors there were.
    pub actors: usize,
    /// The steps up to the violation.
    pub schedule: Schedule,
    /// What the oracle saw.
    pub violation: Violation,
    /// How simple the schedule is.
    pub cost: Cost,
}

impl Finding {
    pub(crate) fn size(&self) -> ScheduleSize {
        ScheduleSize::from(&self.cost)
    }

    /// The shortest is first.
    pub(crate) fn rank(&self) -> impl Ord + '_ {
        (self.cost.steps, &self.cost)
    }
}

/// The same violation in the simplest schedule that can be reached, as [`Cost`] has it. What a schedule becomes is cut at the
/// violation, and steps that became impossible are gone from it; it never becomes longer, not even for fewer faults. Where all
/// actors run the same code, those that are not needed are gone too.
///
/// `None` if the schedule does not violate the oracle at all.
pub fn shrink(
    runner: &mut Runner,
    scenario: &Scenario,
    schedule: &Schedule,
    oracle: &Arc<dyn Oracle>,
) -> Option<Finding> {
    let mut best = attempt(runner, scenario, schedule.steps.clone(), oracle)?;
    let mut tried = BTreeSet::new();
    // After every success from the first pass again: it may have become possible to leave out more.
    while let Some(simpler) = PASSES.iter().find_map(|pass| {
        let candidates = pass(&best, scenario, runner);
        let mut untried = candidates.into_iter().filter(|steps| tried.insert(steps.clone()));
        untried.find_map(|steps| {
            let simpler = attempt(runner, scenario, steps, oracle)?;
            let is_simpler = simpler.cost < best.cost && simpler.cost.steps <= best.cost.steps;
            is_simpler.then_some(simpler)
        })
    }) {
        best = simpler;
    }
    let schedule = Schedule { steps: best.steps };
    let needed = pass::actors(&schedule.steps).last().map_or(0, |actor| actor.0 + 1);
    let mut actors = scenario.actors.len();
    if scenario.is_uniform() && needed < actors {
        let history = replay(runner, &scenario.with_actors(needed), &schedule, Recording::Lean);
        if oracle.check(&history).as_ref() == Some(&best.violation) {
            actors = needed;
        }
    }
    Some(Finding { oracle: oracle.clone(), actors, schedule, violation: best.violation, cost: best.cost })
}

/// A schedule that violates the oracle.
struct Failing {
    /// Up to the violation.
    steps: Vec<Step>,
    cost: Cost,
    violation: Violation,
    history: History,
    /// Where time could have moved by less, and by how much.
    shorter: Vec<(usize, Step)>,
}

fn attempt(
    runner: &mut Runner,
    scenario: &Scenario,
    steps: Vec<Step>,
    oracle: &Arc<dyn Oracle>,
) -> Option<Failing> {
    let mut policy = Noting { replay: Replay::new(&Schedule { steps }), shorter: Vec::new() };
    let history = runner.run(scenario, &mut policy, Recording::Lean);
    let violation = oracle.check(&history)?;
    let steps = history.steps[..violation.step].to_vec();
    Some(Failing {
        cost: Cost::of(&history, violation.step),
        steps,
        violation,
        history,
        shorter: policy.shorter,
    })
}

/// Follows a schedule, and notes what else the clock could have done.
struct Noting {
    replay: Replay,
    shorter: Vec<(usize, Step)>,
}

impl Policy for Noting {
    fn choose(&mut self, enabled: &[Step], history: &History) -> Choice {
        let choice = self.replay.choose(enabled, history);
        if let Choice::Take(idx) = choice
            && let taken @ (Step::Advance(_) | Step::Wait) = enabled[idx]
        {
            let is_shorter = |step: &Step| match (*step, taken) {
                (Step::Advance(other), Step::Advance(span)) => other < span,
                (Step::Advance(_), _) => true,
                _ => false,
            };
            let place = history.steps.len();
            self.shorter.extend(enabled.iter().copied().filter(is_shorter).map(|step| (place, step)));
        }
        choice
    }
}
