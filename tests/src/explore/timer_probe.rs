use crate::execution::{Choice, Policy, Runner};
use crate::replay::Replay;
use crate::scenario::Scenario;
use crate::schedule::{Actor, Schedule, Step};
use crate::sim::Recording;
use crate::trace::History;

/// Finds out whether those actors have timers of which the execution did not know it: each is brought to where it was, and left
/// alone for as long as it takes. Says whether there were any; the same schedule tells more when it is run again.
pub fn find_timers(runner: &mut Runner, scenario: &Scenario, history: &History) -> bool {
    for &(steps, actor, trail) in &history.unknown {
        if scenario.timers.get(actor, trail).is_none() {
            let schedule = Schedule { steps: history.steps[..steps].to_vec() };
            let mut alone = Alone { replay: Replay::new(&schedule), actor };
            let history = runner.run(scenario, &mut alone, Recording::Lean);
            let waited = history.steps.last() == Some(&Step::Wait);
            let has_timer = !waited || history.touched.last().is_some_and(|touch| touch.fires_timer);
            scenario.timers.insert(actor, trail, has_timer);
        }
    }
    !history.unknown.is_empty()
}

/// Follows a schedule, and then leaves an actor alone.
struct Alone {
    replay: Replay,
    actor: Actor,
}

impl Policy for Alone {
    fn choose(&mut self, enabled: &[Step], history: &History) -> Choice {
        match self.replay.choose(enabled, history) {
            Choice::Finish => Choice::Alone(self.actor),
            choice => choice,
        }
    }
}
