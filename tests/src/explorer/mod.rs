//! Runs many schedules of a scenario. Each strategy is a policy in a file of its own.

mod exhaustive;
mod plan;
mod random;
mod replay;

use std::sync::Arc;

pub use exhaustive::DepthFirst;
pub use plan::{Plan, Wish};
pub use random::Random;
pub use replay::Replay;

use crate::execution::Runner;
use crate::history::{History, Seen, What};
use crate::oracle::{Oracle, Violation};
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use crate::world::Recording;

/// What an exploration found.
#[derive(Clone, Debug, Default)]
pub struct Exploration {
    /// How many schedules were run.
    pub schedules: u64,
    /// Of each oracle that a schedule violated, the shortest such schedule.
    pub findings: Vec<Finding>,
    /// What happened in at least one of them.
    pub seen: Seen,
    /// The names of the oracles that had something to judge in at least one of them.
    pub judged: Vec<&'static str>,
}

/// A schedule that violates an oracle.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The oracle.
    pub oracle: Arc<dyn Oracle>,
    /// How many of the scenario's actors there were.
    pub actors: usize,
    /// The steps up to the violation.
    pub schedule: Schedule,
    /// What the oracle saw.
    pub violation: Violation,
}

impl Exploration {
    /// What was found against the oracle of this name.
    pub fn finding(&self, oracle: &str) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.oracle.name() == oracle)
    }

    /// How long a violation may be to be news: shorter than the longest of the shortest, once every oracle has one.
    fn news_steps_max(&self, scenario: &Scenario) -> usize {
        if self.findings.len() < scenario.oracles.len() {
            return usize::MAX;
        }
        self.findings
            .iter()
            .map(|finding| finding.violation.step.saturating_sub(1))
            .max()
            .unwrap_or(usize::MAX)
    }

    /// Counts an execution, and keeps what it violates if that is the shortest so far.
    fn add(&mut self, scenario: &Scenario, history: &History) {
        self.schedules += 1;
        self.seen = self.seen.or(history.seen);
        for oracle in &scenario.oracles {
            if !self.judged.contains(&oracle.name()) && oracle.judges(history) {
                self.judged.push(oracle.name());
            }
            let Some(violation) = oracle.check(history) else { continue };
            let known = self.findings.iter().position(|finding| Arc::ptr_eq(&finding.oracle, oracle));
            if known.is_some_and(|idx| self.findings[idx].violation.step <= violation.step) {
                continue;
            }
            let steps = history.steps[..violation.step].to_vec();
            let actors = scenario.actors.len();
            let finding = Finding { oracle: oracle.clone(), actors, schedule: Schedule { steps }, violation };
            match known {
                Some(idx) => self.findings[idx] = finding,
                None => self.findings.push(finding),
            }
        }
    }
}

/// Runs every schedule of the scenario within its budgets. Where all actors run the same code, it does so with one of them, then
/// with two, and so on up to all: what it finds is the shortest there is.
///
/// Once every oracle is violated, schedules are cut where they can no longer violate one in fewer steps.
///
/// # Panics
/// The code of an actor fails without a fault that could excuse it.
pub fn explore_all(runner: &mut Runner, scenario: &Scenario) -> Exploration {
    let mut exploration = Exploration::default();
    let all = scenario.actors.len();
    for actors in if scenario.is_uniform() { 1..=all } else { all..=all } {
        let scenario = scenario.with_actors(actors);
        let mut depth_first = DepthFirst::default();
        while depth_first.next_schedule(exploration.news_steps_max(&scenario)) {
            let history = runner.run(&scenario, &mut depth_first, Recording::Lean);
            expect_success(&scenario, &history);
            exploration.add(&scenario, &history);
        }
    }
    exploration
}

/// Runs this many schedules, drawn by chance from a seed.
///
/// # Panics
/// The code of an actor fails without a fault that could excuse it.
pub fn explore_random(runner: &mut Runner, scenario: &Scenario, schedules: u64, seed: u64) -> Exploration {
    let mut exploration = Exploration::default();
    for nth in 0..schedules {
        let mut random = Random::new(seed, nth);
        let history = runner.run(scenario, &mut random, Recording::Lean);
        expect_success(scenario, &history);
        exploration.add(scenario, &history);
    }
    exploration
}

/// Runs one schedule, and lets everybody who has started come to an end.
pub fn replay(
    runner: &mut Runner,
    scenario: &Scenario,
    schedule: &Schedule,
    recording: Recording,
) -> History {
    runner.run(scenario, &mut Replay::new(schedule), recording)
}

/// An actor that ends with an error, or never, tests nothing: the test itself is at fault.
pub(crate) fn expect_success(scenario: &Scenario, history: &History) {
    for event in &history.events {
        let (actor, what) = match &event.what {
            What::Failed { actor, error } => (actor, format!("failed: {error}")),
            What::Stuck { actor } => (actor, "waits for something that never comes".into()),
            _ => continue,
        };
        let schedule = Schedule { steps: history.steps.clone() };
        panic!("{}: actor {actor} {what}\nafter the schedule\n{schedule}", scenario.name);
    }
}
