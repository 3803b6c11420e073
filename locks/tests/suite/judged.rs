//! Scenarios whose clients judge by themselves: they panic if they see what must not be.

use harness::oracle::{Oracle, Violation};
use harness::trace::{EventKind, History};
use harness::{Client, Scenario, exhaustive};

use super::rewritten::Change;

/// Has something to judge where a client has judged. The panic of a client is a violation by
/// itself.
#[derive(Clone, Debug)]
pub(crate) struct Judged;

const JUDGED: &str = "judged";

/// The client has seen what it judges.
pub(crate) fn note(client: &Client) {
    client.accepted(JUDGED, 0);
}

impl Oracle for Judged {
    fn name(&self) -> &'static str {
        JUDGED
    }

    fn judges(&self, history: &History) -> bool {
        let is_note =
            |kind: &EventKind| matches!(kind, EventKind::Accepted { resource, .. } if *resource == JUDGED);
        history.events.iter().any(|event| is_note(&event.kind))
    }

    fn check(&self, _: &History) -> Option<Violation> {
        None
    }
}

/// Explores all schedules. None must make a client panic.
#[track_caller]
pub(crate) fn passes(scenario: Scenario) {
    let found = exhaustive(&scenario.always(Judged)).unwrap();
    println!("{} schedules", found.schedules);
}

/// Explores schedules until one makes a client panic with this text. The scenario is that of a
/// mutant.
#[track_caller]
pub(crate) fn fails(mutant: &[Change], scenario: Scenario, text: &str) {
    match exhaustive(&scenario.always(Judged)) {
        Ok(found) => panic!("{mutant:?} is not found in {} schedules", found.schedules),
        Err(report) => assert!(report.to_string().contains(text), "{mutant:?}: {report}"),
    }
}
