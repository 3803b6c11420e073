//! The oracle for objects that work as if one client used them at a time.

use std::fmt::Debug;

use serde_json::Value;

use super::{Oracle, Violation, Wanted};
use crate::linearizability::{self, Call, Model, linearize};
use crate::trace::{CallId, EventKind, History};

/// The operations of all clients have the answers that they could have one after the other. An
/// operation that returns before another is called comes first. Clients mark their operations by
/// [`Client::operation`](crate::Client::operation).
///
/// A violation: A pushes a job. Then B and C both pop it.
///
/// The model is one of [`linearizability`](crate::linearizability), or one's own. Sources: Herlihy
/// and Wing, "Linearizability: a correctness condition for concurrent objects" (1990).
#[derive(Clone, Debug)]
pub struct Linearizable<M> {
    object: &'static str,
    model: M,
}

/// An operation, and who called it.
type Operation = linearizability::Operation<Call, Value>;

impl<M: Model<Call = Call, Answer = Value> + Debug + Send + Sync> Linearizable<M> {
    /// The oracle for code that implements one object.
    pub fn new(model: M) -> Linearizable<M> {
        Linearizable { object: "", model }
    }

    /// The oracle for the object of this name, as [`on`](crate::client::Operation::on) gives it.
    pub fn of(object: &'static str, model: M) -> Linearizable<M> {
        Linearizable { object, model }
    }

    /// The operations until this many events have happened, in the order of their calls. Time is
    /// the number of an event.
    fn operations(&self, history: &History, events: usize) -> Vec<Operation> {
        let mut operations: Vec<(CallId, Operation)> = Vec::new();
        for (at, event) in history.events.iter().take(events).enumerate() {
            match &event.kind {
                EventKind::Called { call, what } if what.object == self.object => {
                    let operation = Operation {
                        client: call.0.0,
                        call: Call::clone(what),
                        called_at: at as u64,
                        answer: None,
                    };
                    operations.push((*call, operation));
                }
                EventKind::Returned { call, answer, .. } => {
                    let own = operations.iter_mut().find(|(id, _)| id == call);
                    own.into_iter().for_each(|(_, own)| own.answer = Some((Value::clone(answer), at as u64)));
                }
                _ => {}
            }
        }
        operations.into_iter().map(|(_, operation)| operation).collect()
    }
}

impl<M: Model<Call = Call, Answer = Value> + Debug + Send + Sync> Oracle for Linearizable<M> {
    fn name(&self) -> &'static str {
        "linearizable"
    }

    fn judges(&self, history: &History) -> bool {
        let is_own =
            |kind: &EventKind| matches!(kind, EventKind::Returned { what, .. } if what.object == self.object);
        history.events.iter().any(|event| is_own(&event.kind))
    }

    fn wants(&self) -> Wanted {
        Wanted::Operation(self.object)
    }

    fn check(&self, history: &History) -> Option<Violation> {
        let unknown = history.events.iter().find_map(|event| match &event.kind {
            EventKind::Called { what, .. } if what.object == self.object && !self.model.knows(what) => {
                Some((event.step, what))
            }
            _ => None,
        });
        if let Some((step, call)) = unknown {
            return Some(Violation {
                step,
                what: format!("the model has no operation {call}: {:?}", self.model),
            });
        }
        let all = self.operations(history, history.events.len());
        linearize(&self.model, &all).err()?;
        // The first answer that nothing explains.
        let returns = history.events.iter().enumerate().filter_map(|(at, event)| match &event.kind {
            EventKind::Returned { what, .. } if what.object == self.object => Some((at + 1, event.step)),
            _ => None,
        });
        returns.into_iter().find_map(|(events, step)| {
            let operations = self.operations(history, events);
            linearize(&self.model, &operations).err()?;
            Some(Violation { step, what: unexplained(&operations) })
        })
    }
}

/// All operations with their answers, in words.
fn unexplained(operations: &[Operation]) -> String {
    let told = operations.iter().map(|Operation { client, call, answer, .. }| {
        let actor = crate::actor::Actor(*client);
        match answer {
            Some((answer, _)) => format!("{actor}: {call} → {answer}"),
            None => format!("{actor}: {call}, not answered"),
        }
    });
    format!(
        "no order of the operations, one after the other, explains their answers: {}",
        told.collect::<Vec<_>>().join("; ")
    )
}
