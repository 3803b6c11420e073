//! The oracle for mutual exclusion among leases that still run.

use super::{Oracle, Violation, Wanted, crowded, is_entered, list};
use crate::trace::History;

/// Never two holders of the section at once. A holder was granted the section, has not sent its
/// release, and its lease still runs. The lease counts in true time from before the attempt began.
///
/// A violation: A is granted the lock. Before A releases it and before its lease ends, B is granted
/// it too.
#[derive(Clone, Debug)]
pub struct ExclusiveFact {
    section: &'static str,
}

impl ExclusiveFact {
    /// The oracle for the section of this name.
    pub fn of(section: &'static str) -> ExclusiveFact {
        ExclusiveFact { section }
    }
}

impl Oracle for ExclusiveFact {
    fn name(&self) -> &'static str {
        "exclusive-fact"
    }

    fn judges(&self, history: &History) -> bool {
        is_entered(history, self.section)
    }

    fn wants(&self) -> Wanted {
        Wanted::Sections(vec![self.section])
    }

    fn check(&self, history: &History) -> Option<Violation> {
        let (step, holders) = crowded(history, self.section, 1, |now, until| now < until)?;
        Some(Violation {
            step,
            what: format!(
                "{} hold {}, each with a lease that still runs",
                list(&holders),
                named(self.section)
            ),
        })
    }
}

/// A section in a sentence. Most tests have one section, for the lock.
fn named(section: &str) -> String {
    match section {
        "cs" | "section" | "lock" => "the lock".into(),
        other => format!("«{other}»"),
    }
}
