//! The state of the clients whose code runs: of each of their processes, and of all together.

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Duration;

use tokio::task::AbortHandle;

use super::port::Port;
use super::{Begun, OperationId, Part};
use crate::actor::Actor;
use crate::trace::HoldId;

/// The state of all clients.
#[derive(Default)]
pub(super) struct State {
    pub(super) clients: Vec<Own>,
    /// The clients whose turns have begun, in order.
    pub(super) begun: Vec<Actor>,
    /// A client was told something since its turns were last taken.
    pub(super) has_told: bool,
}

/// Identifies a process by its place among all. A client that starts anew is another process.
pub(super) type ProcessId = usize;

/// The state of one process of a client.
pub(super) struct Own {
    pub(super) actor: Actor,
    pub(super) ports: Vec<Port>,
    pub(super) operations: Vec<Operation>,
    /// The operation that is being polled and can be cancelled. A request that is made now belongs
    /// to it.
    pub(super) operation: Option<OperationId>,
    /// The release that is being polled. A command that runs now belongs to it.
    pub(super) releasing: Option<HoldId>,
    /// The release that has begun, while no request of it has come out of the stream.
    pub(super) release_to_come: Option<HoldId>,
    pub(super) holds: usize,
    pub(super) n_operations: usize,
    pub(super) calls: usize,
    /// The tasks that have sent requests, besides the actor's own code.
    tasks: Vec<tokio::task::Id>,
    pub(super) names: u32,
    pub(super) clock: ClockError,
    /// The true time at which it last read each of these from its clock, in milliseconds.
    pub(super) readings: BTreeMap<i64, Duration>,
    pub(super) task: Option<AbortHandle>,
    pub(super) is_crashed: bool,
    /// It stands still: its tasks, as far as something has woken them.
    pub(super) pause: Option<Vec<(Part, Waker)>>,
    /// It is told something that it has not noticed yet: it starts, or a reply arrives.
    pub(super) is_told: bool,
    /// A timer of it has fired at this time, when nothing else had woken it.
    pub(super) fired: Option<Duration>,
    /// It gets more than it is told.
    pub(super) is_sharing: bool,
    /// Its own task has ended.
    pub(super) has_ended: bool,
    pub(super) turn: Option<Begun>,
}

/// An operation that can be cancelled.
pub(super) struct Operation {
    pub(super) id: OperationId,
    pub(super) is_cancelled: bool,
    /// Wakes the task that polls it.
    pub(super) waker: Option<Waker>,
}

/// The error of a clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClockError {
    pub(super) skew_ms: i64,
    pub(super) drift_ppm: i64,
}

impl ClockError {
    /// The whole error, this long after the start.
    pub(super) fn error_ms(self, now: Duration) -> i64 {
        self.skew_ms + self.drift_ms(now)
    }

    /// How far the clock has drifted, this long after the start.
    pub(super) fn drift_ms(self, now: Duration) -> i64 {
        (now.as_millis() as i64).saturating_mul(self.drift_ppm) / 1_000_000
    }
}

impl Own {
    fn new(actor: Actor) -> Own {
        Own {
            actor,
            ports: Vec::new(),
            operations: Vec::new(),
            operation: None,
            releasing: None,
            release_to_come: None,
            holds: 0,
            n_operations: 0,
            calls: 0,
            tasks: Vec::new(),
            names: 0,
            clock: ClockError::default(),
            readings: BTreeMap::new(),
            task: None,
            is_crashed: false,
            pause: None,
            is_told: true,
            fired: None,
            is_sharing: false,
            has_ended: false,
            turn: None,
        }
    }

    /// The number of this task, which sends a request.
    pub(super) fn task_number(&mut self, id: tokio::task::Id) -> usize {
        let known = self.tasks.iter().position(|known| *known == id);
        1 + known.unwrap_or_else(|| {
            self.tasks.push(id);
            self.tasks.len() - 1
        })
    }

    /// The process that comes after a crash. What it draws and numbers is new, and its connections
    /// take places of their own.
    fn next_process(&self) -> Own {
        let ports = self.ports.iter().map(Port::closed).collect();
        let Own { actor, holds, calls, names, clock, .. } = *self;
        Own { ports, holds, calls, names, clock, ..Own::new(actor) }
    }

    /// Whether it stands still, and something has woken its code.
    pub(super) fn is_awake(&self) -> bool {
        self.pause.iter().flatten().any(|&(part, _)| part == Part::Main)
    }

    /// It is woken. If nothing told it anything, a timer did it. While it stands still, the first
    /// timer wakes it, and the others find it awake.
    pub(super) fn wake(&mut self, timer: Option<Duration>) {
        let is_awake = self.turn.is_some() || self.is_awake();
        if std::mem::take(&mut self.is_told) || is_awake {
            return;
        }
        match timer {
            Some(at) => self.fired = self.fired.or(Some(at)),
            // Another client woke it.
            None => self.is_sharing = true,
        }
    }
}

impl State {
    /// The latest process of a client.
    fn latest(&mut self, actor: Actor) -> ProcessId {
        self.clients.iter().rposition(|own| own.actor == actor).unwrap_or_else(|| {
            self.clients.push(Own::new(actor));
            self.clients.len() - 1
        })
    }

    /// A client: its latest process.
    pub(super) fn of(&mut self, actor: Actor) -> &mut Own {
        let latest = self.latest(actor);
        self.own(latest)
    }

    /// A process of a client, which may have crashed.
    pub(super) fn own(&mut self, process: ProcessId) -> &mut Own {
        &mut self.clients[process]
    }

    /// The latest process of a client. After a crash another one begins.
    pub(super) fn begin_process(&mut self, actor: Actor) -> ProcessId {
        let latest = self.latest(actor);
        if !self.own(latest).is_crashed {
            return latest;
        }
        let next = self.own(latest).next_process();
        self.clients.push(next);
        self.clients.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::super::Traffic;
    use super::*;

    const A: Actor = Actor(0);
    const B: Actor = Actor(1);
    const SECOND: Duration = Duration::from_secs(1);

    /// A process that has noticed all that it was told.
    fn asleep() -> Own {
        Own { is_told: false, ..Own::new(A) }
    }

    #[test]
    fn tasks_have_the_numbers_in_which_they_first_send() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let [one, other] = [(); 2].map(|()| runtime.spawn(async {}).id());
        let mut own = asleep();
        assert_eq!([one, other, one].map(|id| own.task_number(id)), [1, 2, 1]);
    }

    #[test]
    fn a_clock_is_wrong_by_its_skew_and_by_its_drift() {
        let clock = ClockError { skew_ms: 7, drift_ppm: -2_000 };
        let errors = |secs| (clock.error_ms(secs * SECOND), clock.drift_ms(secs * SECOND));
        assert_eq!([errors(0), errors(3)], [(7, 0), (1, -6)]);
    }

    /// The next process numbers what it does behind the former one, on connections of its own.
    #[test]
    fn a_process_begins_after_a_crash() {
        let mut state = State::default();
        assert_eq!([A, B, A].map(|actor| state.begin_process(actor)), [0, 1, 0]);
        let used = state.of(A);
        (used.holds, used.calls, used.names) = (1, 2, 3);
        used.clock = ClockError { skew_ms: 4, drift_ppm: 5 };
        used.ports.push(Port::new(0, Traffic::Requests));
        used.is_crashed = true;
        assert_eq!([A, A, B].map(|actor| state.begin_process(actor)), [2, 2, 1]);
        let next = state.of(A);
        assert_eq!((next.holds, next.calls, next.names), (1, 2, 3));
        assert_eq!((next.clock.skew_ms, next.clock.drift_ppm), (4, 5));
        assert!(next.ports[0].is_free(0) && !next.is_crashed && next.is_told);
        assert!(state.own(0).is_crashed);
    }

    #[test]
    fn a_client_is_woken_by_what_it_is_told_or_by_a_timer_or_by_another() {
        let woken = |mut own: Own, timer: Option<Duration>| {
            own.wake(timer);
            assert!(!own.is_told);
            (own.fired, own.is_sharing)
        };
        let paused = |part| Own { pause: Some(vec![(part, Waker::noop().clone())]), ..asleep() };
        let timer = Some(SECOND);
        assert_eq!(woken(asleep(), timer), (timer, false));
        assert_eq!(woken(asleep(), None), (None, true));
        for told in [None, timer] {
            assert_eq!(woken(Own::new(A), told), (None, false));
            // It is awake already.
            assert_eq!(woken(Own { turn: Some(Begun::default()), ..asleep() }, told), (None, false));
            assert_eq!(woken(paused(Part::Main), told), (None, false));
        }
        // Only a driver is awake.
        assert_eq!(woken(paused(Part::Driver), timer), (timer, false));
        // The first timer counts.
        assert_eq!(
            woken(Own { fired: Some(Duration::ZERO), ..asleep() }, timer),
            (Some(Duration::ZERO), false)
        );
    }
}
