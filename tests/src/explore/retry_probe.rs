//! Finds out whether clients that repeat their commands in vain do so for ever. One such client is
//! explored as one that waits for a change, which leaves out that it gives up. Several that keep
//! each other from getting on are a livelock.

use crate::actor::Actor;
use crate::execution::{Choice, Policy, Runner};
use crate::replay::Replay;
use crate::scenario::Scenario;
use crate::schedule::{Schedule, Step};
use crate::sim::{Livelock, Recording};
use crate::trace::{EventKind, History};

/// Most further commands that are tried. Code with more equal tries counts as code that tries for
/// ever.
const COMMANDS_MAX: usize = 300;

/// Whether this client ends its tries by itself, although nothing changes. `history` is that of the
/// execution in which its tries had been in vain after `steps` steps.
pub(super) fn gives_up(
    runner: &mut Runner,
    scenario: &Scenario,
    history: &History,
    actor: Actor,
    steps: usize,
) -> bool {
    let schedule = Schedule { steps: history.steps[..steps].to_vec() };
    let probe = || RetryProbe { replay: Replay::new(&schedule), actor, steps, goes_on: false };
    let (again, probe) = runner.run_fresh(scenario, probe, Recording::Lean);
    let mut later = again.events.iter().filter(|event| event.step > steps);
    let has_ended =
        later.any(|event| matches!(event.kind, EventKind::RetriesEnded { actor: its } if its == actor));
    has_ended || !(probe.goes_on || again.is_endless())
}

/// Follows a schedule, and then lets one client try again and again.
struct RetryProbe {
    replay: Replay,
    actor: Actor,
    /// The number of steps of the schedule.
    steps: usize,
    /// The client has sent [`COMMANDS_MAX`] further commands.
    goes_on: bool,
}

impl Policy for RetryProbe {
    fn choose(&mut self, enabled: &[Step], history: &History) -> Choice {
        let Some(tried) = history.steps.len().checked_sub(self.steps) else {
            return self.replay.choose(enabled, history);
        };
        self.goes_on = tried == COMMANDS_MAX;
        let is_its = |step: &Step| matches!(*step, Step::Run(actor, _) if actor == self.actor);
        // A client that sleeps or waits sends nothing.
        let next = enabled.iter().position(is_its);
        next.filter(|_| !self.goes_on).map_or(Choice::Abort, Choice::Take)
    }

    fn tries_in_vain(&self) -> bool {
        true
    }
}

/// Whether the clients repeat their rounds until the execution reaches its limit of steps.
pub(super) fn never_ends(
    runner: &mut Runner,
    scenario: &Scenario,
    history: &History,
    livelock: &Livelock,
) -> bool {
    let probe = || RoundProbe { steps: &history.steps[..livelock.steps], round: livelock.round };
    let (again, _) = runner.run_fresh(scenario, probe, Recording::Lean);
    let later = again.events.iter().filter(|event| event.step > livelock.steps);
    let gets_on = |kind: &EventKind| {
        matches!(kind, EventKind::Enter { .. } | EventKind::Did { .. } | EventKind::Failed { .. })
    };
    again.is_endless() && !later.into_iter().any(|event| gets_on(&event.kind))
}

/// Follows a schedule, and then repeats its last steps for as long as they are possible.
struct RoundProbe<'a> {
    steps: &'a [Step],
    round: usize,
}

impl Policy for RoundProbe<'_> {
    fn choose(&mut self, enabled: &[Step], history: &History) -> Choice {
        let rounds = self.steps.iter().chain(self.steps[self.steps.len() - self.round..].iter().cycle());
        let next = rounds.copied().nth(history.steps.len());
        let place = enabled.iter().position(|step| Some(*step) == next);
        place.map_or(Choice::Abort, Choice::Take)
    }

    fn tries_in_vain(&self) -> bool {
        true
    }
}
