//! The oracle for locks that stay held after a fault.

use std::time::Duration;

use super::{Oracle, Probe, Violation, Wanted, probe};
use crate::trace::History;

/// After a crash or a lost message, and one lease and some grace later, fresh clients get the lock,
/// or all permits. It needs fresh clients that try: `Scenario::probe`.
///
/// A violation: a holder crashes, and its key stays for ever.
#[derive(Clone, Debug)]
pub struct Recovers;

impl Recovers {
    /// The same, but this soon after all clients have ended, however long the lease is.
    pub fn within(span: Duration) -> RecoversWithin {
        RecoversWithin { span }
    }
}

/// As [`Recovers`], within a span of time: [`Recovers::within`].
///
/// A violation: a client that fills a cache is cancelled, and its placeholder stays for a minute.
#[derive(Clone, Debug)]
pub struct RecoversWithin {
    span: Duration,
}

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
        shortage(history, "more than a lease")
    }
}

impl Oracle for RecoversWithin {
    fn name(&self) -> &'static str {
        "recovers-within"
    }

    fn judges(&self, history: &History) -> bool {
        Recovers.judges(history)
    }

    fn wants(&self) -> Wanted {
        Wanted::ProbeAfterLoss
    }

    fn recovery(&self) -> Option<Duration> {
        Some(self.span)
    }

    fn check(&self, history: &History) -> Option<Violation> {
        shortage(history, &format!("{} ms", self.span.as_millis()))
    }
}

/// Fresh clients did not get everything. The text has no time that depends on the lease, because a
/// replay on a real server has a shorter one.
fn shortage(history: &History, when: &str) -> Option<Violation> {
    let Probe { step, granted, wanted } = probe(history, true)?;
    let what = format!("{when} after the end, only {granted} of {wanted} fresh clients succeed");
    (granted < wanted).then_some(Violation { step, what })
}
