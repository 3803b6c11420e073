//! The oracle for locks that stay held after a fault.

use super::{Oracle, Violation};
use crate::trace::{EventKind, History};

/// After a crash or a lost message, and one lease and some grace later, fresh clients get the lock,
/// or all permits. It needs fresh clients that try: `Scenario::probe`.
///
/// A violation: a holder crashes, and its key stays for ever.
#[derive(Clone, Debug)]
pub struct Recovers;

impl Oracle for Recovers {
    fn name(&self) -> &'static str {
        "recovers"
    }

    fn judges(&self, history: &History) -> bool {
        history.events.iter().any(|event| matches!(event.kind, EventKind::Probed { after_lease: true, .. }))
    }

    fn check(&self, history: &History) -> Option<Violation> {
        history.events.iter().find_map(|event| match event.kind {
            EventKind::Probed { granted, wanted, after_lease: true } if granted < wanted => Some(Violation {
                step: event.step,
                what: format!(
                    "more than a lease after the end, only {granted} of {wanted} fresh clients got a grant"
                ),
            }),
            _ => None,
        })
    }
}
