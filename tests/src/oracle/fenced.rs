//! The oracle for resources that check fencing tokens.

use super::{Oracle, Violation, Wanted};
use crate::actor::Actor;
use crate::trace::{EventKind, History};

/// A guarded resource never accepts a write with a smaller fencing token than that of a write it
/// has accepted. It never accepts two clients' writes with one token.
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

    fn wants(&self) -> Wanted {
        Wanted::Resource(self.resource)
    }

    fn judges_overruns(&self) -> bool {
        true
    }

    fn judges_commands(&self) -> bool {
        true
    }

    fn check(&self, history: &History) -> Option<Violation> {
        // The writes so far, in the order in which they ran. A reply may be late.
        let mut writes: Vec<(u64, Actor, i64)> = Vec::new();
        history.events.iter().find_map(|event| match event.kind {
            EventKind::Accepted { actor, resource, token, nth } if resource == self.resource => {
                let place = writes.partition_point(|&(other, ..)| other <= nth);
                writes.insert(place, (nth, actor, token));
                writes.windows(2).find_map(|pair| {
                    let [(_, before, known), (_, after, token)] = [pair[0], pair[1]];
                    let is_wrong = token < known || token == known && before != after;
                    is_wrong.then(|| Violation {
                        step: event.step,
                        what: format!(
                            "{resource} accepts {after}'s write with token {token} after {before}'s with token {known}"
                        ),
                    })
                })
            }
            _ => None,
        })
    }
}
