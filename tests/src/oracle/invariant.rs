//! The oracle for what must hold always, on the data of the servers.

use super::{Oracle, Violation};
use crate::trace::{EventKind, History};

/// A property of the data that the user has named: `Scenario::invariant`.
#[derive(Clone, Debug)]
pub(crate) struct Invariant {
    pub(crate) name: &'static str,
}

impl Oracle for Invariant {
    fn name(&self) -> &'static str {
        self.name
    }

    /// There is always data.
    fn judges(&self, _: &History) -> bool {
        true
    }

    fn check(&self, history: &History) -> Option<Violation> {
        history.events.iter().find_map(|event| match &event.kind {
            EventKind::Broken { name, what } if *name == self.name => {
                Some(Violation { step: event.step, what: what.clone() })
            }
            _ => None,
        })
    }
}
