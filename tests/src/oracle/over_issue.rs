//! The oracle for semaphores that grant too many permits at once.

use super::{Oracle, Violation, Wanted, crowded, is_entered, list};
use crate::trace::History;

/// Never more than `permits` holders of the section at once. A holder was granted the section, has
/// not sent its release, and its lease still runs. The lease counts in true time from before the
/// attempt began.
///
/// A violation: with one permit, A is granted it. Before A releases it and before its lease ends, B
/// is granted it too.
#[derive(Clone, Debug)]
pub struct OverIssue {
    section: &'static str,
    permits: u32,
}

impl OverIssue {
    /// The oracle for the section of this name with this many permits.
    pub fn of(section: &'static str, permits: u32) -> OverIssue {
        OverIssue { section, permits }
    }
}

impl Oracle for OverIssue {
    fn name(&self) -> &'static str {
        "over-issue"
    }

    fn judges(&self, history: &History) -> bool {
        is_entered(history, self.section)
    }

    fn wants(&self) -> Wanted {
        Wanted::Sections(vec![self.section])
    }

    fn check(&self, history: &History) -> Option<Violation> {
        let (step, holders) =
            crowded(history, self.section, self.permits as usize, |now, until| now < until)?;
        let (issued, permits) = (holders.len(), self.permits);
        let what = format!(
            "{} hold {issued} of {permits} permits, each with a lease that still runs",
            list(&holders)
        );
        Some(Violation { step, what })
    }
}
