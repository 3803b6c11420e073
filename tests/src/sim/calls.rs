//! Calls of operations. A call counts from the first thing that others can notice: before that, its
//! client could as well have done something else.

use std::sync::Arc;

use serde_json::Value;

use super::World;
use super::world::OpenCall;
use crate::actor::Actor;
use crate::linearizability::Call;
use crate::trace::{CallId, EventKind};

impl World {
    /// A client calls an operation.
    pub(super) fn call(&mut self, id: CallId, what: Arc<Call>) {
        self.calls.push(OpenCall { id, what, has_read_clock: false, is_recorded: false });
    }

    /// A client has the answer to its call.
    pub(super) fn return_from(&mut self, id: CallId, answer: Arc<Value>) {
        self.record_calls(|call| call.id == id);
        let open = self.calls.extract_if(.., |call| call.id == id).next();
        if let Some(OpenCall { what, .. }) = open {
            self.record(EventKind::Returned { call: id, what, answer });
        }
    }

    /// The calls of a crashed client never return.
    pub(super) fn drop_calls(&mut self, actor: Actor) {
        self.calls.retain(|call| call.id.0 != actor);
    }

    /// A client reads its clock.
    pub(super) fn note_clock_read_in_calls(&mut self, actor: Actor) {
        let own = self.calls.iter_mut().filter(|call| call.id.0 == actor);
        own.for_each(|call| call.has_read_clock = true);
    }

    /// A request of this client is sent, or its next turn begins.
    pub(super) fn record_calls_of(&mut self, actor: Actor) {
        self.record_calls(|call| call.id.0 == actor);
    }

    /// The turn of this client ends. If it waits for anything but a request, it may notice how time
    /// passes.
    pub(super) fn record_calls_without_request(&mut self, actor: Actor) {
        if !self.calls.is_empty() && !self.has_request(actor) {
            self.record_calls_of(actor);
        }
    }

    /// Time is about to move. A client that has read its clock did so before.
    pub(crate) fn record_calls_with_clock_read(&mut self) {
        self.record_calls(|call| call.has_read_clock);
    }

    fn record_calls(&mut self, counts: impl Fn(&OpenCall) -> bool) {
        let is_new = |call: &&mut OpenCall| !call.is_recorded && counts(call);
        let new: Vec<EventKind> = self.calls.iter_mut().filter(is_new).map(OpenCall::recorded).collect();
        new.into_iter().for_each(|kind| self.record(kind));
    }
}

impl OpenCall {
    /// It is in the history from now on.
    fn recorded(&mut self) -> EventKind {
        self.is_recorded = true;
        EventKind::Called { call: self.id, what: self.what.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{ActorState, Gate};
    use super::*;

    const A: Actor = Actor(0);
    const B: Actor = Actor(1);

    /// Two clients that have called an operation each.
    fn both_call() -> World {
        let mut world = World::default();
        for actor in [A, B] {
            world.actors.push(ActorState::new(actor));
            world.call((actor, 1), Arc::new(Call { object: "", name: "push", args: Value::Null }));
        }
        world
    }

    /// The clients whose calls are in the history.
    fn recorded(world: &World) -> Vec<Actor> {
        let events = world.history().events.iter();
        let calls = events.filter_map(|event| match event.kind {
            EventKind::Called { call: (actor, _), .. } => Some(actor),
            _ => None,
        });
        calls.collect()
    }

    #[test]
    fn a_call_is_dated_by_the_clock_that_it_has_read() {
        let mut world = both_call();
        world.record_calls_with_clock_read();
        assert_eq!(recorded(&world), []);
        world.note_clock_read_in_calls(B);
        world.now = Duration::from_secs(1);
        world.record_calls_with_clock_read();
        world.record_calls_with_clock_read();
        assert_eq!(recorded(&world), [B]);
    }

    /// A request counts when it is sent, and not when it comes to its gate.
    #[test]
    fn a_call_that_waits_for_no_request_has_begun() {
        let mut world = both_call();
        world.gates.push(Gate::new(B, 0, 0));
        world.wait_at(0);
        world.record_calls_without_request(B);
        assert_eq!(recorded(&world), []);
        world.record_calls_without_request(A);
        assert_eq!(recorded(&world), [A]);
        world.record_calls_of(B);
        assert_eq!(recorded(&world), [A, B]);
    }

    #[test]
    fn a_crashed_client_has_called_nothing_that_it_did_not_send() {
        let mut world = both_call();
        world.drop_calls(A);
        [A, B].into_iter().for_each(|actor| world.record_calls_of(actor));
        assert_eq!(recorded(&world), [B]);
    }
}
