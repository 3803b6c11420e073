//! The failure of a whole exploration, by the results of its shards.

use super::failure::{Failure, counted};
use super::results::{BranchResult, Results};

impl Failure {
    /// The failure of the whole, if a shard has failed.
    pub fn of_whole<'a>(shards: impl IntoIterator<Item = &'a Results>) -> Option<&'a Failure> {
        let failures = shards.into_iter().filter_map(Results::failure);
        failures.min_by_key(|failure| (failure.at.is_none(), failure.at, failure.violation))
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
