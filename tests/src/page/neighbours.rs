//! The schedules beside a counterexample: the order that decides it, and other steps at each place.

use serde::Serialize;

use crate::execution::{Choice, Policy, Runner};
use crate::oracle::Oracle;
use crate::render::teller::tell;
use crate::replay::Follow;
use crate::scenario::Scenario;
use crate::schedule::Step;
use crate::sim::Recording;
use crate::trace::{HappensBefore, History};

/// No more schedules than these are run.
const SCHEDULES_MAX: usize = 500;

/// Two steps that race. In the other order, the property holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decisive {
    /// The number of the earlier step.
    pub early: usize,
    /// The earlier step, in words.
    pub early_text: String,
    /// The number of the later step.
    pub late: usize,
    /// The later step, in words.
    pub late_text: String,
    /// The steps of the schedule in which the later one comes first.
    pub schedule: Vec<String>,
}

/// A step that was possible in place of another one. After it, the schedule goes on as far as that
/// is possible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alternative {
    /// The number of the step that it replaces.
    pub step: usize,
    /// The step, as in a schedule.
    pub other: String,
    /// The step in words.
    pub text: String,
    /// The violation, in a sentence. `None` if the property holds.
    pub violation: Option<String>,
}

/// The neighbours of a counterexample.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Neighbours {
    /// The last pair of steps whose order decides the violation. `None` if none does.
    pub decisive: Option<Decisive>,
    /// The number of pairs of steps that race.
    pub races: usize,
    /// The other steps, by place.
    pub alternatives: Vec<Alternative>,
    /// Whether there are more neighbours than were run.
    pub is_partial: bool,
}

/// Runs the neighbours of a schedule. Returns `None` if it does not violate the oracle.
pub(super) fn neighbours(
    runner: &mut Runner,
    scenario: &Scenario,
    oracle: &dyn Oracle,
    schedule: &[Step],
) -> Option<Neighbours> {
    let mut search = Search { runner, scenario, oracle, room: SCHEDULES_MAX, is_partial: false };
    let (history, possible) = search.run(schedule);
    let last_step = oracle.check(&history)?.step;
    let steps = &history.steps[..last_step];
    let happens_before = HappensBefore::of(&history);
    let of = |late| happens_before.races(late).iter().map(move |&early| (early, late));
    let races: Vec<(usize, usize)> = (0..last_step).flat_map(of).collect();
    let mut backwards = races.iter().rev();
    let decisive = backwards.find_map(|&race| search.decisive(&history, &happens_before, steps, race));
    let mut alternatives = Vec::new();
    for (place, (&taken, possible)) in steps.iter().zip(&possible).enumerate() {
        for &other in possible.iter().filter(|&&other| other != taken) {
            alternatives.extend(search.alternative(steps, place, other));
        }
    }
    Some(Neighbours { decisive, races: races.len(), alternatives, is_partial: search.is_partial })
}

struct Search<'a> {
    runner: &'a mut Runner,
    scenario: &'a Scenario,
    oracle: &'a dyn Oracle,
    /// The number of schedules that may still be run.
    room: usize,
    /// A schedule was not run, because there was no room.
    is_partial: bool,
}

impl Search<'_> {
    /// Runs a schedule. Returns also the possible steps at each of its places.
    fn run(&mut self, steps: &[Step]) -> (History, Vec<Vec<Step>>) {
        let policy = || Listing { follow: Follow::new(steps.to_vec()), possible: Vec::new() };
        let (history, policy) = self.runner.run_with_thresholds(self.scenario, policy, Recording::Full);
        (history.into_history(), policy.possible)
    }

    /// Runs a schedule if there is room.
    fn try_run(&mut self, steps: &[Step]) -> Option<History> {
        self.is_partial |= self.room == 0;
        self.room = self.room.checked_sub(1)?;
        Some(self.run(steps).0)
    }

    /// If the property holds when the later step of a race comes first, returns the pair. The steps
    /// that the later one depends on come first, too.
    fn decisive(
        &mut self,
        history: &History,
        happens_before: &HappensBefore,
        steps: &[Step],
        (early, late): (usize, usize),
    ) -> Option<Decisive> {
        let comes_first = |place: usize| {
            place == late || place > early && place < late && !happens_before.precedes(early, place)
        };
        let first = (early..=late).filter(|&place| comes_first(place));
        let then = (early..=late).filter(|&place| !comes_first(place));
        let places = (0..early).chain(first).chain(then).chain(late + 1..steps.len());
        let other: Vec<Step> = places.map(|place| steps[place]).collect();
        let swapped = self.try_run(&other)?;
        if self.oracle.check(&swapped).is_some() {
            return None;
        }
        Some(Decisive {
            early: early + 1,
            early_text: self.text(history, early),
            late: late + 1,
            late_text: self.text(history, late),
            schedule: swapped.steps.iter().map(ToString::to_string).collect(),
        })
    }

    /// Takes another step at a place, and goes on as before.
    fn alternative(&mut self, steps: &[Step], place: usize, other: Step) -> Option<Alternative> {
        let tried = [&steps[..place], &[other], &steps[place..]].concat();
        let history = self.try_run(&tried)?;
        let violation = self.oracle.check(&history);
        Some(Alternative {
            step: place + 1,
            other: other.to_string(),
            text: self.text(&history, place),
            violation: violation.map(|violation| violation.what),
        })
    }

    /// The step at a place in words. Empty if nothing is told of it.
    fn text(&self, history: &History, place: usize) -> String {
        let told = tell(history, self.scenario.actors.len(), place + 1);
        let entry = told.into_iter().find(|entry| entry.step == place + 1);
        entry.map_or(String::new(), |entry| entry.text)
    }
}

/// Follows a schedule, and records which steps were possible.
struct Listing {
    follow: Follow,
    possible: Vec<Vec<Step>>,
}

impl Policy for Listing {
    fn choose(&mut self, enabled: &[Step], history: &History) -> Choice {
        self.possible.resize(history.steps.len(), Vec::new());
        self.possible.push(enabled.to_vec());
        self.follow.choose(enabled, history)
    }

    fn tries_in_vain(&self) -> bool {
        true
    }
}
