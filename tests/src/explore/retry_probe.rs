//! Finds out whether a client that repeats its commands in vain does so for ever. Such a client is
//! explored as one that waits for a change, which leaves out that it gives up.

use crate::execution::{Choice, Policy, Runner};
use crate::replay::Replay;
use crate::scenario::Scenario;
use crate::schedule::{Schedule, Step};
use crate::sim::{Recording, Retry};
use crate::trace::{EventKind, History};

/// Most further commands that are tried. Code with more equal tries counts as code that tries for
/// ever.
const COMMANDS_MAX: usize = 300;

/// Whether this client ends its tries by itself, although nothing changes. `history` is that of the
/// execution in which it tried in vain.
pub(super) fn gives_up(runner: &mut Runner, scenario: &Scenario, history: &History, retry: Retry) -> bool {
    let schedule = Schedule { steps: history.steps[..retry.steps].to_vec() };
    let mut probe = RetryProbe { replay: Replay::new(&schedule), retry, has_ended: false };
    runner.run(scenario, &mut probe, Recording::Lean);
    probe.has_ended
}

/// Follows a schedule, and then lets one client try again and again.
struct RetryProbe {
    replay: Replay,
    retry: Retry,
    has_ended: bool,
}

impl Policy for RetryProbe {
    fn choose(&mut self, enabled: &[Step], history: &History) -> Choice {
        let tried = match history.steps.len().checked_sub(self.retry.steps) {
            None => return self.replay.choose(enabled, history),
            Some(tried) => tried,
        };
        // A client that sleeps or waits sends nothing.
        let is_silent = tried > 0 && history.footprints.last().is_some_and(|last| last.servers.is_empty());
        let is_other = |kind: &EventKind| matches!(kind, EventKind::RetriesEnded { .. });
        self.has_ended = is_silent || history.events.iter().any(|event| is_other(&event.kind));
        if self.has_ended || tried >= COMMANDS_MAX {
            return Choice::Abort;
        }
        Choice::Move(Step::Run(self.retry.actor, self.retry.connection))
    }
}
