//! Chooses the executions in which lints are looked for, and prints what they show. The executions
//! are few, and run after an exploration.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::dpor::Dpor;
use super::sampler::{Method, Sampler};
use crate::execution::Runner;
use crate::lint::{Allowance, Warning, warnings};
use crate::oracle::Oracle;
use crate::render::printable;
use crate::replay::replay;
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use crate::sim::Recording;
use crate::trace::{EventKind, History, Script};

/// The number of executions that are drawn.
const DRAWN: u64 = 16;

/// Looks for the [`LINTS`](crate::lint::LINTS) in the code of a scenario, and nothing else.
///
/// It looks at 17 executions within the fault budgets: the first one of an exploration, in which
/// the actors act one after the other, and random ones. [`exhaustive`](crate::exhaustive) and
/// [`sample`](crate::sample) look at these and at the violation that they report. The lints that
/// the scenario allows are left out.
pub fn lints(scenario: &Scenario) -> Vec<Warning> {
    look(&mut Runner::new(), scenario, None).lints
}

/// The habits of the code, as far as a few executions show them.
pub(super) struct Habits {
    /// The lints that the scenario does not allow.
    pub(super) lints: Vec<Warning>,
    /// The lints that it allows.
    pub(super) allowances: Vec<Allowance>,
    /// The scripts that the servers did not know when a client called them first.
    pub(super) unloaded: Vec<String>,
    /// The name of an oracle that looks at commands and does not say so.
    pub(super) sees_no_commands: Option<&'static str>,
}

/// The habits of the code of a scenario. The violation that was found is one of the executions.
pub(super) fn look(runner: &mut Runner, scenario: &Scenario, violation: Option<&Schedule>) -> Habits {
    let violation = violation.map(|schedule| replay(runner, scenario, schedule, Recording::Full));
    let mut histories = Vec::from_iter(violation);
    let mut sees_no_commands = None;
    let mut look_at = |runner: &mut Runner, drawn: &Scenario, executed: &History| {
        let steps = Schedule { steps: executed.steps.clone() };
        let full = replay(runner, drawn, &steps, Recording::Full);
        sees_no_commands = sees_no_commands.or(seeing_more(scenario, executed, &full));
        histories.push(full);
    };
    if let Some(first) = Dpor::default().run_next(runner, scenario) {
        look_at(runner, scenario, &first);
    }
    let mut sampler = Sampler::new(Method::PORTFOLIO, 0);
    for _ in 0..DRAWN {
        let (executed, drawn) = sampler.run(runner, scenario);
        look_at(runner, &drawn, &executed);
    }
    let leases: Vec<Duration> = (0..scenario.actors.len()).map(|actor| scenario.lease_of(actor)).collect();
    let (mut lints, mut allowances) = (warnings(&histories, &leases), scenario.allowances.clone());
    for Allowance { lint, is_fulfilled, .. } in &mut allowances {
        *is_fulfilled = lints.iter().any(|warning| warning.lint.name == lint.name);
    }
    lints.retain(|warning| allowances.iter().all(|allowance| allowance.lint.name != warning.lint.name));
    let unloaded: BTreeSet<String> = histories.iter().flat_map(unloaded).collect();
    Habits { lints, allowances, unloaded: Vec::from_iter(unloaded), sees_no_commands }
}

/// The first oracle that judges an execution only, or finds it wrong only, if all commands are
/// recorded.
fn seeing_more(scenario: &Scenario, seen: &History, full: &History) -> Option<&'static str> {
    let sees_more = |oracle: &&Arc<dyn Oracle>| {
        oracle.check(full).is_some() && oracle.check(seen).is_none()
            || oracle.judges(full) && !oracle.judges(seen)
    };
    scenario.oracles.iter().find(sees_more).map(|oracle| oracle.name())
}

/// The scripts that a server did not know, before a fault can have made it forget them.
fn unloaded(history: &History) -> impl Iterator<Item = String> {
    let is_of_server =
        |kind: &EventKind| matches!(kind, EventKind::Fault { fault, .. } if fault.target.actor().is_none());
    let before = history.events.iter().map(|event| &event.kind).take_while(move |kind| !is_of_server(kind));
    before.filter_map(|kind| match kind {
        EventKind::Command { script: Some(Script { sha, name: None, .. }), .. } => {
            Some(history.scripts.get(sha).unwrap_or(sha).clone())
        }
        _ => None,
    })
}

/// Prints these lints on standard error, and the allowances that are not fulfilled. Prints each
/// only once for a scenario.
pub(super) fn print(scenario: &str, Habits { lints, allowances, .. }: &Habits) {
    static PRINTED: Mutex<BTreeSet<(String, &str)>> = Mutex::new(BTreeSet::new());
    let mut printed = PRINTED.lock().unwrap_or_else(PoisonError::into_inner);
    let unfulfilled = allowances.iter().filter(|allowance| !allowance.is_fulfilled);
    let unfulfilled = unfulfilled.map(|allowance| (allowance.lint.name, allowance.to_string()));
    let warnings = lints.iter().map(|warning| (warning.lint.name, warning.to_string()));
    for (lint, text) in warnings.chain(unfulfilled) {
        if printed.insert((scenario.to_owned(), lint)) {
            eprintln!("{}", printable(&format!("{scenario}: warning: {text}")));
        }
    }
}
