//! Searches for livelocks. In a livelock, clients take turns in one pattern for ever. A depth-first
//! search may explore what follows from few turns for a very long time before it gets there, so
//! simple patterns are tried first.

use std::sync::Arc;

use super::retry_probe::never_ends;
use crate::actor::Actor;
use crate::execution::{Choice, Policy, Runner};
use crate::scenario::Scenario;
use crate::schedule::Step;
use crate::sim::{Livelock, Recording};
use crate::trace::History;

/// Most patterns of each number of repeats.
const PATTERNS_MAX: usize = 300;
/// Most turns of a pattern.
const TURNS_MAX: usize = 8;
/// How often each turn of a pattern is taken before the next one.
const REPEATS: [usize; 2] = [1, 2];
/// Most steps that a pattern is followed. Clients need three equal tries.
const STEPS_MAX: usize = 150;

/// A livelock of clients that take turns in a simple pattern, and the history that leads there.
pub(super) fn find_livelock(runner: &mut Runner, scenario: &Scenario) -> Option<(Arc<History>, Livelock)> {
    let patterns = patterns(scenario.actors.len());
    REPEATS.iter().flat_map(|&repeats| patterns.iter().map(move |turns| (turns, repeats))).find_map(
        |(turns, repeats)| {
            let follow = || Pattern { turns, repeats, taken: 0 };
            let (mut executed, _) = runner.run_fresh(scenario, follow, Recording::Lean);
            let livelock = executed.livelock.take().filter(|livelock| interfere(&executed, livelock))?;
            never_ends(runner, scenario, &executed, &livelock).then_some((executed.history, livelock))
        },
    )
}

/// Whether a client changes in the last round what another one reads or writes there. Otherwise
/// each of them waits for something else, such as the end of a lease.
fn interfere(history: &History, livelock: &Livelock) -> bool {
    let round = livelock.steps - livelock.round..livelock.steps;
    round.clone().any(|one| {
        let others =
            round.clone().filter(|&other| history.steps[one].actor() != history.steps[other].actor());
        others.into_iter().any(|other| history.footprints[one].interferes_with(&history.footprints[other]))
    })
}

/// The turns of patterns in which every actor has one, short patterns first. Each begins with the
/// first actor, because other actors would begin the same patterns elsewhere.
fn patterns(actors: usize) -> Vec<Vec<Actor>> {
    let mut patterns = Vec::new();
    let mut of_len = vec![vec![Actor(0)]];
    for _ in 2..=TURNS_MAX {
        let longer = of_len.iter().flat_map(|turns| {
            (0..actors).map(move |actor| turns.iter().copied().chain([Actor(actor)]).collect::<Vec<_>>())
        });
        of_len = longer.take(PATTERNS_MAX).collect();
        let has_all = |turns: &&Vec<Actor>| (0..actors).all(|actor| turns.contains(&Actor(actor)));
        patterns.extend(of_len.iter().filter(has_all).cloned());
    }
    patterns.truncate(PATTERNS_MAX);
    patterns
}

/// Lets the actors take turns. An actor that cannot act is left out.
struct Pattern<'a> {
    turns: &'a [Actor],
    repeats: usize,
    /// The number of turns so far.
    taken: usize,
}

impl Policy for Pattern<'_> {
    fn choose(&mut self, enabled: &[Step], history: &History) -> Choice {
        if history.steps.len() >= STEPS_MAX {
            return Choice::Abort;
        }
        for _ in 0..self.turns.len() * self.repeats {
            let next = self.turns[self.taken / self.repeats % self.turns.len()];
            self.taken += 1;
            let is_its = |step: &Step| matches!(*step, Step::Run(actor, _) if actor == next);
            if let Some(place) = enabled.iter().position(is_its) {
                return Choice::Take(place);
            }
        }
        let waits = enabled.iter().position(|step| *step == Step::Wait);
        waits.map_or(Choice::Abort, Choice::Take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_all_actors() {
        let of_two = patterns(2);
        assert_eq!(
            of_two[..4],
            [
                [0, 1].map(Actor).to_vec(),
                [0, 0, 1].map(Actor).to_vec(),
                [0, 1, 0].map(Actor).to_vec(),
                [0, 1, 1].map(Actor).to_vec()
            ]
        );
        assert!(of_two.contains(&[0, 1, 1, 0, 0, 0, 1, 1].map(Actor).to_vec()));
        assert!(patterns(3).contains(&[0, 1, 2].map(Actor).to_vec()));
        assert!(patterns(20).len() <= PATTERNS_MAX);
    }
}
