//! Operations of clients that can be cancelled.

use std::task::Waker;

use super::gate::Gate;
use super::told::Told;
use super::turns::Act;
use super::{Simulation, State};
use crate::actor::Actor;

/// Identifies an operation that can be cancelled: its actor, and its number among those of the
/// actor.
pub(crate) type OperationId = (Actor, usize);

/// An operation that can be cancelled.
#[derive(Clone)]
pub(super) struct Operation {
    pub(super) id: OperationId,
    pub(super) is_cancelled: bool,
    /// Wakes the task that polls it.
    pub(super) waker: Option<Waker>,
}

impl Simulation {
    /// Begins an operation that can be cancelled.
    pub(crate) fn begin_operation(&self, actor: Actor) -> OperationId {
        self.note(actor, || Act::BeginOperation);
        let mut state = self.state();
        let idx = state.idx(actor);
        state.actors[idx].operations += 1;
        let id = (actor, state.actors[idx].operations);
        state.operations.push(Operation { id, is_cancelled: false, waker: None });
        id
    }

    /// Ends an operation.
    pub(crate) fn end_operation(&self, id: OperationId) {
        self.note(id.0, || Act::EndOperation { id });
        self.state().operations.retain(|operation| operation.id != id);
    }

    /// Records which operation is being polled, and returns the one before.
    pub(crate) fn set_operation(&self, actor: Actor, id: Option<OperationId>) -> Option<OperationId> {
        let mut state = self.state();
        let idx = state.idx(actor);
        std::mem::replace(&mut state.actors[idx].operation, id)
    }

    /// Whether an operation is cancelled. If it is not, the waker is woken when that changes.
    pub(crate) fn is_cancelled(&self, id: OperationId, waker: &Waker) -> bool {
        let mut state = self.state();
        let Some(operation) = state.operations.iter_mut().find(|operation| operation.id == id) else {
            return false;
        };
        operation.waker = Some(waker.clone());
        operation.is_cancelled
    }

    /// Cancels the latest operation of an actor.
    pub(crate) fn cancel(&self, actor: Actor) {
        let id = self.state().operation(actor);
        self.cancel_operation(actor, id);
    }

    /// Cancels the operation of the request at a gate.
    pub(crate) fn cancel_request(&self, gate: usize) {
        let Gate { actor, operation: id, .. } = self.state().gates[gate];
        self.cancel_operation(actor, id);
    }

    pub(super) fn cancel_operation(&self, actor: Actor, id: Option<OperationId>) {
        if let Some(id) = id {
            self.tell(actor, || ("cancel", id), || Told::Cancelled(id));
            let mut state = self.state();
            state.actor(actor).is_told = true;
            state.cancel(id);
        }
    }
}

impl State {
    /// Ends all operations of a client.
    pub(super) fn end_operations(&mut self, actor: Actor) {
        self.operations.retain(|operation| operation.id.0 != actor);
    }

    /// The latest operation of an actor that is not cancelled.
    pub(crate) fn operation(&self, actor: Actor) -> Option<OperationId> {
        let mut operations = self.operations.iter().rev();
        operations
            .find(|operation| operation.id.0 == actor && !operation.is_cancelled)
            .map(|latest| latest.id)
    }

    /// Whether there is such an operation and it is not cancelled.
    pub(crate) fn can_cancel(&self, id: Option<OperationId>) -> bool {
        id.is_some_and(|id| self.operations.iter().any(|other| other.id == id && !other.is_cancelled))
    }

    fn cancel(&mut self, id: OperationId) {
        self.recorder.reached().cancel = true;
        let mut operations = self.operations.iter_mut();
        if let Some(operation) = operations.find(|operation| operation.id == id) {
            operation.is_cancelled = true;
            let waker = operation.waker.take();
            self.wake(id.0, waker);
        }
    }
}
