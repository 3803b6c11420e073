//! The oracle for mutual exclusion as the clients see it.

use super::{Oracle, Violation, Wanted, crowded, is_entered, list};
use crate::trace::History;

/// Never more than `permits` clients are inside the section at once, whatever the server knows of
/// their leases.
///
/// A violation: A is inside and slow. Its lease ends, B is granted the lock, and enters beside A.
/// If a holder can be slower than its lease, no lock without fencing prevents this.
#[derive(Clone, Debug)]
pub struct ExclusiveBelief {
    section: &'static str,
    permits: u32,
}

impl ExclusiveBelief {
    /// The oracle for the section of this name with this many permits; 1 for a lock.
    pub fn of(section: &'static str, permits: u32) -> ExclusiveBelief {
        ExclusiveBelief { section, permits }
    }
}

impl Oracle for ExclusiveBelief {
    fn name(&self) -> &'static str {
        "exclusive-belief"
    }

    fn judges(&self, history: &History) -> bool {
        is_entered(history, self.section)
    }

    fn wants(&self) -> Wanted {
        Wanted::Sections(vec![self.section])
    }

    fn judges_overruns(&self) -> bool {
        true
    }

    fn check(&self, history: &History) -> Option<Violation> {
        let (step, inside) = crowded(history, self.section, self.permits as usize, |_, _| true)?;
        let rule = if self.permits == 1 { "one".into() } else { self.permits.to_string() };
        let what = format!("{} are inside at once, but only {rule} may be", list(&inside));
        Some(Violation { step, what })
    }
}
