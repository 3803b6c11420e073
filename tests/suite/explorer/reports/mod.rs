//! Bugs of public reports, mostly in code that is no lock: queues, limiters, caches, elections.
//! There is one file for each, with code of our own that does what the report says, and with its
//! repair.
//!
//! The explorer must find each bug, and its report must say what happens. The repaired code must
//! pass within the same bounds, and without a false warning.

mod broken_twice;
mod extend_sets;
mod gave_up_early;
mod idempotency_claim;
mod leader_by_presence;
mod orphans;
mod popped_and_lost;
mod promoted_twice;
mod reaper;
mod shared_watch;
mod stale_fill;
mod stalled_job;
mod starved_bucket;
mod stock_below_zero;
mod window_members;

use std::time::Duration;

use harness::explore::Problem;
use harness::{Exploration, Report, Scenario, exhaustive};

/// The lease of most scenarios in these files.
const LEASE: Duration = Duration::from_secs(10);

/// Which code runs, if there are only these two.
#[derive(Clone, Copy, PartialEq)]
enum Code {
    Reported,
    Repaired,
}

/// Expects that this report is one of the property, has this number of steps, and says `words`.
#[track_caller]
fn shows(report: &Report, property: &str, steps: usize, words: &str) {
    let Problem::Violated { property: found, schedule, .. } = &report.problem else { panic!("{report}") };
    assert_eq!((*found, schedule.steps.len()), (property, steps), "{report}");
    assert!(report.to_string().contains(words), "{words:?} is missing:\n{report}");
}

/// Expects that the explorer finds the bug, in a report as [`shows`] describes it.
#[track_caller]
fn finds(buggy: &Scenario, property: &str, steps: usize, words: &str) {
    shows(&exhaustive(buggy).expect_err("the bug is to be found"), property, steps, words);
}

/// Expects that the code of a client fails with this error after this number of steps.
#[track_caller]
fn fails(buggy: &Scenario, error: &str, steps: usize) {
    let report = exhaustive(buggy).expect_err("the bug is to be found");
    let Problem::Failed { what, schedule, .. } = &report.problem else { panic!("{report}") };
    assert!(what.contains(error), "{error:?} is missing:\n{report}");
    assert_eq!(schedule.steps.len(), steps, "{report}");
}

/// The lints that are right about some of this code: it sends the time of a client's clock, and its
/// keys are in several slots of a cluster.
const TRUE_LINTS: [&str; 2] = ["client-time", "cross-slot"];

/// Expects that an exploration of repaired code has neither a violation nor a false warning.
#[track_caller]
fn passes(explored: Result<Exploration, Box<Report>>) {
    let passed = explored.unwrap();
    assert!(passed.lints.iter().all(|warning| TRUE_LINTS.contains(&warning.lint.name)), "{passed}");
}
