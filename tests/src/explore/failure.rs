//! How shards fail, and with which of their failures one process would end. It knows nothing of how
//! schedules are run.

use serde::{Deserialize, Serialize};

use super::shard::BranchId;

/// How a shard failed: its report, and where one process would come to it.
///
/// All shards divide an exploration into equal branches, and one process runs these in order. So
/// the first failure is that of the whole.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// The branch at which one process would end. `None` if it would run all branches first, as in
    /// a sample.
    pub(super) at: Option<BranchId>,
    /// How many schedules of this branch were run, if it has no result.
    pub(super) schedules: u64,
    /// The place of the violated oracle, and the number of steps of its shortest schedule.
    pub(super) violation: Option<(usize, usize)>,
    /// The report before the number of schedules, and after it. Some reports do not have the
    /// number.
    pub(super) text: (String, Option<String>),
}

impl Failure {
    /// Whether one process would run this branch before it came to this failure.
    pub fn follows(&self, branch: BranchId) -> bool {
        self.at.is_none_or(|at| branch < at)
    }
}

/// `7 of 12 schedules`: how many were run until the problem showed first, of how many in all.
pub(super) fn counted(found_after: u64, schedules: u64) -> String {
    let of_all = if found_after == schedules { String::new() } else { format!("{found_after} of ") };
    format!("{of_all}{schedules} schedule{}", if schedules == 1 { "" } else { "s" })
}
