//! The verdict table: the result of `check`, printed as text or as JSON, and parsed from JSON.

mod layout;
mod overview;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use harness::check::{Effort, LEASE, Outcome, Part, Verdict, bounds};
use harness::explore::Shard;
use locks::registry::{Algorithm, FaultClass};
use serde::{Deserialize, Serialize};

use crate::output::width;
use crate::shard::{Question, questions};
use crate::stop;

pub(crate) use overview::Mark;

#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

/// How a table is printed.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum TableFormat {
    /// A line for each algorithm
    Overview,
    /// A line for each property of each algorithm
    Text,
    /// All verdicts, with the explorations of each
    Json,
}

impl From<Format> for TableFormat {
    fn from(format: Format) -> TableFormat {
        match format {
            Format::Text => TableFormat::Text,
            Format::Json => TableFormat::Json,
        }
    }
}

/// The verdicts of a run, and its options.
#[derive(Serialize, Deserialize)]
pub(crate) struct Table {
    /// The version of the program.
    pub(crate) lockstep: String,
    pub(crate) seed: u64,
    pub(crate) samples: u64,
    pub(crate) limit: u64,
    pub(crate) shard: Shard,
    /// The algorithms of the whole table, not only of this shard.
    pub(crate) algorithms: Vec<String>,
    /// The number of schedules that were run, in all cells.
    #[serde(skip_deserializing)]
    schedules: u64,
    /// How many more executions ended early because other executions cover all that could follow.
    #[serde(skip_deserializing)]
    blocked: u64,
    /// The faults and the largest number of clients of each exploration of a class.
    #[serde(skip_deserializing)]
    bounds: BTreeMap<&'static str, Vec<String>>,
    pub(crate) verdicts: Vec<VerdictRow>,
}

/// A verdict.
#[derive(Serialize, Deserialize)]
pub(crate) struct VerdictRow {
    algorithm: String,
    property: String,
    fault_class: String,
    /// The statement of the algorithm.
    expected: Stated,
    #[serde(flatten)]
    found: Found,
    /// The number for the whole cell, as for `blocked` and `sampled`.
    schedules: u64,
    blocked: u64,
    /// Whether some explorations of the cell had too many schedules, so that a sample was run.
    sampled: bool,
    /// The explorations of the cell.
    explorations: Vec<Explored>,
}

/// One exploration of a cell.
#[derive(Serialize, Deserialize)]
struct Explored {
    clients: usize,
    permits: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    readers: Option<usize>,
    faults: String,
    late_replies: bool,
    schedules: u64,
    /// Whether a number of clients has more schedules than `limit`, so that a sample was run.
    sampled: bool,
    limit: u64,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Stated {
    Holds,
    Violated,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
enum Found {
    Holds,
    Violated {
        /// The number of steps of the shortest counterexample.
        steps: usize,
        /// The shortest counterexample, one string for each step.
        schedule: Vec<String>,
        /// For a read-write lock, how many of its clients read. The first clients read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        readers: Option<usize>,
    },
    Vacuous,
}

impl Table {
    /// The table of a run of this program.
    pub(crate) fn new(
        algorithms: &[&'static Algorithm],
        Effort { limit, samples, seed }: Effort,
        shard: Shard,
        verdicts: Vec<VerdictRow>,
    ) -> Table {
        let mut cells: Vec<&VerdictRow> = Vec::new();
        for row in &verdicts {
            let is_of = |cell: &&VerdictRow| {
                (&cell.algorithm, &cell.fault_class) == (&row.algorithm, &row.fault_class)
            };
            if !cells.iter().any(is_of) {
                cells.push(row);
            }
        }
        Table {
            lockstep: env!("CARGO_PKG_VERSION").into(),
            seed,
            samples,
            limit,
            shard,
            algorithms: algorithms.iter().map(|algorithm| algorithm.name.into()).collect(),
            schedules: cells.iter().map(|cell| cell.schedules).sum(),
            blocked: cells.iter().map(|cell| cell.blocked).sum(),
            bounds: FaultClass::ALL.iter().map(|&class| (class.name(), bounds_of(class))).collect(),
            verdicts,
        }
    }

    /// The effort of the run.
    pub(crate) fn effort(&self) -> Effort {
        let Table { limit, samples, seed, .. } = *self;
        Effort { limit, samples, seed }
    }

    /// The algorithms of the whole table that this program knows.
    fn known_algorithms(&self) -> Vec<&'static Algorithm> {
        self.algorithms.iter().filter_map(|name| super::find(name).ok()).collect()
    }

    /// The verdicts that the shard has to give.
    fn questions(&self) -> Vec<Question<'static>> {
        questions(self.shard, &self.known_algorithms())
    }

    /// Prints the table. The exit status is 0 if every verdict is as the algorithm states, and 1 if
    /// not. If the check was stopped, it is that of Ctrl-C.
    pub(crate) fn print(&self, format: TableFormat) -> Result<ExitCode> {
        let is_whole = self.verdicts.len() == self.questions().len();
        match format {
            TableFormat::Overview => super::print(&self.overview())?,
            TableFormat::Text => super::print(&self.render(width()))?,
            TableFormat::Json if is_whole => {
                super::print_json(&(serde_json::to_string_pretty(self)? + "\n"))?;
            }
            TableFormat::Json => super::complain(
                "lockstep: stopped: no JSON is printed, because verdicts are missing; run the command again\n",
            ),
        }
        if is_whole {
            Ok(ExitCode::from(u8::from(!self.verdicts.iter().all(VerdictRow::is_as_stated))))
        } else {
            Ok(stop::STATUS.into())
        }
    }
}

/// The bounds of a class, a text each.
fn bounds_of(class: FaultClass) -> Vec<String> {
    bounds(class, LEASE).iter().map(ToString::to_string).collect()
}

impl VerdictRow {
    pub(crate) fn new(verdict: &Verdict) -> VerdictRow {
        let found = match &verdict.outcome {
            Outcome::Holds => Found::Holds,
            Outcome::Violated(finding, size) => Found::Violated {
                steps: finding.violation.step,
                schedule: finding.schedule.steps.iter().map(ToString::to_string).collect(),
                readers: size.readers,
            },
            Outcome::Vacuous(_) => Found::Vacuous,
        };
        VerdictRow {
            algorithm: verdict.algorithm.name.into(),
            property: verdict.property.name().into(),
            fault_class: verdict.class.name().into(),
            expected: if verdict.is_expected_to_hold() { Stated::Holds } else { Stated::Violated },
            found,
            schedules: verdict.schedules,
            blocked: verdict.blocked,
            sampled: verdict.is_sampled(),
            explorations: verdict.parts.iter().map(Explored::new).collect(),
        }
    }

    pub(crate) fn question(&self) -> Question<'_> {
        (&self.algorithm, &self.fault_class, &self.property)
    }

    fn is_as_stated(&self) -> bool {
        match self.found {
            Found::Holds => matches!(self.expected, Stated::Holds),
            Found::Violated { .. } => matches!(self.expected, Stated::Violated),
            Found::Vacuous => false,
        }
    }

    /// The verdict, and the statement of the algorithm.
    fn judgement(&self) -> String {
        let found = match self.found {
            Found::Holds => "holds",
            Found::Violated { .. } => "violated",
            Found::Vacuous => "vacuous",
        };
        let stated = match self.expected {
            Stated::Holds => "hold",
            Stated::Violated => "be violated",
        };
        format!("{found}, must {stated}")
    }
}

impl Explored {
    fn new(part: &Part) -> Explored {
        Explored {
            clients: part.size.clients,
            permits: part.size.permits,
            readers: part.size.readers,
            faults: part.bound.faults.to_string(),
            late_replies: part.bound.has_late_replies,
            schedules: part.schedules,
            sampled: part.is_sampled,
            limit: part.limit,
        }
    }
}

/// Groups digits: `1,234,567`.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn digits_in_groups() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
