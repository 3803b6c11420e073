//! Chooses the executions in which lints are looked for, and prints what they show. The executions
//! are few, and run after an exploration.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::{Dpor, Method, Sampler};
use crate::execution::Runner;
use crate::lint::{Warning, warnings};
use crate::render::printable;
use crate::replay::replay;
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use crate::sim::Recording;
use crate::trace::History;

/// The number of executions that are drawn.
const DRAWN: u64 = 16;

/// Looks for the [`LINTS`](crate::lint::LINTS) in the code of a scenario, and nothing else.
///
/// It looks at 17 executions within the fault budgets: the first one of an exploration, in which
/// the actors act one after the other, and random ones. [`exhaustive`](crate::exhaustive) and
/// [`sample`](crate::sample) look at these and at the violation that they report.
pub fn lints(scenario: &Scenario) -> Vec<Warning> {
    look(&mut Runner::new(), scenario, None)
}

/// The lints of a scenario, and of the violation that was found.
pub(super) fn look(runner: &mut Runner, scenario: &Scenario, violation: Option<&Schedule>) -> Vec<Warning> {
    let violation = violation.map(|schedule| replay(runner, scenario, schedule, Recording::Full));
    let mut histories = Vec::from_iter(violation);
    let steps = |history: &History| Schedule { steps: history.steps.clone() };
    if let Some(first) = Dpor::default().run_next(runner, scenario) {
        histories.push(replay(runner, scenario, &steps(&first), Recording::Full));
    }
    let mut sampler = Sampler::new(Method::PORTFOLIO, 0);
    for _ in 0..DRAWN {
        let (history, drawn) = sampler.run(runner, scenario);
        histories.push(replay(runner, &drawn, &steps(&history), Recording::Full));
    }
    warnings(&histories)
}

/// Prints these warnings on standard error, each only once for a scenario.
pub(super) fn print(scenario: &str, warnings: &[Warning]) {
    static PRINTED: Mutex<BTreeSet<(String, &str)>> = Mutex::new(BTreeSet::new());
    let mut printed = PRINTED.lock().unwrap_or_else(PoisonError::into_inner);
    for warning in warnings {
        if printed.insert((scenario.to_owned(), warning.lint.name)) {
            eprintln!("{}", printable(&format!("{scenario}: warning: {warning}")));
        }
    }
}
