//! Makes a schedule that violates a property as simple as possible.
//!
//! It changes the schedule a little and runs the result. If the result also violates the property
//! and is simpler, it is kept.

mod cost;
mod failing;
mod pass;
mod whole;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use cost::Cost;
pub(crate) use cost::ScheduleSize;
pub(crate) use whole::holds_of_whole;

use crate::execution::{Choice, Policy, Runner};
use crate::fault::Faults;
use crate::fingerprint::fingerprint;
use crate::oracle::{Oracle, Violation};
use crate::replay::{Replay, replay};
use crate::scenario::Scenario;
use crate::schedule::{Schedule, Step};
use crate::trace::History;
use failing::Failing;
use pass::PASSES;

/// A schedule that violates an oracle.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The oracle.
    pub oracle: Arc<dyn Oracle>,
    /// The number of the scenario's actors.
    pub actors: usize,
    /// The fault budgets of the scenario.
    pub faults: Faults,
    /// The steps up to the violation.
    pub schedule: Schedule,
    /// The violation, as the oracle describes it.
    pub violation: Violation,
    /// The cost of the schedule.
    pub cost: Cost,
}

impl Finding {
    pub(crate) fn size(&self) -> ScheduleSize {
        ScheduleSize::from(&self.cost)
    }

    /// The shortest schedule comes first.
    pub(crate) fn rank(&self) -> impl Ord + '_ {
        (self.cost.steps, &self.cost)
    }
}

/// Finds the simplest schedule, by [`Cost`], with a violation of this oracle. Returns `None` if the
/// schedule does not violate the oracle.
///
/// The result ends at the violation and contains only possible steps. It is never longer than the
/// given schedule, not even for fewer faults. If all actors run equal code, actors that are not
/// needed are removed. The violation stays if they start after it, unless the scenario says that
/// fewer actors will do.
pub fn shrink(
    runner: &mut Runner,
    scenario: &Scenario,
    schedule: &Schedule,
    oracle: &Arc<dyn Oracle>,
) -> Option<Finding> {
    let mut best = attempt(runner, scenario, schedule.steps.clone(), oracle)?;
    // Hashes of the schedules that were tried: a long schedule has very many shorter ones.
    let mut tried = BTreeSet::new();
    // After every success the passes start again, because more steps may be needless now.
    while let Some(simpler) = PASSES.iter().find_map(|pass| {
        let candidates = pass(&best, scenario, runner);
        let mut untried = candidates.filter(|steps| tried.insert(fingerprint(steps)));
        untried.find_map(|steps| {
            let simpler = attempt(runner, scenario, steps, oracle)?;
            let is_simpler = simpler.cost < best.cost && simpler.cost.steps <= best.cost.steps;
            is_simpler.then_some(simpler)
        })
    }) {
        best = simpler;
    }
    let found = Schedule { steps: best.steps };
    // Only an execution in which everything runs is a proof.
    let history = replay(runner, scenario, &found, scenario.recording());
    if oracle.check(&history).as_ref() != Some(&best.violation) && runner.unlearn(scenario) {
        return shrink(runner, scenario, schedule, oracle);
    }
    let schedule = found;
    let needed = cost::actors(&schedule.steps).last().map_or(0, |actor| actor.0 + 1);
    let mut actors = scenario.actors.len();
    if scenario.is_uniform() && needed < actors {
        let history = replay(runner, &scenario.with_actors(needed), &schedule, scenario.recording());
        if oracle.check(&history).as_ref() == Some(&best.violation) {
            actors = needed;
        }
    }
    let (oracle, faults) = (oracle.clone(), scenario.faults);
    Some(Finding { oracle, actors, faults, schedule, violation: best.violation, cost: best.cost })
}

fn attempt(
    runner: &mut Runner,
    scenario: &Scenario,
    steps: Vec<Step>,
    oracle: &Arc<dyn Oracle>,
) -> Option<Failing> {
    let schedule = Schedule { steps };
    let policy = || Noting { replay: Replay::new(&schedule), shorter: Vec::new() };
    let (executed, policy) = runner.run_fresh(scenario, policy, scenario.recording());
    let violation = oracle.check(&executed)?;
    let steps = executed.steps[..violation.step].to_vec();
    if !holds_of_whole(runner, scenario, &steps, &**oracle) {
        return None;
    }
    Some(Failing {
        cost: Cost::of(&executed, violation.step),
        steps,
        violation,
        history: executed.into_history(),
        shorter: policy.shorter,
    })
}

/// Follows a schedule, and records which shorter steps of time were possible.
struct Noting {
    replay: Replay,
    shorter: Vec<(usize, Step)>,
}

impl Policy for Noting {
    fn choose(&mut self, enabled: &[Step], history: &History) -> Choice {
        let choice = self.replay.choose(enabled, history);
        if let Choice::Take(idx) = choice
            && let taken = enabled[idx]
            && (taken == Step::Wait || taken.time_moved().is_some())
        {
            let is_shorter = |step: &Step| match (step.time_moved(), taken.time_moved()) {
                (Some(other), Some(span)) => other < span || other == span && *step < taken,
                (Some(_), None) => true,
                (None, _) => false,
            };
            let place = history.steps.len();
            self.shorter.extend(enabled.iter().copied().filter(is_shorter).map(|step| (place, step)));
        }
        choice
    }

    fn tries_in_vain(&self) -> bool {
        true
    }
}
