//! A failed test as a value: what broke, the schedule, the timeline.

use std::fmt;

use crate::execution::{Policy, Runner};
use crate::explorer::{Exploration, Finding, expect_success, explore_all, explore_random, replay};
use crate::history::History;
use crate::oracle::Violation;
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use crate::shrink::shrink;
use crate::timeline;
use crate::world::Recording;

/// Why a scenario does not pass.
#[derive(Clone)]
pub struct Report {
    /// The scenario's name.
    pub scenario: String,
    /// What is wrong.
    pub problem: Problem,
    /// How many schedules had been run.
    pub schedules: u64,
}

/// What can be wrong with a scenario.
#[derive(Clone, Debug)]
pub enum Problem {
    /// Something that must always hold did not.
    Violated {
        /// The oracle's name.
        property: &'static str,
        /// What it saw.
        what: String,
        /// The shortest schedule known to show it.
        schedule: Schedule,
        /// The execution of that schedule, drawn.
        timeline: String,
        /// The schedule as text that can be replayed, with the command of each step.
        text: String,
    },
    /// Nothing was violated, but what must have happened never did: the pass means nothing.
    Vacuous(String),
}

impl std::error::Error for Report {}

/// The same as `Display`: what `unwrap` prints in a test is for a person too.
impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{self}")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { scenario, problem, schedules } = self;
        match problem {
            Problem::Vacuous(what) => {
                write!(f, "{scenario}: vacuous: in {schedules} schedules {what}, so the pass means nothing")
            }
            Problem::Violated { property, timeline, text, .. } => {
                writeln!(f, "{scenario}: {property} is violated (found in {schedules} schedules)\n")?;
                writeln!(f, "{timeline}")?;
                write!(f, "schedule:\n{text}")
            }
        }
    }
}

/// Said when a schedule does not do again what it did.
pub(crate) const NOT_AGAIN: &str =
    "the same schedule went another way: something besides it decides what this code does";

/// Runs every schedule of the scenario within its budgets.
///
/// # Errors
/// The shortest violation of the first oracle that is violated; or that nothing happened that had to.
///
/// # Panics
/// An actor's code fails.
pub fn exhaustive(scenario: &Scenario) -> Result<Exploration, Box<Report>> {
    let mut runner = Runner::new();
    let exploration = explore_all(&mut runner, scenario);
    judge(&mut runner, scenario, exploration)
}

/// Runs this many schedules, drawn by chance from a seed; what it finds is shrunk.
///
/// # Errors
/// The violation of the first oracle that is violated; or that nothing happened that had to.
///
/// # Panics
/// An actor's code fails.
pub fn sample(scenario: &Scenario, schedules: u64, seed: u64) -> Result<Exploration, Box<Report>> {
    let mut runner = Runner::new();
    let exploration = explore_random(&mut runner, scenario, schedules, seed);
    judge(&mut runner, scenario, exploration)
}

/// Runs one execution and judges it as it is: for whoever brings schedules of their own, `proptest` for one.
///
/// # Errors
/// The first oracle that is violated.
///
/// # Panics
/// An actor's code fails.
pub fn run(
    runner: &mut Runner,
    scenario: &Scenario,
    policy: &mut dyn Policy,
) -> Result<History, Box<Report>> {
    let history = runner.run(scenario, policy, Recording::Full);
    expect_success(scenario, &history);
    let violated = scenario.oracles.iter().find_map(|oracle| Some((oracle, oracle.check(&history)?)));
    match violated {
        Some((oracle, violation)) => {
            let problem = violated_by(oracle.name(), violation, &history, scenario.actors.len());
            Err(Box::new(Report { scenario: scenario.name.clone(), problem, schedules: 1 }))
        }
        None => Ok(history),
    }
}

fn violated_by(property: &'static str, violation: Violation, history: &History, actors: usize) -> Problem {
    Problem::Violated {
        property,
        timeline: timeline::render(history, actors, Some(&violation)),
        text: timeline::annotate(history, violation.step),
        schedule: Schedule { steps: history.steps[..violation.step].to_vec() },
        what: violation.what,
    }
}

fn judge(
    runner: &mut Runner,
    scenario: &Scenario,
    exploration: Exploration,
) -> Result<Exploration, Box<Report>> {
    let schedules = exploration.schedules;
    let report = |problem| Box::new(Report { scenario: scenario.name.clone(), problem, schedules });
    let violated = scenario.oracles.iter().find_map(|oracle| exploration.finding(oracle.name()));
    if let Some(finding) = violated {
        let finding =
            shrink(runner, &scenario.with_actors(finding.actors), &finding.schedule, &finding.oracle)
                .expect(NOT_AGAIN);
        let history =
            replay(runner, &scenario.with_actors(finding.actors), &finding.schedule, Recording::Full);
        return Err(report(violated_by(finding.oracle.name(), finding.violation, &history, finding.actors)));
    }
    let unjudged =
        scenario.oracles.iter().map(|oracle| oracle.name()).find(|name| !exploration.judged.contains(name));
    let missing = exploration.seen.missing(scenario.must_see).map(str::to_owned);
    match missing.or(unjudged.map(|name| format!("{name} had nothing to judge"))) {
        Some(missing) => Err(report(Problem::Vacuous(missing))),
        None => Ok(exploration),
    }
}

/// The execution of a finding, drawn.
pub fn draw(runner: &mut Runner, scenario: &Scenario, finding: &Finding) -> String {
    let history = replay(runner, &scenario.with_actors(finding.actors), &finding.schedule, Recording::Full);
    timeline::render(&history, finding.actors, Some(&finding.violation))
}
