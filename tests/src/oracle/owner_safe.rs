//! The oracle for grants that the wrong client ends.

use super::{Oracle, Violation, Wanted};
use crate::trace::{EventKind, History};

/// No client's release, renewal or takeover ends the unexpired grant of another client, or shortens
/// its time to live.
///
/// The test must pass the place where the server keeps a grant: `client.hold(…).record(…)`.
///
/// A violation: A's `DEL` removes the key by which B holds the lock.
#[derive(Clone, Debug)]
pub struct OwnerSafe;

impl Oracle for OwnerSafe {
    fn name(&self) -> &'static str {
        "owner-safe"
    }

    fn judges(&self, history: &History) -> bool {
        history.events.iter().any(|event| matches!(event.kind, EventKind::Enter { is_recorded: true, .. }))
    }

    fn wants(&self) -> Wanted {
        Wanted::Record
    }

    fn check(&self, history: &History) -> Option<Violation> {
        history.events.iter().find_map(|event| match event.kind {
            EventKind::Ended { holder, by } => Some(Violation {
                step: event.step,
                what: format!("{by} ended the grant of {holder}, whose lease still runs"),
            }),
            EventKind::Shortened { holder, by } => Some(Violation {
                step: event.step,
                what: format!("{by} shortened the grant of {holder}: it ends before the lease"),
            }),
            _ => None,
        })
    }
}
