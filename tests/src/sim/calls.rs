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
