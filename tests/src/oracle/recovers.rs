//! The oracle for locks that stay held after a fault.

use super::{Oracle, Probe, Violation, Wanted, probe};
use crate::trace::History;

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
        probe(history, true).is_some()
    }

    fn wants(&self) -> Wanted {
        Wanted::ProbeAfterLoss
    }

    fn check(&self, history: &History) -> Option<Violation> {
        let Probe { step, granted, wanted } = probe(history, true)?;
        (granted < wanted).then(|| Violation {
            step,
            what: format!(
                "more than a lease after the end, only {granted} of {wanted} fresh clients got a grant"
            ),
        })
    }
}
