//! How an exploration stops before its end.

use super::report::Report;
use super::shard::BranchId;

/// Why an exploration stops before its end.
pub(super) enum Stop {
    Report(Box<Report>),
    /// Code that repeats commands in vain gives up by itself, after some tries or some time, and
    /// that was not known. Or the code of a client cannot be learned. The exploration begins again.
    KnowsMore,
}

impl Stop {
    /// It comes after this many other schedules, which count, too.
    pub(super) fn after(self, earlier: u64) -> Stop {
        match self {
            Stop::Report(mut report) => {
                report.schedules += earlier;
                report.found_after += earlier;
                Stop::Report(report)
            }
            Stop::KnowsMore => Stop::KnowsMore,
        }
    }

    /// It comes in this branch. Its report also counts `before` schedules from before the branch.
    pub(super) fn within(self, branch: BranchId, before: u64) -> Stop {
        match self {
            Stop::Report(mut report) => {
                report.ended_at.get_or_insert((branch, report.schedules - before));
                Stop::Report(report)
            }
            Stop::KnowsMore => Stop::KnowsMore,
        }
    }
}

impl From<Box<Report>> for Stop {
    fn from(report: Box<Report>) -> Stop {
        Stop::Report(report)
    }
}
