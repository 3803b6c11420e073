//! The oracle for clients that wait although the section is empty.

use std::time::Duration;

use super::{Oracle, Violation, is_entered};
use crate::trace::{EventKind, History};

/// A client never waits in vain: while all clients wait, the section never stays empty for `within`
/// or longer.
///
/// Only time that passes because all clients wait counts, not the time of a stall. After a crash
/// nothing counts, because the lost grant is not free before its lease ends.
///
/// A violation: A releases the lock before B subscribes to the notification. B then waits for a
/// whole lease, until its timeout.
#[derive(Clone, Debug)]
pub struct NoLostWakeUp {
    section: &'static str,
    within: Duration,
}

impl NoLostWakeUp {
    /// The oracle for the section of this name, which must not be empty for `within` or longer.
    pub fn of(section: &'static str, within: Duration) -> NoLostWakeUp {
        NoLostWakeUp { section, within }
    }
}

impl Oracle for NoLostWakeUp {
    fn name(&self) -> &'static str {
        "no-lost-wake-up"
    }

    fn judges(&self, history: &History) -> bool {
        is_entered(history, self.section)
    }

    fn check(&self, history: &History) -> Option<Violation> {
        let (mut inside, mut empty_for) = (0_u32, Duration::ZERO);
        for event in &history.events {
            match event.kind {
                EventKind::Enter { section, .. } if section == self.section => {
                    inside += 1;
                    empty_for = Duration::ZERO;
                }
                EventKind::Leave { section, .. } if section == self.section => inside -= 1,
                EventKind::Fault { fault, .. } if fault.is_crash() => return None,
                EventKind::Advanced { by, is_wait: true } if inside == 0 => empty_for += by,
                _ => {}
            }
            if empty_for >= self.within {
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
