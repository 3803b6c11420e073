//! Finds the timers of clients by probes, because tokio does not list its timers.

use crate::actor::Actor;
use crate::execution::{Choice, Executed, Policy, Runner};
use crate::memo::UnknownTimer;
use crate::replay::Replay;
use crate::scenario::Scenario;
use crate::schedule::{Schedule, Step};
use crate::sim::Recording;
use crate::trace::History;

/// Finds out whether clients had timers in an execution, as far as the timer cache does not have
/// that. Returns whether any were unknown.
///
/// For each such client, it replays the steps up to the unknown state, and then lets time pass. If
/// the result is `true`, the same schedule must run again, because the timer cache holds more now.
pub fn probe_timers(runner: &mut Runner, scenario: &Scenario, executed: &Executed) -> bool {
    if executed.unknown_timers.is_empty() {
        return false;
    }
    let timers = runner.timers.of(scenario);
    for &UnknownTimer { steps, actor, local_state } in &executed.unknown_timers {
        if timers.get(actor, local_state).is_none() {
            let schedule = Schedule { steps: executed.steps[..steps].to_vec() };
            let probe = || TimerProbe { replay: Replay::new(&schedule), actor };
            let (probed, _) = runner.run_fresh(scenario, probe, Recording::Lean);
            let waited = probed.steps.last() == Some(&Step::Wait);
            let has_timer =
                !waited || probed.footprints.last().is_some_and(|footprint| footprint.fires_timer);
            timers.insert(actor, local_state, has_timer);
        }
    }
    true
}

/// Follows a schedule, and then lets time pass for one actor alone.
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
