//! Measures how much of a scenario a sample has covered. A sample does not know how many traces
//! there are.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::trace::HappensBefore;
use crate::trace::History;

/// Counts the different traces that were run, and how that number grew.
///
/// As long as nearly every schedule gives a new trace, a sample has covered little of the scenario.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    schedules: u64,
    seen: BTreeSet<u64>,
    curve: Vec<(u64, u64)>,
}

impl Coverage {
    /// Adds one execution. Returns whether its trace is new.
    pub fn add(&mut self, history: &History, happens_before: &HappensBefore) -> bool {
        self.add_hash(trace_hash(history, happens_before))
    }

    /// Adds one execution of the trace with this hash. Returns whether the trace is new.
    pub(super) fn add_hash(&mut self, trace: u64) -> bool {
        let is_new = self.seen.insert(trace);
        self.schedules += 1;
        if self.schedules.is_power_of_two() {
            self.curve.push((self.schedules, self.traces()));
        }
        is_new
    }

    /// How many different traces were run.
    pub fn traces(&self) -> u64 {
        self.seen.len() as u64
    }

    /// The pairs (schedules, traces) after 1, 2, 4, 8, … schedules and after the last one.
    pub fn curve(&self) -> Vec<(u64, u64)> {
        let mut curve = self.curve.clone();
        if curve.last().is_some_and(|&(schedules, _)| schedules != self.schedules) {
            curve.push((self.schedules, self.traces()));
        }
        curve
    }
}

/// A hash of the trace of an execution. Equal traces have equal hashes in all processes.
pub(super) fn trace_hash(history: &History, happens_before: &HappensBefore) -> u64 {
    let mut hasher = DefaultHasher::new();
    happens_before.foata_normal_form(history).hash(&mut hasher);
    hasher.finish()
}

/// Pairs of traces and schedules: `1/1 2/2 3/4 5/8 6/10`.
impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let points = self.curve().into_iter().map(|(schedules, traces)| format!("{traces}/{schedules}"));
        f.write_str(&points.collect::<Vec<_>>().join(" "))
    }
}
