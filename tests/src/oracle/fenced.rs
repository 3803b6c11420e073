//! The oracle for resources that check fencing tokens.

use super::{Oracle, Violation};
use crate::trace::{EventKind, History};

/// A guarded resource never accepts a write with a smaller fencing token than that of a write it
/// has accepted.
///
/// This check keeps out a holder that outlives its lease without knowing it: Martin Kleppmann, "How
/// to do distributed locking" (2016).
///
/// A violation: A is granted token 1 and stalls. Its lease ends, B is granted token 2 and writes.
/// Then the resource accepts A's write.
#[derive(Clone, Debug)]
pub struct Fenced {
    resource: &'static str,
}

impl Fenced {
    /// The oracle for a resource whose writes the clients record by
    /// [`Client::accepted`](crate::Client::accepted).
    pub fn of(resource: &'static str) -> Fenced {
        Fenced { resource }
    }
}

impl Oracle for Fenced {
    fn name(&self) -> &'static str {
        "fenced"
    }

    fn judges(&self, history: &History) -> bool {
        history.events.iter().any(
            |event| matches!(event.kind, EventKind::Accepted { resource, .. } if resource == self.resource),
        )
    }

    fn check(&self, history: &History) -> Option<Violation> {
        let mut newest = None;
        history.events.iter().find_map(|event| match event.kind {
            EventKind::Accepted { actor, resource, token } if resource == self.resource => {
                let (writer, known) = *newest.get_or_insert((actor, token));
                if token < known {
                    let what = format!(
                        "{resource} accepts {actor}'s write with token {token} after {writer}'s with token {known}"
                    );
                    return Some(Violation { step: event.step, what });
                }
                newest = Some((actor, token));
                None
            }
            _ => None,
        })
    }
}
