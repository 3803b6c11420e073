//! The oracle for grants that stay although their clients have released them.

use super::{Oracle, Violation};
use crate::trace::{EventKind, History};

/// If all clients have released, and no crash, lost message or cancellation prevented that,
/// everything is free at once, before the lease ends. It needs fresh clients that try:
/// `Scenario::probe`.
///
/// A violation: all clients have ended, and a fresh client is refused.
#[derive(Clone, Debug)]
pub struct NoLeak;

impl Oracle for NoLeak {
    fn name(&self) -> &'static str {
        "no-leak"
    }

    fn judges(&self, history: &History) -> bool {
        history.events.iter().any(|event| matches!(event.kind, EventKind::Probed { after_lease: false, .. }))
    }

    fn check(&self, history: &History) -> Option<Violation> {
        history.events.iter().find_map(|event| match event.kind {
            EventKind::Probed { granted, wanted, after_lease: false } if granted < wanted => {
                Some(Violation {
                    step: event.step,
                    what: format!(
                        "no client crashed and no message was lost, but only {granted} of {wanted} fresh clients got a grant"
                    ),
                })
            }
            _ => None,
        })
    }
}
