//! The oracle for what must hold after all actors have ended.

use super::{Oracle, Violation, Wanted};
use crate::actor::Actor;
use crate::trace::{EventKind, History};

/// A property of the end that the user has named: `Scenario::finally`.
#[derive(Clone, Debug)]
pub(crate) struct Finally {
    pub(crate) name: &'static str,
    /// The client that judges it.
    pub(crate) judge: Actor,
}

impl Finally {
    /// The judgement: the number of steps before it, and the violation.
    fn judgement<'a>(&self, history: &'a History) -> Option<(usize, Option<&'a String>)> {
        history.events.iter().find_map(|event| match &event.kind {
            EventKind::Judged { judge, violation } if *judge == self.judge => {
                Some((event.step, violation.as_ref()))
            }
            _ => None,
        })
    }
}

impl Oracle for Finally {
    fn name(&self) -> &'static str {
        self.name
    }

    fn judges(&self, history: &History) -> bool {
        self.judgement(history).is_some()
    }

    fn wants(&self) -> Wanted {
        Wanted::End
    }

    fn check(&self, history: &History) -> Option<Violation> {
        let (step, violation) = self.judgement(history)?;
        Some(Violation { step, what: violation?.clone() })
    }
}
