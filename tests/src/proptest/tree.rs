//! Shrinks the trials of `proptest`. If an oracle is violated, `crate::shrink` simplifies the
//! schedule, and this file only the parameters.

use std::sync::Arc;

use ::proptest::strategy::ValueTree;

use super::parameters::Parameters;
use super::trial::{Make, RUNNER, Trial};
use crate::execution::Runner;
use crate::fault::{Amounts, Fault};
use crate::oracle::{Oracle, Success};
use crate::replay::replay;
use crate::scenario::Scenario;
use crate::schedule::{Schedule, Step};
use crate::shrink::{Finding, shrink};

/// A trial, and how it shrinks.
///
/// If the trial violates an oracle, it shrinks completely in one step. If the test fails for
/// another reason, smaller and smaller pieces of the schedule are left out.
pub struct TrialTree<T> {
    /// `None` if the trial comes from a regression file: its parameters are shrunk already.
    parameters: Option<T>,
    make: Make,
    /// The simplest trial that is known to fail.
    best: Trial,
    /// The trial that runs now.
    current: Trial,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
    Drawn,
    /// The trial was shrunk as far as the oracle allows.
    Shrunk,
    /// The place and length of the next piece to leave out, and whether any piece of that length
    /// could be left out.
    Pieces {
        at: usize,
        len: usize,
        has_shrunk: bool,
    },
}

impl<T: ValueTree<Value = Parameters>> TrialTree<T> {
    pub(super) fn new(parameters: Option<T>, make: Make, trial: Trial) -> TrialTree<T> {
        TrialTree { parameters, make, best: trial.clone(), current: trial, stage: Stage::Drawn }
    }

    /// The simplest trial that violates the same oracle; `None` if no oracle is violated.
    fn shrunk(&mut self) -> Option<Trial> {
        RUNNER.with_borrow_mut(|runner| {
            let Trial { mut parameters, mut scenario, schedule } = self.best.clone();
            let name = violated(runner, &scenario, &schedule)?;
            let mut found = shrink_by(runner, &scenario, &schedule, name)?;
            let mut is_simpler = self.parameters.as_mut().is_some_and(ValueTree::simplify);
            while is_simpler && let Some(tree) = &mut self.parameters {
                let simpler = tree.current();
                let of_simpler = (self.make)(&simpler);
                let schedule = translated(&found.schedule, &scenario, &of_simpler);
                let costs = |found: &Finding| (found.cost.faults, found.cost.actors);
                let other = shrink_by(runner, &of_simpler, &schedule, name)
                    .filter(|other| costs(other) <= costs(&found));
                is_simpler = match other {
                    Some(other) => {
                        (parameters, scenario, found) = (simpler, of_simpler, other);
                        tree.simplify()
                    }
                    None => tree.complicate(),
                };
            }
            Some(Trial { parameters, scenario, schedule: found.schedule })
        })
    }

    /// Selects the next trial. Returns `false` if there is none; then the current trial is one that
    /// fails.
    fn next(&mut self) -> bool {
        if matches!(self.stage, Stage::Drawn) {
            if let Some(shrunk) = self.shrunk() {
                (self.current, self.stage) = (shrunk, Stage::Shrunk);
                return true;
            }
            self.stage = pieces_of(self.best.schedule.steps.len());
        }
        self.current = self.best.clone();
        let steps = &mut self.current.schedule.steps;
        let Stage::Pieces { mut at, mut len, mut has_shrunk } = self.stage else { return false };
        if at >= steps.len() {
            // Single steps are tried again as long as one could be left out.
            let is_over = len <= 1 && !has_shrunk;
            if is_over || steps.is_empty() {
                return false;
            }
            (at, len, has_shrunk) = (0, (len / 2).max(1), false);
        }
        steps.drain(at..(at + len).min(steps.len()));
        self.stage = Stage::Pieces { at, len, has_shrunk };
        true
    }
}

impl<T: ValueTree<Value = Parameters>> ValueTree for TrialTree<T> {
    type Value = Trial;

    fn current(&self) -> Trial {
        self.current.clone()
    }

    /// The current trial failed.
    fn simplify(&mut self) -> bool {
        self.best = self.current.clone();
        if let Stage::Pieces { has_shrunk, .. } = &mut self.stage {
            *has_shrunk = true;
        }
        self.next()
    }

    /// The current trial did not fail.
    fn complicate(&mut self) -> bool {
        self.stage = match self.stage {
            Stage::Drawn => self.stage,
            Stage::Shrunk => pieces_of(self.best.schedule.steps.len()),
            Stage::Pieces { at, len, has_shrunk } => Stage::Pieces { at: at + len, len, has_shrunk },
        };
        self.next()
    }
}

fn pieces_of(len: usize) -> Stage {
    Stage::Pieces { at: 0, len, has_shrunk: false }
}

/// The name of the first oracle that a run violates.
fn violated(runner: &mut Runner, scenario: &Scenario, schedule: &Schedule) -> Option<&'static str> {
    let history = replay(runner, scenario, schedule, scenario.recording());
    let is_violated = |oracle: &&Arc<dyn Oracle>| oracle.check(&history).is_some();
    if Success.check(&history).is_some() {
        return Some(Success.name());
    }
    scenario.oracles().find(is_violated).map(|oracle| oracle.name())
}

fn shrink_by(runner: &mut Runner, scenario: &Scenario, schedule: &Schedule, name: &str) -> Option<Finding> {
    let success: Arc<dyn Oracle> = Arc::new(Success);
    let oracle = scenario.oracles().chain([&success]).find(|oracle| oracle.name() == name)?;
    shrink(runner, scenario, schedule, oracle)
}

/// The schedule for a scenario with another lease and other clock errors.
fn translated(schedule: &Schedule, from: &Scenario, to: &Scenario) -> Schedule {
    let step = |step: &Step| match *step {
        step if step.time_moved().is_some_and(|span| span >= from.lease) => {
            let span = step.time_moved().unwrap_or_default();
            step.with_time_moved(span - from.lease + to.lease)
        }
        Step::Fault(fault) => {
            let Amounts::Of(amounts) = fault.kind.row().amounts else { return *step };
            let nth = amounts(&from.faults).iter().position(|&amount| amount == fault.amount);
            let amount = nth.and_then(|nth| amounts(&to.faults).get(nth).copied());
            Step::Fault(Fault { amount: amount.unwrap_or(fault.amount), ..fault })
        }
        step => step,
    };
    Schedule { steps: schedule.steps.iter().map(step).collect() }
}
