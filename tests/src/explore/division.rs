//! How an exploration is divided among processes: by the caller, or by environment variables.

use std::path::PathBuf;

use super::report::Report;
use super::shard::{Shard, ShardError};
use crate::execution::cores;
use crate::scenario::Scenario;

/// The variable that names the shard of a process, such as `2/8`.
pub const SHARD_VARIABLE: &str = "LOCKSTEP_SHARD";
/// The variable that names the folder for results.
pub const RESULTS_VARIABLE: &str = "LOCKSTEP_RESULTS";
/// The variable that says how many schedules of an exploration run at the same time.
pub const JOBS_VARIABLE: &str = "LOCKSTEP_JOBS";

/// The largest number of jobs.
const JOBS_MAX: usize = 1_000;

/// The shard that this process runs, how many of its schedules run at the same time, and the folder
/// where it writes its results.
///
/// Shards are disjoint. Together they run what one process would run. The number of jobs changes no
/// result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    pub(super) shard: Shard,
    pub(super) jobs: usize,
    pub(super) results: Option<PathBuf>,
}

/// Why the value of a variable cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable} is {value:?}: {remedy}")]
pub struct DivisionError {
    variable: &'static str,
    value: String,
    remedy: String,
}

impl From<Shard> for Division {
    fn from(shard: Shard) -> Division {
        Division { shard, jobs: cores(), results: None }
    }
}

impl Division {
    /// Writes results to files in this folder. If the folder has results of an earlier run of the
    /// shard, the exploration continues there.
    pub fn results(self, folder: impl Into<PathBuf>) -> Division {
        Division { results: Some(folder.into()), ..self }
    }

    /// Runs at most `jobs` schedules of an exploration at the same time, each on a thread of its
    /// own. A sample has one thread.
    pub fn jobs(self, jobs: std::num::NonZeroUsize) -> Division {
        Division { jobs: jobs.get(), ..self }
    }

    /// The division that the variables `LOCKSTEP_SHARD`, `LOCKSTEP_JOBS` and `LOCKSTEP_RESULTS`
    /// name. Without them, the process runs everything on all cores, and writes nothing.
    ///
    /// # Errors
    /// `LOCKSTEP_SHARD` is not `I/N`, or `LOCKSTEP_JOBS` is no number of jobs.
    pub fn from_env() -> Result<Division, DivisionError> {
        let shard =
            parsed(SHARD_VARIABLE, |value| value.parse().map_err(|error: ShardError| error.to_string()))?;
        let jobs = parsed(JOBS_VARIABLE, |value| {
            let jobs = value.parse().ok().filter(|jobs| (1..=JOBS_MAX).contains(jobs));
            jobs.ok_or(format!("write how many schedules may run at the same time, from 1 to {JOBS_MAX}"))
        })?;
        let results = std::env::var_os(RESULTS_VARIABLE).filter(|folder| !folder.is_empty());
        Ok(Division {
            shard: shard.unwrap_or(Shard::WHOLE),
            jobs: jobs.unwrap_or_else(cores),
            results: results.map(PathBuf::from),
        })
    }

    /// The division of a scenario by the variables.
    pub(super) fn of_process(scenario: &Scenario) -> Result<Division, Box<Report>> {
        let refuse = |error: DivisionError| Box::new(Report::undivided(&scenario.name, error.to_string()));
        Division::from_env().map_err(refuse)
    }
}

/// The value of a variable, if it is set.
fn parsed<T>(
    variable: &'static str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, DivisionError> {
    let Some(value) = std::env::var_os(variable) else { return Ok(None) };
    let value = value.to_string_lossy().into_owned();
    parse(&value).map(Some).map_err(|remedy| DivisionError { variable, value, remedy })
}
