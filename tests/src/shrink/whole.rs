//! Whether a violation counts: the user's scenario may demand more actors than take part in it.

use crate::actor::Actor;
use crate::execution::Runner;
use crate::oracle::Oracle;
use crate::replay::ReplayWithAll;
use crate::scenario::Scenario;
use crate::schedule::{Schedule, Step};

/// Whether these steps, which violate this oracle, still do if every actor that the scenario
/// demands starts: in the steps, or after them. What is judged at the end then comes later. Code
/// that has taken too many steps may have waited for others.
pub(crate) fn holds_of_whole(
    runner: &mut Runner,
    scenario: &Scenario,
    steps: &[Step],
    oracle: &dyn Oracle,
) -> bool {
    let whole = scenario.whole();
    let has_started = |nth| steps.iter().any(|step| step.actor() == Some(Actor(nth)));
    if whole.may_be_fewer || (0..whole.actors.len()).all(has_started) {
        return true;
    }
    if scenario.is_part() && steps.len() >= scenario.limits.steps {
        return false;
    }
    let schedule = Schedule { steps: steps.to_vec() };
    let (executed, _) = runner.run_fresh(whole, || ReplayWithAll::new(&schedule), whole.recording());
    oracle.check(&executed).is_some_and(|again| again.step <= steps.len())
}
