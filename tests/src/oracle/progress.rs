//! The oracle for attempts that all fail although nobody holds anything.

use super::{Oracle, Violation, Wanted, is_entered, probe};
use crate::trace::History;

/// If all clients have ended, and no crash, lost message or cancellation prevented that, at least
/// one of them was granted a section. It needs fresh clients that try: `Scenario::probe`.
///
/// Every client must try at least once. Leave this oracle out if time can pass amid an attempt: an
/// attempt that took longer than the lease may fail.
///
/// A violation: each of three clients gets one of three servers. None of them gets a majority.
#[derive(Clone, Debug)]
pub struct Progress {
    sections: Vec<&'static str>,
}

impl Progress {
    /// The oracle for clients that try to enter any of these sections.
    pub fn of(sections: &[&'static str]) -> Progress {
        Progress { sections: sections.to_vec() }
    }
}

impl Oracle for Progress {
    fn name(&self) -> &'static str {
        "progress"
    }

    fn judges(&self, history: &History) -> bool {
        probe(history, false).is_some()
    }

    fn wants(&self) -> Wanted {
        Wanted::Probe
    }

    fn check(&self, history: &History) -> Option<Violation> {
        let end = probe(history, false)?;
        let is_any_entered = self.sections.iter().any(|section| is_entered(history, section));
        (!is_any_entered && end.step > 0).then(|| Violation {
            step: end.step,
            what: "all clients have ended, and none of them was granted anything".into(),
        })
    }
}
