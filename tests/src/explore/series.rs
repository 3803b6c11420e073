//! Runs the schedules of a sample in series, which processes can divide among themselves, and
//! shrinks what they find. `sampler.rs` draws the schedules.

use std::ops::Range;

use super::attempts::with_journal;
use super::coverage::trace_hash;
use super::exploration::Exploration;
use super::journal::Journal;
use super::report::Report;
use super::results::{BranchResult, KeptViolation, Plan, add_to_digest};
use super::sampler::{Method, Sampler};
use super::shard::TRUNK;
use super::stop::Stop;
use crate::execution::Runner;
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use crate::shrink::{ScheduleSize, shrink};
use crate::trace::{HappensBefore, History};

/// The number of schedules in the first series. All other series begin with what is known after it,
/// so they do not depend on each other.
const FIRST: u64 = 100;
/// The number of other series, if there are enough schedules.
const SERIES: u64 = 100;

/// Runs this many random schedules, drawn from a seed, and shrinks what they find.
///
/// # Errors
/// See [`explore_all`](super::explore_all).
pub fn explore_random(
    runner: &mut Runner,
    scenario: &Scenario,
    schedules: u64,
    seed: u64,
) -> Result<Exploration, Box<Report>> {
    draw_shard(runner, scenario, (schedules, seed), &mut Journal::unwritten(scenario))
}

/// Runs the series of a shard.
pub(super) fn draw_shard(
    runner: &mut Runner,
    scenario: &Scenario,
    (schedules, seed): (u64, u64),
    journal: &mut Journal,
) -> Result<Exploration, Box<Report>> {
    with_journal(runner, scenario, journal, |runner, journal| {
        draw_series(runner, scenario, (schedules, seed), journal)
    })
}

/// The first schedule of each series, and the first one after it.
fn series(schedules: u64) -> Vec<Range<u64>> {
    let first = 0..FIRST.min(schedules);
    let size = (schedules - first.end).div_ceil(SERIES).max(1);
    let starts = (first.end..schedules).step_by(size as usize);
    let others = starts.map(|start| start..(start + size).min(schedules));
    std::iter::once(first).chain(others).collect()
}

fn draw_series(
    runner: &mut Runner,
    scenario: &Scenario,
    (schedules, seed): (u64, u64),
    journal: &mut Journal,
) -> Result<Exploration, Stop> {
    let series = series(schedules);
    let actors = scenario.actors.len();
    let (mut sample, mut learner) = (Sample::new(scenario, journal), Sample::unjudged(scenario, journal));
    // Every process needs the first series, to learn from it. One of them has its results.
    let has_first = journal.has_trunk() && journal.done((actors, TRUNK)).is_none();
    let mut first = Sampler::new(Method::PORTFOLIO, seed);
    let drawn = if has_first { &mut sample } else { &mut learner };
    let result = drawn.run(runner, &mut first, series[TRUNK].clone());
    let result = result.map_err(|stop| stop.within((actors, TRUNK), 0))?;
    let plan = Plan { actors, branches: series.len() - 1, digest: drawn.digest.unwrap_or_default() };
    for (_, nth) in journal.plan(plan)? {
        if let Some(done) = journal.done((actors, nth)) {
            sample.resume(runner, done)?;
        } else if nth == TRUNK {
            journal.save(&result)?;
        } else {
            let mut sampler = first.continued(series[nth].start);
            let before = sample.exploration.schedules;
            let result = sample.run(runner, &mut sampler, series[nth].clone());
            let result = result.map_err(|stop| stop.within((actors, nth), before))?;
            journal.save(&BranchResult { nth, ..result })?;
        }
    }
    Ok(sample.exploration)
}

/// The series of one process.
struct Sample<'a> {
    scenario: &'a Scenario,
    exploration: Exploration,
    /// For each oracle, whether its violations are no longer made smaller. The first one that
    /// becomes no smaller than the known one is the last.
    is_over: Vec<bool>,
    /// A hash of all executions, if results are written.
    digest: Option<u64>,
}

impl<'a> Sample<'a> {
    fn new(scenario: &'a Scenario, journal: &Journal) -> Sample<'a> {
        let (exploration, is_over) = (Exploration::default(), vec![false; scenario.oracles.len()]);
        Sample { scenario, exploration, is_over, digest: journal.is_written().then_some(0) }
    }

    /// Draws series without looking for violations.
    fn unjudged(scenario: &'a Scenario, journal: &Journal) -> Sample<'a> {
        Sample { is_over: vec![true; scenario.oracles.len()], ..Sample::new(scenario, journal) }
    }

    /// Runs one series.
    fn run(
        &mut self,
        runner: &mut Runner,
        sampler: &mut Sampler,
        numbers: Range<u64>,
    ) -> Result<BranchResult, Stop> {
        let earlier = std::mem::take(&mut self.exploration.reached);
        let judged_earlier = std::mem::take(&mut self.exploration.judged);
        let before = self.exploration.schedules;
        let mut result = BranchResult { actors: self.scenario.actors.len(), ..BranchResult::default() };
        result.schedules = numbers.end - numbers.start;
        for _ in numbers {
            let (executed, drawn) = sampler.run(runner, self.scenario);
            self.exploration.count(runner, &drawn, &executed)?;
            let happens_before = HappensBefore::of(&executed);
            let trace = trace_hash(&executed, &happens_before);
            self.exploration.coverage.add_hash(trace);
            if let Some(digest) = &mut self.digest {
                *digest = add_to_digest(*digest, &executed);
                result.traces.push(trace);
            }
            self.judge(runner, (&executed, &happens_before), before, &mut result)?;
        }
        result.reached = self.exploration.reached;
        result.judged = self.exploration.judged.iter().map(|&(place, _)| place).collect();
        result.entered = self.exploration.entered.clone();
        self.exploration.reached = earlier.or(result.reached);
        self.exploration.judged.extend(judged_earlier);
        Ok(result)
    }

    /// Shrinks the violations of one execution, unless they cannot become smaller than those that
    /// are known.
    fn judge(
        &mut self,
        runner: &mut Runner,
        (history, happens_before): (&History, &HappensBefore),
        before: u64,
        result: &mut BranchResult,
    ) -> Result<(), Stop> {
        let Sample { scenario, exploration, is_over, .. } = self;
        let oracles = scenario.oracles.iter().zip(is_over).enumerate();
        for (place, (oracle, is_over)) in oracles.filter(|(_, (_, is_over))| !**is_over) {
            let Some(violation) = oracle.check(history) else { continue };
            exploration.note_find(place);
            result.found_after.entry(place).or_insert(exploration.schedules - before);
            let causal_past = happens_before.causal_past(violation.step);
            if exploration.lacks(oracle, ScheduleSize::least(history, &causal_past)) {
                let whole = Schedule { steps: history.steps[..violation.step].to_vec() };
                let found = shrink(runner, scenario, &whole, oracle);
                let found = found.ok_or_else(|| exploration.vanished(scenario, oracle, whole))?;
                let (least, whole) = (found.size(), found.schedule.clone());
                result.violations.push(KeptViolation {
                    oracle: place,
                    least,
                    causal_past: whole.clone(),
                    whole,
                });
                *is_over = !exploration.keep(found);
            }
        }
        Ok(())
    }

    /// Adds the result of a series that an earlier process has run.
    fn resume(&mut self, runner: &mut Runner, done: &BranchResult) -> Result<(), Stop> {
        self.exploration.add(&done.exploration(self.scenario));
        done.traces.iter().for_each(|&trace| _ = self.exploration.coverage.add_hash(trace));
        for (oracle, kept) in done.violations(self.scenario) {
            let found = shrink(runner, self.scenario, &kept.whole, oracle);
            let vanished = || self.exploration.vanished(self.scenario, oracle, kept.whole.clone());
            let found = found.ok_or_else(vanished)?;
            self.exploration.keep(found);
        }
        Ok(())
    }
}
