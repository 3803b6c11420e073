//! The oracle for grants that stay although their clients have released them.

use super::{Oracle, Probe, Violation, Wanted, probe};
use crate::trace::History;

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
        probe(history, false).is_some()
    }

    fn wants(&self) -> Wanted {
        Wanted::Probe
    }

    fn check(&self, history: &History) -> Option<Violation> {
        let Probe { step, granted, wanted } = probe(history, false)?;
        (granted < wanted).then(|| Violation {
            step,
            what: format!(
                "no client crashed and no message was lost, but only {granted} of {wanted} fresh clients got a grant"
            ),
        })
    }
}
