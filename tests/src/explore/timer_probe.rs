//! Finds the timers of clients by probes, because tokio does not list its timers.

use crate::actor::Actor;
use crate::execution::{Choice, Policy, Runner};
use crate::replay::Replay;
use crate::scenario::Scenario;
use crate::schedule::{Schedule, Step};
use crate::sim::{Recording, UnknownTimer};
use crate::trace::History;

/// Finds out whether clients have timers, if the timer cache did not have it. `history` is that of
/// the runner's last execution. Returns whether any were unknown.
///
/// For each such client, it replays the steps up to the unknown state, and then lets time pass. If
/// the result is `true`, the same schedule must run again, because the timer cache holds more now.
pub fn probe_timers(runner: &mut Runner, scenario: &Scenario, history: &History) -> bool {
    let unknown = std::mem::take(&mut runner.unknown_timers);
    if unknown.is_empty() {
        return false;
    }
    let timers = runner.timers.of(scenario);
    for UnknownTimer { steps, actor, local_state } in unknown {
        if timers.get(actor, local_state).is_none() {
            let schedule = Schedule { steps: history.steps[..steps].to_vec() };
            let probe = || TimerProbe { replay: Replay::new(&schedule), actor };
            let (history, _) = runner.run_fresh(scenario, probe, Recording::Lean);
            let waited = history.steps.last() == Some(&Step::Wait);
            let has_timer =
                !waited || history.footprints.last().is_some_and(|footprint| footprint.fires_timer);
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
