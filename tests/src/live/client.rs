//! A client, as its own code sees it: its clock, its names, its operations, and what it marks.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use locks::Record;

use super::clients::{Live, Terms};
use super::process::{Operation, ProcessId};
use super::{Act, Code as _, End, OperationId, Part};
use crate::actor::Actor;
use crate::linearizability::Call;
use crate::trace::{CallId, HoldId};

/// Most readings of a clock that are kept.
const READINGS_MAX: usize = 10_000;

/// A client, as its own code sees it.
#[derive(Clone)]
pub(crate) struct LiveClient {
    pub(super) live: Arc<Live>,
    pub(crate) actor: Actor,
    pub(super) process: ProcessId,
}

impl Live {
    /// A client, for its code. If it has crashed, it starts anew.
    pub(crate) fn client(self: &Arc<Live>, actor: Actor) -> LiveClient {
        let process = self.state().begin_process(actor);
        LiveClient { live: self.clone(), actor, process }
    }
}

impl LiveClient {
    /// The settings of the scenario.
    pub(crate) fn terms(&self) -> &Terms {
        &self.live.terms
    }

    /// True time since the start.
    pub(crate) fn now(&self) -> Duration {
        self.live.now()
    }

    /// The time that its clock shows, in milliseconds since the Unix epoch.
    pub(crate) fn clock_ms(&self) -> i64 {
        let mut state = self.live.state();
        let now = self.live.now();
        let error_ms = state.own(self.process).clock.error_ms(now);
        self.live.wall_time().millis() + error_ms
    }

    /// Reads its clock, in milliseconds since the Unix epoch.
    pub(crate) fn read_clock(&self) -> i64 {
        self.note(Act::ReadTime);
        let (read_ms, now) = (self.clock_ms(), self.now());
        let mut state = self.live.state();
        let readings = &mut state.own(self.process).readings;
        if readings.len() >= READINGS_MAX {
            readings.clear();
        }
        readings.insert(read_ms, now);
        read_ms
    }

    /// The true time at which it last read this from its clock.
    pub(crate) fn read_at(&self, read_ms: i64) -> Option<Duration> {
        self.live.state().own(self.process).readings.get(&read_ms).copied()
    }

    /// How far its clock has drifted by now.
    pub(crate) fn drift_ms(&self, now: Duration) -> i64 {
        self.live.state().own(self.process).clock.drift_ms(now)
    }

    /// The instant of the runtime's clock at this time.
    pub(crate) fn instant(&self, at: Duration) -> tokio::time::Instant {
        self.live.instant(at)
    }

    /// It does this.
    pub(crate) fn note(&self, act: Act) {
        self.live.note(self.process, act);
    }

    /// It does something that cannot be learned.
    pub(crate) fn note_sharing(&self) {
        self.live.note_sharing(self.process);
    }

    /// A name that no other client draws.
    pub(crate) fn draw_name(&self) -> String {
        self.note(Act::DrawName);
        let mut state = self.live.state();
        let own = state.own(self.process);
        own.names += 1;
        format!("{}{}", self.actor, own.names)
    }

    /// It enters a section.
    pub(crate) fn enter(
        &self,
        section: &'static str,
        since: Option<Duration>,
        record: Option<Record>,
    ) -> HoldId {
        let hold = {
            let mut state = self.live.state();
            let own = state.own(self.process);
            own.holds += 1;
            (self.actor, own.holds)
        };
        self.note(Act::Enter { hold, section, since, record });
        hold
    }

    /// It calls an operation.
    pub(crate) fn call(&self, what: Call) -> CallId {
        let id = {
            let mut state = self.live.state();
            let own = state.own(self.process);
            own.calls += 1;
            (self.actor, own.calls)
        };
        self.note(Act::Call { id, what: Arc::new(what) });
        id
    }

    /// Begins an operation that can be cancelled.
    pub(crate) fn begin_operation(&self) -> OperationId {
        let id = {
            let mut state = self.live.state();
            let own = state.own(self.process);
            own.n_operations += 1;
            let id = (self.actor, own.n_operations);
            own.operations.push(Operation { id, is_cancelled: false, waker: None });
            id
        };
        self.note(Act::BeginOperation { id });
        id
    }

    /// Ends an operation.
    pub(crate) fn end_operation(&self, id: OperationId) {
        self.note(Act::EndOperation { id });
        self.live.state().own(self.process).operations.retain(|operation| operation.id != id);
    }

    /// Records which operation is being polled, and returns the one before.
    pub(crate) fn set_operation(&self, id: Option<OperationId>) -> Option<OperationId> {
        std::mem::replace(&mut self.live.state().own(self.process).operation, id)
    }

    /// Whether an operation is cancelled. If it is not, the waker is woken when that changes.
    pub(crate) fn is_cancelled(&self, id: OperationId, waker: &Waker) -> bool {
        let mut state = self.live.state();
        let operations = &mut state.own(self.process).operations;
        let Some(operation) = operations.iter_mut().find(|operation| operation.id == id) else {
            return false;
        };
        operation.waker = Some(waker.clone());
        operation.is_cancelled
    }

    /// Runs code that belongs to this release, if it is one.
    pub(crate) fn releasing<R>(&self, id: Option<HoldId>, act: impl FnOnce() -> R) -> R {
        let set = |id| std::mem::replace(&mut self.live.state().own(self.process).releasing, id);
        let outer = set(id);
        let result = act();
        set(outer);
        result
    }

    /// If a client sends bytes, the first request that comes out of the stream after a release
    /// began is the release.
    pub(crate) fn set_release_to_come(&self, id: Option<HoldId>) -> Option<HoldId> {
        std::mem::replace(&mut self.live.state().own(self.process).release_to_come, id)
    }

    /// Whether it stands still. If it does, the waker is woken when it goes on.
    pub(crate) fn stands_still(&self, part: Part, waker: &Waker) -> bool {
        let mut state = self.live.state();
        let pause = state.own(self.process).pause.as_mut();
        pause.map(|woken| woken.push((part, waker.clone()))).is_some()
    }

    /// Its code is about to be polled. Returns `false` if that happened too often in this turn.
    pub(crate) fn may_poll(&self, polls_max: u64) -> bool {
        self.live.poll(self.actor, polls_max)
    }

    /// Something has woken its code.
    pub(crate) fn is_woken(&self) {
        self.live.is_woken(self.actor);
    }

    /// Its code has been polled. `tasks_before` is the number of tasks before that.
    pub(crate) fn polled(&self, tasks_before: usize) {
        self.live.polled(self.actor, tasks_before);
    }

    /// Runs its code.
    pub(crate) fn running<R>(&self, act: impl FnOnce() -> R) -> R {
        self.live.quiescence.running(self.actor, act)
    }

    /// Its code has ended.
    pub(crate) fn end(&self, end: End) {
        self.running(|| self.note(Act::End(end)));
    }

    /// Its own task has ended, for whatever reason.
    pub(crate) fn task_ended(&self) {
        self.live.state().own(self.process).has_ended = true;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Told;
    use super::super::clients::tests::with_live;
    use super::*;

    const A: Actor = Actor(0);

    #[test]
    fn whatever_a_client_does_is_numbered() {
        with_live(|live| {
            let client = live.client(A);
            assert_eq!([(); 2].map(|()| client.draw_name()), ["A1", "A2"]);
            assert_eq!([(); 2].map(|()| client.enter("cs", None, None)), [(A, 1), (A, 2)]);
            let call = || Call { object: "", name: "pop", args: serde_json::Value::Null };
            assert_eq!([(); 2].map(|()| client.call(call())), [(A, 1), (A, 2)]);
            assert_eq!([(); 2].map(|()| client.begin_operation()), [(A, 1), (A, 2)]);
        });
    }

    /// Code that passes on a time by its clock means the true time at which it read that.
    #[test]
    fn readings_of_a_clock_are_kept() {
        with_live(|live| {
            let client = live.client(A);
            let read = || (client.read_clock(), client.now());
            live.deliver(A, &Told::Clock { skew_ms: -7, drift_ppm: 1_000 });
            let first = read();
            live.take_noticed(&|_| true);
            live.move_time(Duration::from_secs(5));
            let second = read();
            assert_eq!(second.0, first.0 + 5_000 + 5);
            assert_eq!(
                [first, second].map(|(read_ms, _)| client.read_at(read_ms)),
                [Some(first.1), Some(second.1)]
            );
            assert_eq!(client.read_at(first.0 + 1), None);
            assert_eq!(client.drift_ms(client.now()), 5);
        });
    }

    #[test]
    fn operations_are_cancelled_until_they_end() {
        with_live(|live| {
            let client = live.client(A);
            let [one, other] = [(); 2].map(|()| client.begin_operation());
            assert_eq!(client.set_operation(Some(one)), None);
            assert_eq!(client.set_operation(None), Some(one));
            let cancelled = || [one, other].map(|id| client.is_cancelled(id, Waker::noop()));
            assert_eq!(cancelled(), [false, false]);
            live.deliver(A, &Told::Cancelled(other));
            assert_eq!(cancelled(), [false, true]);
            client.end_operation(one);
            live.deliver(A, &Told::Cancelled(one));
            assert_eq!(cancelled(), [false, true]);
        });
    }

    #[test]
    fn releases_can_be_inside_of_each_other() {
        with_live(|live| {
            let client = live.client(A);
            let releasing = || live.state().own(client.process).releasing;
            let (outer, inner) = ((A, 1), (A, 2));
            let seen = client.releasing(Some(outer), || {
                [client.releasing(Some(inner), releasing), client.releasing(None, releasing), releasing()]
            });
            assert_eq!(seen, [Some(inner), None, Some(outer)]);
            assert_eq!(releasing(), None);
            assert_eq!(client.set_release_to_come(Some(outer)), None);
            assert_eq!(client.set_release_to_come(None), Some(outer));
        });
    }
}
