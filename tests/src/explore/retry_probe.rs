//! Finds out whether clients that repeat their commands in vain do so for ever. One such client is
//! explored as one that waits for a change, which leaves out that it gives up. Several that keep
//! each other from getting on are a livelock.

use crate::execution::{Choice, Policy, Runner};
use crate::replay::Replay;
use crate::scenario::Scenario;
use crate::schedule::{Schedule, Step};
use crate::sim::{Livelock, Recording, Retry};
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
        let Retry { actor: its, steps, .. } = self.retry;
        let mut events = history.events.iter().filter(|event| event.step > steps);
        let goes_on =
            events.any(|event| matches!(event.kind, EventKind::RetriesEnded { actor } if actor == its));
        let is_its = |step: &Step| matches!(*step, Step::Run(actor, _) if actor == its);
        // A client that sleeps or waits sends nothing.
        let next = enabled.iter().position(is_its);
        self.has_ended = next.is_none() || goes_on;
        next.filter(|_| !self.has_ended && tried < COMMANDS_MAX).map_or(Choice::Abort, Choice::Take)
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
    let mut probe = RoundProbe { steps: &history.steps[..livelock.steps], round: livelock.round };
    let again = runner.run(scenario, &mut probe, Recording::Lean);
    let later = again.events.iter().filter(|event| event.step > livelock.steps);
    let gets_on = |kind: &EventKind| matches!(kind, EventKind::Enter { .. } | EventKind::Failed { .. });
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
