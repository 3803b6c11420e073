//! Organizes an exhaustive exploration: the number of actors, the branches, the cores, and the
//! violations that are found. `dpor.rs` chooses the schedules.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, ScopedJoinHandle, scope};

use super::attempts::{with_all_tries, with_journal};
use super::determinism;
use super::dpor::Dpor;
use super::exploration::Exploration;
use super::journal::Journal;
use super::progress::Progress;
use super::report::{Problem, Report};
use super::results::{BranchResult, KeptViolation, Plan, add_to_digest};
use super::shard::{BranchId, TRUNK};
use super::stop::Stop;
use crate::execution::{Mode, Runner};
use crate::fingerprint::fingerprint;
use crate::oracle::list;
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use crate::shrink::{ScheduleSize, holds_of_whole, shrink};

/// If a scenario has more schedules than this, they are divided among branches.
const FEW: u64 = 1_000;
/// The least number of branches. It does not depend on the number of cores or processes, so that
/// all find the same. A thread takes a branch when it has time, but which process has a branch is
/// decided before. So processes need many branches for equal loads.
const BRANCHES_MIN: usize = 1_000;

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
    explore_shard(
        runner,
        scenario,
        &mut Journal::unwritten(scenario),
        (Until::End, &Progress::silent(scenario)),
    )
}

/// When an exploration ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// All traces have been run.
    End,
    /// An oracle is violated. If a number of actors has few schedules, all of them are run, so that
    /// the smallest violation among them is found.
    FirstFind,
}

/// Runs the branches of a shard.
pub(super) fn explore_shard(
    runner: &mut Runner,
    scenario: &Scenario,
    journal: &mut Journal,
    (until, progress): (Until, &Progress),
) -> Result<Exploration, Box<Report>> {
    with_journal(runner, scenario, journal, |runner, journal| {
        progress.begin();
        explore_sizes(runner, scenario, until, |runner, scenario| {
            if journal.is_over_before((scenario.actors.len(), TRUNK)) {
                return Ok(TraceSummary::of(scenario));
            }
            explore_size(runner, scenario, journal, (until, progress))
        })
    })
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
    runner.limit_learned();
    runner.learn_thresholds(scenario);
    with_all_tries(
        runner,
        scenario,
        |(found, _)| found,
        |runner| {
            let mut is_whole = true;
            let explored = explore_sizes(runner, scenario, Until::End, |runner, scenario| {
                let mut traces = TraceSummary::of(scenario);
                // More actors have more schedules.
                is_whole = is_whole && traces.run(runner, scenario, &mut Dpor::default(), schedules_max)?;
                Ok(traces)
            });
            Ok((explored?, is_whole))
        },
    )
}

/// Explores each number of actors by `explore`, and shrinks the smallest violations.
fn explore_sizes(
    runner: &mut Runner,
    scenario: &Scenario,
    until: Until,
    mut explore: impl FnMut(&mut Runner, &Scenario) -> Result<TraceSummary, Stop>,
) -> Result<Exploration, Stop> {
    let mut exploration = Exploration::default();
    let all = scenario.actors.len();
    for actors in if scenario.is_uniform() { 1..=all } else { all..=all } {
        let scenario = scenario.with_actors(actors);
        let traces = explore(runner, &scenario).map_err(|stop| stop.after(exploration.schedules))?;
        exploration.add(&traces.exploration);
        for (oracle, violation) in scenario.oracles.iter().zip(traces.violations) {
            let Some(Candidate { least, causal_past, whole }) = violation else { continue };
            if exploration.lacks(oracle, least) {
                let found = shrink(runner, &scenario, &causal_past, oracle);
                let found = found.or_else(|| shrink(runner, &scenario, &whole, oracle));
                exploration.keep(found.ok_or_else(|| exploration.vanished(&scenario, oracle, whole))?);
            }
        }
        if until == Until::FirstFind && !exploration.findings.is_empty() {
            break;
        }
    }
    Ok(exploration)
}

/// Runs the branches of a shard for one number of actors.
fn explore_size(
    runner: &mut Runner,
    scenario: &Scenario,
    journal: &mut Journal,
    (until, progress): (Until, &Progress),
) -> Result<TraceSummary, Stop> {
    // Every process needs the trial and the trunk, to know the branches. All of them end at a
    // violation there, and one of them has the results.
    let actors = scenario.actors.len();
    let mut trunk = TraceSummary { digest: journal.is_written().then_some(0), ..TraceSummary::of(scenario) };
    if journal.done((actors, TRUNK)).is_some_and(|done| done.violations.is_empty()) {
        trunk.violations.clear();
    }
    let mut branches = trunk_of(runner, scenario, &mut trunk, (until, progress))
        .map_err(|stop| stop.within((actors, TRUNK), 0))?;
    let digest = trunk.digest.unwrap_or_default();
    let own = journal.plan(Plan { actors, branches: branches.len(), digest })?;
    if until == Until::FirstFind && trunk.is_violated() {
        if own.contains(&(actors, TRUNK)) && journal.done((actors, TRUNK)).is_none() {
            journal.save(&trunk.result((actors, TRUNK)))?;
        }
        trunk.exploration.ended_at = Some((actors, TRUNK));
        return Ok(trunk);
    }
    let probed = trunk.exploration.continued();
    let (mut traces, mut open, mut violated) = (TraceSummary::of(scenario), Vec::new(), None);
    for id @ (_, nth) in own {
        if let Some(done) = journal.done(id) {
            let done = TraceSummary::resumed(scenario, done);
            if until == Until::FirstFind && done.is_violated() {
                violated = Some((id, done));
                break;
            }
            traces.add(done);
        } else if nth == TRUNK {
            journal.save(&trunk.result(id))?;
            traces.add(std::mem::replace(&mut trunk, TraceSummary::of(scenario)));
        } else {
            open.push((id, Mutex::new(Some(std::mem::take(&mut branches[nth - 1])))));
        }
    }
    let branches = run_branches(runner, scenario, (&open, &probed), journal, (until, progress));
    traces.add(branches.map_err(|stop| stop.after(traces.exploration.schedules))?);
    if let Some((id, violated)) = violated.filter(|_| traces.exploration.ended_at.is_none()) {
        traces.add(violated);
        traces.exploration.ended_at = Some(id);
    }
    Ok(traces)
}

/// Runs the trial and the trunk. Returns the branches. There are none if the trial has all
/// schedules, or if it is over.
fn trunk_of(
    runner: &mut Runner,
    scenario: &Scenario,
    trunk: &mut TraceSummary,
    (until, progress): (Until, &Progress),
) -> Result<Vec<Dpor>, Stop> {
    let mut trial = Dpor::default();
    // The first schedules tell how many there are.
    let is_tried = |traces: &TraceSummary| {
        progress.note(scenario.actors.len());
        traces.exploration.schedules >= FEW
    };
    let is_whole = trunk.run_until(runner, scenario, &mut trial, is_tried)?;
    let is_over = |trunk: &TraceSummary| until == Until::FirstFind && trunk.is_violated();
    if is_whole || is_over(trunk) {
        return Ok(Vec::new());
    }
    let branches = branch(runner, scenario, (&trial, trunk))?;
    Ok(if is_over(trunk) { Vec::new() } else { branches })
}

/// The results of all traces of a scenario.
struct TraceSummary {
    exploration: Exploration,
    /// For each oracle, the smallest violation by [`Candidate::least`]. It is empty if an earlier
    /// process has found that there is none.
    violations: Vec<Option<Candidate>>,
    /// A hash of all executions, if results are written.
    digest: Option<u64>,
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
        let violations = vec![None; scenario.oracles.len()];
        TraceSummary { exploration: Exploration::default(), violations, digest: None }
    }

    /// No traces yet, of an exploration that continues this one.
    fn continued(&self) -> TraceSummary {
        TraceSummary {
            exploration: self.exploration.continued(),
            violations: vec![None; self.violations.len()],
            digest: self.digest.map(|_| 0),
        }
    }

    /// The traces of a branch that an earlier process has run.
    fn resumed(scenario: &Scenario, done: &BranchResult) -> TraceSummary {
        let mut traces =
            TraceSummary { exploration: done.exploration(scenario), ..TraceSummary::of(scenario) };
        for KeptViolation { oracle, least, causal_past, whole } in done.violations.iter().cloned() {
            if let Some(known) = traces.violations.get_mut(oracle) {
                *known = Some(Candidate { least, causal_past, whole });
            }
        }
        traces
    }

    /// The result of a branch that has these traces.
    fn result(&self, (actors, nth): BranchId) -> BranchResult {
        let Exploration { schedules, blocked, reached, ref judged, ref entered, .. } = self.exploration;
        let judged = judged.iter().map(|&(place, _)| place).collect();
        let violations = self.violations.iter().enumerate().filter_map(|(oracle, violation)| {
            let Candidate { least, causal_past, whole } = violation.clone()?;
            Some(KeptViolation { oracle, least, causal_past, whole })
        });
        let (violations, traces) = (violations.collect(), Vec::new());
        let (entered, found_after) = (entered.clone(), self.exploration.found_after.clone());
        BranchResult {
            actors,
            nth,
            schedules,
            blocked,
            reached,
            judged,
            entered,
            found_after,
            violations,
            traces,
        }
    }

    /// Whether an oracle was violated.
    fn is_violated(&self) -> bool {
        self.violations.iter().any(Option::is_some)
    }

    /// Runs the remaining schedules, but no more than `schedules_max`. Returns whether all were
    /// run.
    fn run(
        &mut self,
        runner: &mut Runner,
        scenario: &Scenario,
        dpor: &mut Dpor,
        schedules_max: u64,
    ) -> Result<bool, Stop> {
        self.run_until(runner, scenario, dpor, |traces| traces.exploration.schedules >= schedules_max)
    }

    /// Runs the remaining schedules until this is over. Returns whether all were run.
    fn run_until(
        &mut self,
        runner: &mut Runner,
        scenario: &Scenario,
        dpor: &mut Dpor,
        is_over: impl Fn(&TraceSummary) -> bool,
    ) -> Result<bool, Stop> {
        while !is_over(self) {
            if !self.run_next(runner, scenario, dpor, |_| {})? {
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
        let Some(executed) = dpor.run_next(runner, scenario) else { return Ok(false) };
        self.digest = self.digest.map(|digest| add_to_digest(digest, &executed));
        if let Some((expected, enabled)) = dpor.nondeterminism() {
            if executed.mode != Mode::Real {
                let schedules = self.exploration.schedules;
                determinism::expect_the_same_again(runner, scenario, &executed, schedules)?;
            }
            let [once, again] =
                [expected, enabled].map(|steps| if steps.is_empty() { "none".into() } else { list(steps) });
            let what = format!(
                "After these steps, the possible next steps were {once}. When they ran again: {again}.\n"
            );
            let problem =
                Problem::Nondeterminism { what, schedule: Schedule { steps: executed.steps.clone() } };
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
        self.exploration.count(runner, scenario, &executed)?;
        self.exploration.reached.contention |= dpor.happens_before().has_contention(&executed);
        for (place, (oracle, known)) in scenario.oracles.iter().zip(&mut self.violations).enumerate() {
            let Some(violation) = oracle.check(&executed) else { continue };
            let causal_past = dpor.happens_before().causal_past(violation.step);
            let least = ScheduleSize::least(&executed, &causal_past);
            let steps = &executed.steps[..violation.step];
            if known.as_ref().is_none_or(|known| least < known.least)
                && holds_of_whole(runner, scenario, steps, &**oracle)
            {
                self.exploration.note_find(place);
                if executed.mode != Mode::Real {
                    let schedules = self.exploration.schedules;
                    determinism::expect_the_same_again(runner, scenario, &executed, schedules)?;
                }
                let causal_past =
                    Schedule { steps: causal_past.into_iter().map(|place| executed.steps[place]).collect() };
                let whole = Schedule { steps: steps.to_vec() };
                *known = Some(Candidate { least, causal_past, whole });
            }
        }
        Ok(true)
    }

    fn add(&mut self, other: TraceSummary) {
        self.exploration.add(&other.exploration);
        self.digest = self.digest.map(|digest| fingerprint((digest, other.digest)));
        for (known, violation) in self.violations.iter_mut().zip(other.violations) {
            let least = |violation: &Option<Candidate>| violation.as_ref().map(|violation| violation.least);
            if least(known).is_none_or(|known| least(&violation).is_some_and(|least| least < known)) {
                *known = violation;
            }
        }
    }
}

/// Divides what a trial has left. Adds choices to the trunk until there are enough branches, or
/// most executions end within the trunk. Adds their traces to those of the trial, and returns the
/// branches.
fn branch(
    runner: &mut Runner,
    scenario: &Scenario,
    (trial, traces): (&Dpor, &mut TraceSummary),
) -> Result<Vec<Dpor>, Stop> {
    let (mut within, mut branches) = (traces.continued(), trial.divide(0).1.into_iter().collect());
    let mut before = Dpor::default();
    for choices in 1.. {
        let mut longer = Vec::new();
        for branch in branches {
            let (mut trunk, begun) = Dpor::divide(&branch, choices);
            trunk.follow(before);
            longer.extend(begun);
            let mut next = || {
                let ran = within.run_next(runner, scenario, &mut trunk, |branch| longer.push(branch));
                ran.map_err(|stop| stop.after(traces.exploration.schedules))
            };
            while next()? {}
            before = trunk;
        }
        branches = longer;
        let Exploration { schedules, blocked, .. } = within.exploration;
        if branches.len() >= BRANCHES_MIN || branches.len() as u64 <= schedules + blocked {
            break;
        }
    }
    traces.add(within);
    Ok(branches)
}

/// A branch, until a worker takes it.
type OpenBranch = (BranchId, Mutex<Option<Dpor>>);

/// Runs every trace of these branches, on all cores.
fn run_branches(
    runner: &mut Runner,
    scenario: &Scenario,
    (branches, probed): (&[OpenBranch], &Exploration),
    journal: &Journal,
    (until, progress): (Until, &Progress),
) -> Result<TraceSummary, Stop> {
    let mut traces = TraceSummary::of(scenario);
    if branches.is_empty() {
        return Ok(traces);
    }
    progress.branch(branches.len());
    // No branch after this one counts: the result is the same on any number of cores.
    let last = AtomicUsize::new(usize::MAX);
    let next = AtomicUsize::new(0);
    let take = || {
        let (id, branch) = branches.get(next.fetch_add(1, Ordering::Relaxed))?;
        let is_open = id.1 <= last.load(Ordering::Relaxed) && !journal.is_over_before(*id);
        is_open.then_some((*id, branch.lock().unwrap_or_else(PoisonError::into_inner).take()?))
    };
    let work = |mut runner: Runner| {
        let (mut done, mut probed) = (Vec::new(), probed.continued());
        let mut before = Dpor::default();
        while let Some((id, mut branch)) = take() {
            branch.follow(before);
            let mut traces = TraceSummary { exploration: probed, ..TraceSummary::of(scenario) };
            let ends = |traces: &TraceSummary| {
                let is_found = until == Until::FirstFind && traces.is_violated();
                progress.note(id.0);
                is_found || last.load(Ordering::Relaxed) < id.1
            };
            let result = traces.run_until(&mut runner, scenario, &mut branch, ends);
            if until == Until::FirstFind && (result.is_err() || traces.is_violated()) {
                last.fetch_min(id.1, Ordering::Relaxed);
            }
            progress.branch_done();
            let saved = result.and_then(|is_whole| {
                // A branch that ended because it no longer counts has no result.
                let is_done = is_whole || traces.is_violated();
                if is_done {
                    journal.save(&traces.result(id))?;
                }
                Ok(())
            });
            probed = traces.exploration.continued();
            done.push((id, saved.map(|()| traces).map_err(|stop| stop.within(id, 0))));
            before = branch;
        }
        (runner, done)
    };
    let workers = on_threads(runner, journal.jobs().min(branches.len()), work);
    let (runners, done): (Vec<Runner>, Vec<_>) = workers.into_iter().unzip();
    runner.adopt(runners);
    let mut done: Vec<_> = done.into_iter().flatten().collect();
    done.sort_unstable_by_key(|&(id, _)| id);
    // The branches share what is known of the code. Others may have run differently since.
    if done.iter().any(|(_, branch)| matches!(branch, Err(Stop::KnowsMore))) {
        return Err(Stop::KnowsMore);
    }
    let last = last.into_inner();
    for (_, branch) in done.into_iter().filter(|&((_, nth), _)| nth <= last) {
        traces.add(branch.map_err(|stop| stop.after(traces.exploration.schedules))?);
    }
    traces.exploration.ended_at = (last < usize::MAX).then_some((scenario.actors.len(), last));
    Ok(traces)
}

/// Runs `work` on `count` threads, this one among them. The system may refuse threads to a process:
/// then the others have more to do.
fn on_threads<R: Send>(runner: &Runner, count: usize, work: impl Fn(Runner) -> R + Sync) -> Vec<R> {
    scope(|scope| {
        let others = (1..count).map(|_| runner.fork());
        let started = others.map(|runner| Builder::new().spawn_scoped(scope, || work(runner)));
        let started: Vec<_> = started.flatten().collect();
        let own = work(runner.fork());
        let joined = started.into_iter().map(ScopedJoinHandle::join);
        let joined = joined.map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        std::iter::once(own).chain(joined).collect()
    })
}
