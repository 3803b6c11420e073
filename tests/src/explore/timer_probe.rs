use crate::actor::Actor;
use crate::execution::{Choice, Policy, Runner};
use crate::replay::Replay;
use crate::scenario::Scenario;
use crate::schedule::{Schedule, Step};
use crate::sim::Recording;
use crate::trace::History;

/// Finds out whether those actors have timers of which the execution did not know it: each is brought to where it was, and left
/// alone for as long as it takes. Says whether there were any; the same schedule tells more when it is run again.
pub fn probe_timers(runner: &mut Runner, scenario: &Scenario, history: &History) -> bool {
    for &(steps, actor, local_state) in &history.unknown {
        if scenario.timers.get(actor, local_state).is_none() {
            let schedule = Schedule { steps: history.steps[..steps].to_vec() };
            let mut probe = TimerProbe { replay: Replay::new(&schedule), actor };
            let history = runner.run(scenario, &mut probe, Recording::Lean);
            let waited = history.steps.last() == Some(&Step::Wait);
            let has_timer = !waited || history.footprints.last().is_some_and(|touch| touch.fires_timer);
            scenario.timers.insert(actor, local_state, has_timer);
        }
    }
    !history.unknown.is_empty()
}

/// Follows a schedule, and then leaves an actor alone.
struct TimerProbe {
    replay: Replay,
    actor: Actor,
}

impl Policy for TimerProbe {
    fn choose(&mut self, enabled: &[Step], history: &History) -> Choice {
        match self.replay.choose(enabled, history) {
            Choice::Finish => Choice::ProbeTimer(self.actor),
            choice => choice,
        }
    }
}
