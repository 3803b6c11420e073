//! The oracle for clients that wait although the section is empty.

use std::time::Duration;

use super::{Oracle, Violation, Wanted, is_entered};
use crate::trace::{EventKind, History};

/// A client never waits in vain: while all clients wait, the section never stays empty for `within`
/// or longer.
///
/// Only time that passes because all clients wait counts, not the time of a stall. After a crash
/// the span is twice as long, because the lost grant is not free before its lease ends.
///
/// A violation: A releases the lock before B subscribes to the notification. B then waits for a
/// whole lease, until its timeout.
#[derive(Clone, Debug)]
pub struct NoLostWakeUp {
    sections: Vec<&'static str>,
    within: Duration,
}

impl NoLostWakeUp {
    /// The oracle for the section of this name, which must not be empty for `within` or longer.
    pub fn of(section: &'static str, within: Duration) -> NoLostWakeUp {
        NoLostWakeUp::of_all(&[section], within)
    }

    /// The oracle for several sections, as those of a read-write lock. They must not all be empty
    /// for `within` or longer.
    pub fn of_all(sections: &[&'static str], within: Duration) -> NoLostWakeUp {
        NoLostWakeUp { sections: sections.to_vec(), within }
    }
}

impl Oracle for NoLostWakeUp {
    fn name(&self) -> &'static str {
        "no-lost-wake-up"
    }

    fn judges(&self, history: &History) -> bool {
        self.sections.iter().any(|section| is_entered(history, section))
    }

    fn wants(&self) -> Wanted {
        Wanted::Sections(self.sections.clone())
    }

    fn check(&self, history: &History) -> Option<Violation> {
        let (mut inside, mut empty_since, mut empty_for) = (0_u32, Duration::ZERO, Duration::ZERO);
        let mut within = self.within;
        for event in &history.events {
            match event.kind {
                EventKind::Enter { section, .. } if self.sections.contains(&section) => {
                    inside += 1;
                    empty_for = Duration::ZERO;
                }
                EventKind::Leave { section, .. } if self.sections.contains(&section) => {
                    inside -= 1;
                    empty_since = event.at;
                }
                EventKind::Fault { fault, .. } if fault.is_crash() => {
                    // A key exists until just past the end of its lease.
                    (empty_for, within) = (Duration::ZERO, 2 * self.within + Duration::from_millis(1));
                }
                // A timer may have ended a hold amid the wait.
                EventKind::Advanced { by, is_wait: true } if inside == 0 => {
                    empty_for += by.min(event.at - empty_since);
                }
                _ => {}
            }
            if empty_for >= within {
                let what = format!(
                    "no client has been inside for {} ms, although clients wait",
                    empty_for.as_millis()
                );
                return Some(Violation { step: event.step, what });
            }
        }
        None
    }
}
