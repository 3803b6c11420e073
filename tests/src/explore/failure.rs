//! How shards fail, and with which of their failures one process would end. It knows nothing of how
//! schedules are run.

use serde::{Deserialize, Serialize};

use super::report::counted;
use super::results::{BranchId, BranchResult, Results};

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
    /// The failure of the whole, if a shard has failed.
    pub fn of_whole<'a>(shards: impl IntoIterator<Item = &'a Results>) -> Option<&'a Failure> {
        let failures = shards.into_iter().filter_map(Results::failure);
        failures.min_by_key(|failure| (failure.at.is_none(), failure.at, failure.violation))
    }

    /// Whether one process would run this branch before it came to this failure.
    pub fn follows(&self, branch: BranchId) -> bool {
        self.at.is_none_or(|at| branch < at)
    }

    /// The report of one process. `branches` are the results of all shards.
    pub fn report<'a>(&self, branches: impl IntoIterator<Item = &'a BranchResult>) -> String {
        let id = |branch: &BranchResult| (branch.actors, branch.nth);
        let run =
            branches.into_iter().filter(|branch| self.follows(id(branch)) || self.at == Some(id(branch)));
        let mut run: Vec<&BranchResult> = run.collect();
        run.sort_unstable_by_key(|branch| id(branch));
        let (mut schedules, mut found_after) = (0, None);
        for BranchResult { schedules: more, found_after: found, .. } in run {
            let after = self.violation.and_then(|(oracle, _)| found.get(&oracle));
            found_after = found_after.or(after.map(|after| schedules + after));
            schedules += more;
        }
        schedules += self.schedules;
        let (head, rest) = &self.text;
        match rest {
            Some(rest) => head.clone() + &counted(found_after.unwrap_or(schedules), schedules) + rest,
            None => head.clone(),
        }
    }
}
