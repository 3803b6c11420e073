//! Makes a schedule that violates a property as short as it gets, by leaving out steps and running what is left.

use std::sync::Arc;

use crate::execution::Runner;
use crate::oracle::{Oracle, Violation};
use crate::replay::replay;
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use crate::world::Recording;

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
}

/// The same violation in as few steps as can be reached by leaving out steps, one or several in a row at a time. What the
/// schedule becomes is cut at the violation, and steps that became impossible are gone from it.
///
/// `None` if the schedule does not violate the oracle at all.
pub fn shrink(
    runner: &mut Runner,
    scenario: &Scenario,
    schedule: &Schedule,
    oracle: &Arc<dyn Oracle>,
) -> Option<Finding> {
    let mut attempt = |schedule: &Schedule| -> Option<(Schedule, Violation)> {
        let history = replay(runner, scenario, schedule, Recording::Lean);
        let violation = oracle.check(&history)?;
        Some((Schedule { steps: history.steps[..violation.step].to_vec() }, violation))
    };
    let (mut best, mut violation) = attempt(schedule)?;
    // Large pieces first; after every success from the start again, since the pieces in front may have become superfluous.
    let mut piece = best.steps.len();
    while piece > 0 {
        let candidates = (0..=best.steps.len().saturating_sub(piece)).map(|start| {
            let mut steps = best.steps.clone();
            steps.drain(start..(start + piece).min(steps.len()));
            Schedule { steps }
        });
        let better = candidates
            .into_iter()
            .filter_map(|candidate| attempt(&candidate))
            .find(|(shorter, _)| shorter.steps.len() < best.steps.len());
        match better {
            Some(shorter) => {
                (best, violation) = shorter;
                piece = best.steps.len();
            }
            None => piece -= 1,
        }
    }
    Some(Finding { oracle: oracle.clone(), actors: scenario.actors.len(), schedule: best, violation })
}
