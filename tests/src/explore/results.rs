//! The results of one shard of an exploration: lines of JSON, one for each branch that is done.
//! They do not know how schedules are run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::exploration::Exploration;
use super::failure::Failure;
use super::shard::{BranchId, Shard, TRUNK};
use crate::execution::KnownCode;
use crate::fingerprint::fingerprint;
use crate::oracle::Oracle;
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use crate::shrink::ScheduleSize;
use crate::trace::{History, Reached};

/// The ending of the names of files with results.
pub const RESULTS_EXTENSION: &str = "jsonl";

/// The results of one shard of an exploration, as far as it has come.
#[derive(Clone, Debug)]
pub struct Results {
    /// The exploration and its shard.
    pub origin: Origin,
    /// How each number of actors is divided.
    pub plans: Vec<Plan>,
    /// The branches that are done.
    pub branches: Vec<BranchResult>,
    /// The last end of a run of the shard, if one came to its end.
    pub ending: Option<Ending>,
}

/// A line of a file with results.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Line<'a> {
    Exploration(Box<Origin>),
    Plan(Plan),
    Branch(Owned<'a, BranchResult>),
    Ending(Ending),
}

/// A value that is borrowed to be written, and owned when it is read.
type Owned<'a, T> = std::borrow::Cow<'a, T>;

/// An exploration and its shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The version of lockstep.
    pub lockstep: String,
    /// The scenario's name.
    pub scenario: String,
    /// `exhaustive`, or the size and seed of a sample.
    pub method: String,
    /// The actors, servers and faults of the scenario, and its other bounds, as a text.
    pub bounds: String,
    /// The names of its oracles, in order.
    pub oracles: Vec<String>,
    /// The events that must happen in some execution.
    pub must_reach: Reached,
    /// The shard that has these results.
    pub shard: Shard,
    /// The knowledge of the clients' code with which the branches were explored.
    pub known: KnownCode,
}

/// The branches of one number of actors. All shards find the same ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The number of actors.
    pub actors: usize,
    /// The number of branches, without the trunk. If there are few schedules, the trunk has all of
    /// them, and this is zero.
    pub branches: usize,
    /// A hash of what the first schedules did, and of the branches' first steps. If the code
    /// changes, this does.
    pub digest: u64,
}

/// The result of one branch.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BranchResult {
    /// The number of actors.
    pub actors: usize,
    /// The number of the branch. The trunk is number 0.
    pub nth: usize,
    /// How many schedules were run.
    pub schedules: u64,
    /// How many more executions ended early because other executions cover all that could follow.
    pub blocked: u64,
    /// Everything that happened in at least one execution.
    pub reached: Reached,
    /// The oracles that had something to judge, by their places.
    pub judged: Vec<usize>,
    /// By the place of each violated oracle, how many schedules were run until its first violation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub found_after: BTreeMap<usize, u64>,
    /// The sections that clients entered, if an oracle had nothing to judge for a while.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub entered: BTreeSet<String>,
    /// The smallest violation of each violated oracle.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) violations: Vec<KeptViolation>,
    /// In a sample, a hash of the trace of each schedule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<u64>,
}

/// A violation that was found in a branch, before it is shrunk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KeptViolation {
    /// The place of its oracle.
    pub(super) oracle: usize,
    /// The least size that the shrunk schedule can have.
    pub(super) least: ScheduleSize,
    /// The steps that the violation depends on.
    pub(super) causal_past: Schedule,
    /// All steps up to the violation.
    pub(super) whole: Schedule,
}

/// The end of one run of a shard.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ending {
    /// How the shard failed, if it did not pass.
    pub failure: Option<Failure>,
}

impl Origin {
    /// The exploration of a scenario with a method, and its shard.
    pub(super) fn of(scenario: &Scenario, method: &str, shard: Shard) -> Origin {
        Origin {
            lockstep: env!("CARGO_PKG_VERSION").into(),
            scenario: scenario.name.clone(),
            method: method.into(),
            bounds: scenario.bounds(),
            oracles: scenario.oracles.iter().map(|oracle| oracle.name().into()).collect(),
            must_reach: scenario.must_reach,
            shard,
            known: KnownCode::default(),
        }
    }

    /// The branches of its shard, if `actors` actors have `count` branches besides the trunk. Each
    /// comes as the number of actors and its own number.
    pub fn branches(&self, actors: usize, count: usize) -> impl Iterator<Item = BranchId> {
        let trunk = self.has_trunk().then_some(TRUNK);
        let dealt = self.shard.deal(&self.scenario, count).into_iter().map(|idx| idx + 1);
        trunk.into_iter().chain(dealt).map(move |nth| (actors, nth))
    }

    /// Whether its shard has the trunks, with all schedules of what is not divided.
    pub(super) fn has_trunk(&self) -> bool {
        self.shard.has(&self.scenario)
    }

    /// The first thing in which two explorations of one name differ, as two texts. Their shards and
    /// what is known may differ.
    pub fn difference(&self, other: &Origin) -> Option<(String, String)> {
        let texts = |origin: &Origin| {
            let Origin { lockstep, bounds, oracles, must_reach, .. } = origin;
            [
                format!("lockstep {lockstep}"),
                bounds.clone(),
                format!("the oracles {}", oracles.join(", ")),
                format!("{must_reach:?}"),
            ]
        };
        texts(self).into_iter().zip(texts(other)).find(|(own, other)| own != other)
    }
}

impl BranchResult {
    /// The numbers of this branch. Findings are made of its violations by shrinking.
    pub(super) fn exploration(&self, scenario: &Scenario) -> Exploration {
        let oracle = |&place: &usize| Some((place, scenario.oracles.get(place)?.name()));
        Exploration {
            schedules: self.schedules,
            blocked: self.blocked,
            reached: self.reached,
            judged: self.judged.iter().filter_map(oracle).collect(),
            found_after: self.found_after.clone(),
            entered: self.entered.clone(),
            ..Exploration::default()
        }
    }

    /// Its violations, each with its oracle.
    pub(super) fn violations<'a>(
        &'a self,
        scenario: &'a Scenario,
    ) -> impl Iterator<Item = (&'a Arc<dyn Oracle>, &'a KeptViolation)> {
        self.violations.iter().filter_map(|kept| Some((scenario.oracles.get(kept.oracle)?, kept)))
    }
}

/// Adds what an execution did to a hash of executions. If the code of the clients changes, the hash
/// does.
pub(super) fn add_to_digest(digest: u64, history: &History) -> u64 {
    // A footprint has no hash, but it has a text.
    let footprints = format!("{:?}", history.footprints);
    fingerprint((digest, &history.steps, footprints))
}

/// Why a file has no results that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResultsError {
    /// The file or folder cannot be read or written.
    #[error("cannot read or write {}: {why}", path.display())]
    Unreachable {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        why: String,
    },
    /// The file has something else.
    #[error("{}, line {line}, is not a result of a shard: {why}; remove the file, and run the shard again", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// The error of the parser.
        why: String,
    },
}

impl ResultsError {
    pub(super) fn unreachable(path: &Path, error: &std::io::Error) -> ResultsError {
        ResultsError::Unreachable { path: path.into(), why: error.to_string() }
    }
}

impl Results {
    /// Reads a file with results. `None` if the file is empty, because a run was killed at its very
    /// start.
    ///
    /// # Errors
    /// The file cannot be read, or has something else.
    pub fn read(path: &Path) -> Result<Option<Results>, ResultsError> {
        let text = fs::read_to_string(path).map_err(|error| ResultsError::unreachable(path, &error))?;
        Results::parse(path, complete_lines(&text))
    }

    /// How the shard failed, if it has ended and did not pass.
    pub fn failure(&self) -> Option<&Failure> {
        self.ending.as_ref()?.failure.as_ref()
    }

    /// Parses lines of a file.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Option<Results>, ResultsError> {
        let foreign = |line: usize, why: String| ResultsError::Foreign { path: path.into(), line, why };
        let mut results: Option<Results> = None;
        for (idx, line) in text.lines().enumerate() {
            let line = serde_json::from_str(line).map_err(|error| foreign(idx + 1, error.to_string()))?;
            match (line, &mut results) {
                (Line::Exploration(origin), None) => {
                    let (plans, branches) = (Vec::new(), Vec::new());
                    results = Some(Results { origin: *origin, plans, branches, ending: None });
                }
                (Line::Plan(plan), Some(results)) => results.plans.push(plan),
                (Line::Branch(branch), Some(results)) => results.branches.push(branch.into_owned()),
                (Line::Ending(ending), Some(results)) => results.ending = Some(ending),
                (Line::Exploration(_), Some(_)) => {
                    return Err(foreign(idx + 1, "a second exploration begins".into()));
                }
                (_, None) => return Err(foreign(idx + 1, "the first line must name the exploration".into())),
            }
        }
        Ok(results)
    }
}

/// The lines that were written to their ends. A run that was killed may have left a part of one.
pub(super) fn complete_lines(text: &str) -> &str {
    text.rfind('\n').map_or("", |end| &text[..=end])
}
