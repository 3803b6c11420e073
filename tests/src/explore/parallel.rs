//! Organizes an exhaustive exploration: the number of actors, the branches, the cores, and the
//! violations that are found. `dpor.rs` chooses the schedules.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{ScopedJoinHandle, available_parallelism, scope};

use super::{Dpor, Exploration, Stop, determinism, with_all_tries};
use crate::execution::{Mode, Runner};
use crate::explore::{Problem, Report};
use crate::oracle::list;
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use crate::shrink::{ScheduleSize, shrink};

/// If a scenario has more schedules than this, they are divided among branches.
const FEW: u64 = 1_000;
/// The least number of branches. It does not depend on the number of cores, so that every machine
/// finds the same.
const BRANCHES_MIN: usize = 100;

/// Runs every trace, as [`super::exhaustive`] does, and returns the findings as they are.
///
/// If all actors run the same code, it explores one actor first, then two, up to all. If there are
/// many schedules, it divides them among all cores. For each oracle it shrinks the smallest
/// violation that it found, reduced to the steps that it depends on.
///
/// # Errors
/// The code of an actor fails without a fault that explains it, waits for ever, or is
/// nondeterministic.
pub fn explore_all(runner: &mut Runner, scenario: &Scenario) -> Result<Exploration, Box<Report>> {
    Ok(explore(runner, scenario, None)?.0)
}

/// Runs every trace, as [`explore_all`] does, until a number of actors has more than
/// `schedules_max`. Returns also whether that never happened.
///
/// # Errors
/// See [`explore_all`].
pub(crate) fn explore_few(
    runner: &mut Runner,
    scenario: &Scenario,
    schedules_max: u64,
) -> Result<(Exploration, bool), Box<Report>> {
    explore(runner, scenario, Some(schedules_max))
}

fn explore(
    runner: &mut Runner,
    scenario: &Scenario,
    schedules_max: Option<u64>,
) -> Result<(Exploration, bool), Box<Report>> {
    runner.limit_learned();
    runner.learn_thresholds(scenario);
    with_all_tries(runner, |runner| explore_sizes(runner, scenario, schedules_max))
}

/// Runs every trace of each number of actors.
fn explore_sizes(
    runner: &mut Runner,
    scenario: &Scenario,
    schedules_max: Option<u64>,
) -> Result<(Exploration, bool), Stop> {
    let (mut exploration, mut is_whole) = (Exploration::default(), true);
    let all = scenario.actors.len();
    for actors in if scenario.is_uniform() { 1..=all } else { all..=all } {
        let scenario = scenario.with_actors(actors);
        let mut traces = TraceSummary::of(&scenario);
        if !traces.run(runner, &scenario, Dpor::default(), schedules_max.unwrap_or(FEW))? {
            if schedules_max.is_some() {
                is_whole = false;
            } else {
                traces = divide(runner, &scenario)?;
            }
        }
        exploration.add(&traces.exploration);
        for (oracle, violation) in scenario.oracles.iter().zip(traces.violations) {
            let Some(Candidate { least, causal_past, whole }) = violation else { continue };
            if exploration.lacks(oracle, least) {
                let found = shrink(runner, &scenario, &causal_past, oracle);
                let found = found.or_else(|| shrink(runner, &scenario, &whole, oracle));
                exploration.keep(found.ok_or_else(|| exploration.vanished(&scenario, oracle, whole))?);
            }
        }
    }
    Ok((exploration, is_whole))
}

/// The results of all traces of a scenario.
struct TraceSummary {
    exploration: Exploration,
    /// For each oracle, the smallest violation by [`Candidate::least`].
    violations: Vec<Option<Candidate>>,
}

#[derive(Clone)]
struct Candidate {
    /// The least size that the shrunk schedule can have.
    least: ScheduleSize,
    /// The steps that the violation depends on.
    causal_past: Schedule,
    /// All steps up to the violation.
    whole: Schedule,
}

impl TraceSummary {
    fn of(scenario: &Scenario) -> TraceSummary {
        TraceSummary { exploration: Exploration::default(), violations: vec![None; scenario.oracles.len()] }
    }

    /// Runs the remaining schedules, but no more than `schedules_max`. Returns whether all were
    /// run.
    fn run(
        &mut self,
        runner: &mut Runner,
        scenario: &Scenario,
        mut dpor: Dpor,
        schedules_max: u64,
    ) -> Result<bool, Stop> {
        while self.exploration.schedules < schedules_max {
            if !self.run_next(runner, scenario, &mut dpor, |_| {})? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Runs the next schedule. If it ended at the limit of the trunk, passes its branch to
    /// `branch`. Returns whether there was a schedule.
    fn run_next(
        &mut self,
        runner: &mut Runner,
        scenario: &Scenario,
        dpor: &mut Dpor,
        branch: impl FnOnce(Dpor),
    ) -> Result<bool, Stop> {
        let Some(history) = dpor.run_next(runner, scenario) else { return Ok(false) };
        let mode = runner.mode;
        if let Some((expected, enabled)) = dpor.nondeterminism() {
            if mode != Mode::Real {
                let schedules = self.exploration.schedules;
                determinism::expect_the_same_again(runner, scenario, (&history, mode), schedules)?;
            }
            let [once, again] = [expected, enabled].map(|steps| list(steps));
            let what = format!(
                "After these steps, the possible next steps were {once}. When they ran again: {again}.\n"
            );
            let problem =
                Problem::Nondeterminism { what, schedule: Schedule { steps: history.steps.clone() } };
            return Err(self.exploration.report(scenario, problem).into());
        }
        if let Some(rest) = dpor.branch() {
            branch(rest);
            return Ok(true);
        }
        if dpor.is_blocked() {
            self.exploration.blocked += 1;
            return Ok(true);
        }
        self.exploration.count(runner, scenario, &history)?;
        self.exploration.reached.contention |= dpor.happens_before().has_contention(&history);
        for (oracle, known) in scenario.oracles.iter().zip(&mut self.violations) {
            let Some(violation) = oracle.check(&history) else { continue };
            let causal_past = dpor.happens_before().causal_past(violation.step - 1);
            let least = ScheduleSize::least(&history, &causal_past);
            if known.as_ref().is_none_or(|known| least < known.least) {
                if mode != Mode::Real {
                    let schedules = self.exploration.schedules;
                    determinism::expect_the_same_again(runner, scenario, (&history, mode), schedules)?;
                }
                let causal_past =
                    Schedule { steps: causal_past.into_iter().map(|place| history.steps[place]).collect() };
                let whole = Schedule { steps: history.steps[..violation.step].to_vec() };
                *known = Some(Candidate { least, causal_past, whole });
            }
        }
        Ok(true)
    }

    fn add(&mut self, other: TraceSummary) {
        self.exploration.add(&other.exploration);
        for (known, violation) in self.violations.iter_mut().zip(other.violations) {
            let least = |violation: &Option<Candidate>| violation.as_ref().map(|violation| violation.least);
            if least(known).is_none_or(|known| least(&violation).is_some_and(|least| least < known)) {
                *known = violation;
            }
        }
    }
}

/// A part of the exploration, until a worker takes it.
type Branch = Mutex<Option<Dpor>>;

/// Adds choices to the trunk until there are enough branches. Returns the traces that ended within
/// the trunk, and the branches.
fn branch(runner: &mut Runner, scenario: &Scenario) -> Result<(TraceSummary, Vec<Branch>), Stop> {
    let mut choices = 1;
    loop {
        let (mut traces, mut trunk, mut branches) =
            (TraceSummary::of(scenario), Dpor::trunk(choices), Vec::new());
        let mut keep = |branch| branches.push(Mutex::new(Some(branch)));
        while traces.run_next(runner, scenario, &mut trunk, &mut keep)? {}
        if branches.is_empty() || branches.len() >= BRANCHES_MIN {
            return Ok((traces, branches));
        }
        choices += 1;
    }
}

/// Runs every trace, branch by branch, on all cores.
fn divide(runner: &mut Runner, scenario: &Scenario) -> Result<TraceSummary, Stop> {
    let (mut traces, branches) = branch(runner, scenario)?;
    let next = AtomicUsize::new(0);
    let take = || {
        let nth = next.fetch_add(1, Ordering::Relaxed);
        let branch = branches.get(nth)?.lock().unwrap_or_else(PoisonError::into_inner).take();
        Some((nth, branch?))
    };
    let work = |mut runner: Runner| {
        let mut done = Vec::new();
        while let Some((nth, branch)) = take() {
            let mut traces = TraceSummary::of(scenario);
            let result = traces.run(&mut runner, scenario, branch, u64::MAX);
            done.push((nth, result.map(|_| traces)));
        }
        (runner, done)
    };
    let workers: Vec<_> = scope(|scope| {
        let runners = (0..available_parallelism().map_or(1, usize::from)).map(|_| runner.fork());
        let workers: Vec<_> = runners.map(|runner| scope.spawn(|| work(runner))).collect();
        let joined = workers.into_iter().map(ScopedJoinHandle::join);
        joined.map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let (runners, done): (Vec<Runner>, Vec<_>) = workers.into_iter().unzip();
    runner.adopt(runners);
    let mut done: Vec<_> = done.into_iter().flatten().collect();
    done.sort_unstable_by_key(|&(nth, _)| nth);
    // The branches share what is known of the code. Others may have run differently since.
    if done.iter().any(|(_, branch)| matches!(branch, Err(Stop::KnowsMore))) {
        return Err(Stop::KnowsMore);
    }
    for (_, branch) in done {
        traces.add(branch?);
    }
    Ok(traces)
}
