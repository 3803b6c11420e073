//! Runs many schedules of a scenario and judges them. Each strategy is a policy in its own file;
//! the other files serve them all.

mod shard;
mod failure;
mod report;
mod stop;
mod determinism;
mod vacuous;
mod retry_probe;
mod livelock_search;
mod coverage;
mod exploration;
mod summary;
mod single;
mod access_profile;
mod timer_probe;
mod brute_force;
mod dpor;
mod random_walk;
mod pct;
mod pos;
mod uniform_walk;
mod sampler;
mod lints;
mod results;
mod whole;
mod division;
mod journal;
mod progress;
mod attempts;
mod parallel;
mod series;
mod judge;

use std::io::Write as _;

pub use access_profile::AccessProfile;
pub use brute_force::DepthFirst;
pub use coverage::Coverage;
pub use division::{Division, DivisionError, JOBS_VARIABLE, RESULTS_VARIABLE, SHARD_VARIABLE};
pub use dpor::Dpor;
pub use exploration::Exploration;
pub use failure::Failure;
pub use lints::lints;
pub use parallel::explore_all;
pub(crate) use parallel::explore_few;
pub use pct::Pct;
pub use pos::Pos;
pub use random_walk::RandomWalk;
pub use report::{Problem, Report, render_finding};
pub use results::{BranchResult, Ending, Origin, Plan, RESULTS_EXTENSION, Results, ResultsError};
pub use sampler::{Method, Sampler};
pub use series::explore_random;
pub use shard::{BranchId, Shard, ShardError};
pub use timer_probe::probe_timers;
pub use uniform_walk::UniformWalk;

use crate::execution::{Policy, Runner};
use crate::render::printable;
use crate::scenario::Scenario;
use crate::sim::Recording;
use crate::trace::History;
use journal::Journal;
pub(crate) use judge::judge_one;
use lints::Habits;
use parallel::Until;
use progress::Progress;

/// Runs every trace of the scenario within its fault budgets, or until an oracle is violated.
///
/// A trace is all schedules that differ only in the order of independent steps. One schedule of
/// each trace is run. If `LOCKSTEP_SHARD` is set, it runs one shard of them, and `LOCKSTEP_JOBS`
/// sets how many run at the same time: see [`Division::from_env`].
///
/// If all actors run the same code, it begins with one actor, and adds others. It ends at the
/// number of actors at which an oracle is violated. If a number of actors has more than a thousand
/// schedules, it ends at the first violation after those. Shards do the same, and `lockstep merge`
/// reports what one process would.
///
/// If standard error is a terminal and the exploration takes long, it prints there how far it is.
///
/// # Errors
/// - An oracle is violated. The report holds the first such oracle, and the shortest of its
///   violations that were found.
/// - Something that had to happen never happened. If no schedule can make it happen, none is run.
/// - The code of an actor fails, waits for ever, or is nondeterministic.
pub fn exhaustive(scenario: &Scenario) -> Result<Exploration, Box<Report>> {
    exhaustive_shard(scenario, &Division::of_process(scenario)?)
}

/// Runs this many random schedules, drawn from a seed, with the methods of [`Method::PORTFOLIO`] in
/// turn. If `LOCKSTEP_SHARD` is set, it runs one shard of them: see [`Division::from_env`].
///
/// # Errors
/// See [`exhaustive`].
pub fn sample(scenario: &Scenario, schedules: u64, seed: u64) -> Result<Exploration, Box<Report>> {
    sample_shard(scenario, schedules, seed, &Division::of_process(scenario)?)
}

/// Runs one shard of [`exhaustive`].
///
/// If there are few schedules, one shard has all of them, and the others nothing. Passes that mean
/// nothing are found when `lockstep merge` joins the results of all shards.
///
/// # Errors
/// - As for [`exhaustive`], by the schedules of this shard. Only the whole can
///   be vacuous.
/// - The folder for results cannot be used, or has results of another exploration.
pub fn exhaustive_shard(scenario: &Scenario, division: &Division) -> Result<Exploration, Box<Report>> {
    explore_division(scenario, division, "exhaustive", |runner, journal| {
        let progress = Progress::shown(scenario);
        parallel::explore_shard(runner, scenario, journal, (Until::FirstFind, &progress))
    })
}

/// Runs one shard of [`sample`].
///
/// # Errors
/// See [`exhaustive_shard`].
pub fn sample_shard(
    scenario: &Scenario,
    schedules: u64,
    seed: u64,
    division: &Division,
) -> Result<Exploration, Box<Report>> {
    let method = format!("sample of {schedules} with seed {seed}");
    explore_division(scenario, division, &method, |runner, journal| {
        series::draw_shard(runner, scenario, (schedules, seed), journal)
    })
}

/// Runs one execution and judges it, without shrinking. It serves callers with schedules of their
/// own, such as `proptest`.
///
/// # Errors
/// - An oracle is violated. The report names the first one.
/// - The code of an actor fails or waits for ever.
pub fn run(
    runner: &mut Runner,
    scenario: &Scenario,
    policy: &mut dyn Policy,
) -> Result<History, Box<Report>> {
    let executed = runner.run(scenario, policy, Recording::Full);
    judge_one(runner, scenario, executed.into_history())
}

/// Explores the part of a scenario that this division has, judges it, and looks at the habits of
/// the code.
fn explore_division(
    scenario: &Scenario,
    division: &Division,
    method: &str,
    explore: impl FnOnce(&mut Runner, &mut Journal) -> Result<Exploration, Box<Report>>,
) -> Result<Exploration, Box<Report>> {
    if let Some(missing) = vacuous::known_before(scenario) {
        return Err(Box::new(Report::new(scenario, Problem::Vacuous(missing), 0)));
    }
    let (mut runner, mut journal) = (Runner::new(), Journal::open(division, scenario, method)?);
    let explored = explore(&mut runner, &mut journal);
    let judged = explored.and_then(|exploration| {
        if let Some(note) = journal.note(exploration.schedules) {
            // Tests hide what they print by macros if they pass.
            _ = writeln!(std::io::stderr(), "{}", printable(&note));
        }
        let judged = judge::judge_all(&mut runner, scenario, exploration, division.shard);
        let violation = judged.as_ref().err().and_then(|report| report.schedule());
        let habits = lints::look(&mut runner, scenario, violation);
        lints::print(&scenario.name, &habits);
        let Habits { lints, allowances, unloaded, sees_no_commands } = habits;
        let judged = match (sees_no_commands, judged) {
            (Some(oracle), Ok(Exploration { schedules, .. })) => {
                let problem = Problem::Vacuous(vacuous::blind(oracle));
                Err(Box::new(Report::new(scenario, problem, schedules)))
            }
            (Some(oracle), Err(report)) if matches!(report.problem, Problem::Vacuous(_)) => {
                Err(Box::new(Report { problem: Problem::Vacuous(vacuous::blind(oracle)), ..*report }))
            }
            (_, judged) => judged,
        };
        match judged {
            Ok(exploration) => Ok(Exploration { lints, allowances, unloaded, ..exploration }),
            Err(report) => Err(Box::new(Report { lints, allowances, ..*report })),
        }
    });
    journal.end(judged.as_ref().err().map(|report| &**report))?;
    judged
}
