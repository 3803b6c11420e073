//! Operations of clients that can be cancelled.

use super::gate::Gate;
use super::world::Operation;
use super::{Simulation, World};
use crate::actor::Actor;
use crate::live::{OperationId, Told};

impl Simulation {
    /// Cancels the latest operation of an actor.
    pub(crate) fn cancel(&mut self, actor: Actor) {
        let id = self.world.operation(actor);
        self.cancel_operation(actor, id);
    }

    /// Cancels the operation of the request at a gate.
    pub(crate) fn cancel_request(&mut self, gate: usize) {
        let Gate { actor, operation: id, .. } = self.world.gates[gate];
        self.cancel_operation(actor, id);
    }

    fn cancel_operation(&mut self, actor: Actor, id: Option<OperationId>) {
        if let Some(id) = id {
            self.world.cancel(id);
            self.tell(actor, &Told::Cancelled(id));
        }
    }
}

impl World {
    /// A client begins an operation that can be cancelled.
    pub(super) fn begin_operation(&mut self, id: OperationId) {
        self.operations.push(Operation { id, is_cancelled: false });
    }

    /// A client ends an operation.
    pub(super) fn end_operation(&mut self, id: OperationId) {
        self.operations.retain(|operation| operation.id != id);
    }

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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Actor = Actor(0);
    const B: Actor = Actor(1);

    /// Operations of two clients, those of A inside of each other.
    fn world() -> World {
        let mut world = World::default();
        [(A, 1), (B, 1), (A, 2)].into_iter().for_each(|id| world.begin_operation(id));
        world
    }

    #[test]
    fn the_latest_operation_of_a_client_is_cancelled_first() {
        let mut world = world();
        assert_eq!(world.operation(A), Some((A, 2)));
        world.cancel((A, 2));
        assert!(!world.can_cancel(Some((A, 2))) && world.can_cancel(Some((A, 1))));
        assert_eq!((world.operation(A), world.operation(B)), (Some((A, 1)), Some((B, 1))));
        assert!(!world.can_cancel(Some((B, 2))) && !world.can_cancel(None));
    }

    #[test]
    fn operations_end_alone_or_with_their_client() {
        let mut world = world();
        world.end_operation((A, 2));
        assert_eq!(world.operation(A), Some((A, 1)));
        world.end_operations(A);
        assert_eq!((world.operation(A), world.operation(B)), (None, Some((B, 1))));
    }
}
