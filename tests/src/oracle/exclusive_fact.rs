use super::{Oracle, Violation, crowded, is_entered, list};
use crate::trace::History;

/// Never two clients that were both granted the section, have not sent their release, and whose lease, counted in
/// true time from before their attempt began, still runs.
///
/// A violation: A is granted the lock; before A releases it and before its lease ends, B is granted it too.
#[derive(Clone, Debug)]
pub struct ExclusiveFact {
    section: &'static str,
}

impl ExclusiveFact {
    /// For the section of this name.
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

    fn check(&self, history: &History) -> Option<Violation> {
        let (step, holders) = crowded(history, self.section, 1, |now, until| now < until)?;
        Some(Violation {
            step,
            what: format!("{} hold the lock, each with a lease that still runs", list(&holders)),
        })
    }
}
