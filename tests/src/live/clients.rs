//! The live clients of an execution: code that runs, on one paused runtime.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;
use std::time::Duration;

use emulator::Timestamp;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::port::Inbox;
use super::process::{ClockError, Own, ProcessId, State};
use super::{Act, Begun, Code, Moved, Noticed, Quiescence, Told};
use crate::actor::Actor;

/// The settings of a scenario, as far as the code of clients depends on them.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) lease: Duration,
    /// The lease of each actor.
    pub(crate) leases: Vec<Duration>,
    /// The number of servers.
    pub(crate) servers: usize,
    /// How long clients wait for a reply. `None` is for ever.
    pub(crate) response_timeout: Option<Duration>,
}

impl Terms {
    /// How long the grants of an actor last.
    pub(crate) fn lease_of(&self, actor: Actor) -> Duration {
        self.leases.get(actor.0).copied().unwrap_or(self.lease)
    }
}

/// Most times that the runtime parks in one execution: each time a timer fires, or clients do what
/// they can. Code that polls every millisecond ends here, however far a schedule moves the time.
const PARKS_MAX: u64 = 1_000_000;

/// The clients of an execution whose code runs.
pub(crate) struct Live {
    /// The tasks of clients have a share in this, and must not keep the runtime that runs them.
    runtime: Weak<Runtime>,
    pub(crate) quiescence: Arc<Quiescence>,
    pub(super) terms: Terms,
    /// The runtime may park this often, counted from its start.
    parks_max: u64,
    origin: Instant,
    /// The time in nanoseconds while it stands still, or [`MOVES`].
    time: AtomicU64,
    /// The time of day at the start, in milliseconds since the Unix epoch.
    start_ms: AtomicI64,
    state: Mutex<State>,
}

const MOVES: u64 = u64::MAX;

impl Live {
    /// Clients whose code runs on this paused runtime, at this time of day. The runtime has to be
    /// entered, now and whenever code starts.
    pub(super) fn new(
        runtime: &Arc<Runtime>,
        quiescence: Arc<Quiescence>,
        terms: Terms,
        start: Timestamp,
    ) -> Arc<Live> {
        #[expect(clippy::disallowed_methods, reason = "the paused clock of this execution's own runtime")]
        let origin = Instant::now();
        let (time, start_ms, state) = (AtomicU64::new(0), AtomicI64::new(start.millis()), Mutex::default());
        quiescence.set_news(false);
        let (runtime, parks_max) = (Arc::downgrade(runtime), quiescence.parks() + PARKS_MAX);
        Arc::new(Live { runtime, quiescence, terms, parks_max, origin, time, start_ms, state })
    }

    /// Runs tasks until this resolves.
    fn block_on<R>(&self, running: impl Future<Output = R>) -> R {
        self.runtime.upgrade().expect("the runner has the runtime").block_on(running)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_moving(&self) -> bool {
        self.time.load(Ordering::Relaxed) == MOVES
    }

    fn moving_now(&self) -> Duration {
        #[expect(clippy::disallowed_methods, reason = "the paused clock of this execution's own runtime")]
        Instant::now().duration_since(self.origin)
    }

    /// The true time of day.
    pub(super) fn wall_time(&self) -> Timestamp {
        Timestamp::from_millis(self.start_ms.load(Ordering::Relaxed)) + self.now()
    }

    pub(crate) fn instant(&self, at: Duration) -> Instant {
        self.origin + at
    }

    /// A client does this. A crashed one does nothing more, even if a task of it still runs.
    pub(super) fn note(&self, process: ProcessId, act: Act) {
        let running = self.quiescence.runs_now();
        let timer = self.is_moving().then(|| self.moving_now());
        let mut state = self.state();
        let own = state.own(process);
        let actor = own.actor;
        if own.is_crashed {
            return;
        }
        if running.is_some_and(|running| running != actor) {
            own.is_sharing = true;
        } else {
            own.wake(timer);
        }
        let begun = self.begin(&mut state, actor);
        begun.by_task |= running.is_none();
        begun.turn.acts.push(act);
    }

    /// The number of the task that sends a request of this client now. The actor's own code is 0.
    pub(super) fn sending_task(&self, process: ProcessId) -> usize {
        let spawned = if self.quiescence.runs_now().is_none() { tokio::task::try_id() } else { None };
        spawned.map_or(0, |id| self.state().own(process).task_number(id))
    }

    /// A client does something that cannot be learned.
    pub(super) fn note_sharing(&self, process: ProcessId) {
        self.state().own(process).is_sharing = true;
    }

    /// The turn of a client begins, unless it has begun.
    fn begin<'a>(&self, state: &'a mut State, actor: Actor) -> &'a mut Begun {
        if state.of(actor).turn.is_none() {
            state.begun.push(actor);
            self.quiescence.set_news(true);
        }
        state.of(actor).turn.get_or_insert_default()
    }

    pub(super) fn is_woken(&self, actor: Actor) {
        let timer = self.is_moving().then(|| self.moving_now());
        self.state().of(actor).wake(timer);
    }

    pub(super) fn poll(&self, actor: Actor, polls_max: u64) -> bool {
        let mut state = self.state();
        let turn = &mut self.begin(&mut state, actor).turn;
        turn.polls += 1;
        turn.polls <= polls_max
    }

    pub(super) fn polled(&self, actor: Actor, tasks_before: usize) {
        if let Some(begun) = &mut self.state().of(actor).turn {
            begun.spawned += tasks().cast_signed() - tasks_before.cast_signed();
        }
    }

    /// The code of a client runs as this task.
    pub(super) fn keep_task(&self, actor: Actor, task: AbortHandle) {
        self.state().of(actor).task = Some(task);
    }

    /// Ends the code of all clients.
    pub(crate) fn end_all(&self) {
        self.state().clients.iter().filter_map(|own| own.task.as_ref()).for_each(AbortHandle::abort);
    }
}

impl Code for Live {
    fn start_at(&self, start: Timestamp) {
        self.start_ms.store(start.millis(), Ordering::Relaxed);
    }

    fn now(&self) -> Duration {
        match self.time.load(Ordering::Relaxed) {
            MOVES => self.moving_now(),
            nanos => Duration::from_nanos(nanos),
        }
    }

    fn run(&self) {
        self.block_on(self.quiescence.wait());
    }

    fn move_time(&self, until: Duration) -> Moved {
        // While time stands still, its value is kept: reading tokio's clock is slow.
        self.time.store(MOVES, Ordering::Relaxed);
        let is_there = self.block_on(async {
            let is_there = tokio::select! {
                biased;
                () = self.quiescence.wait_for_news(self.parks_max) => false,
                // If the driver sleeps too, the runtime moves its paused clock from timer to timer.
                () = tokio::time::sleep_until(self.instant(until)) => true,
            };
            if is_there {
                self.quiescence.wait().await;
            }
            is_there
        });
        let nanos = u64::try_from(self.moving_now().as_nanos()).unwrap_or(MOVES);
        self.time.store(nanos, Ordering::Relaxed);
        match is_there {
            true => Moved::There,
            false if self.quiescence.parks() >= self.parks_max => Moved::TooOften,
            false => Moved::UntilAct,
        }
    }

    fn take_noticed(&self, can_run: &dyn Fn(Actor) -> bool) -> Vec<Noticed> {
        let mut state = self.state();
        state.has_told = false;
        for place in 0..state.clients.len() {
            let own = &mut state.clients[place];
            let is_due = own.is_told && own.pause.is_none() && own.turn.is_none() && !own.is_crashed;
            if is_due && can_run(own.actor) {
                own.is_told = false;
                let actor = own.actor;
                self.begin(&mut state, actor);
            }
        }
        self.quiescence.set_news(false);
        let mut order = std::mem::take(&mut state.begun);
        let is_news = |own: &&Own| own.fired.is_some() || own.is_sharing || own.has_ended || own.is_awake();
        let others = state.clients.iter().filter(is_news);
        let others: Vec<Actor> = others.map(|own| own.actor).filter(|actor| !order.contains(actor)).collect();
        order.extend(others);
        let noticed = order.into_iter().map(|actor| {
            let own = state.of(actor);
            Noticed {
                actor,
                fired: own.fired.take(),
                is_sharing: std::mem::take(&mut own.is_sharing),
                has_ended: std::mem::take(&mut own.has_ended) && own.is_crashed,
                is_awake: own.is_awake(),
                begun: own.turn.take(),
            }
        });
        noticed.collect()
    }

    fn has_told(&self) -> bool {
        self.state().has_told
    }

    fn deliver(&self, actor: Actor, told: &Told) -> bool {
        let mut state = self.state();
        let own = state.of(actor);
        let waker = match told {
            Told::Answered { nth, answer } => match own.ports.get_mut(*nth) {
                Some(port) => port.receive(Inbox::Answer(answer.clone())),
                None => return false,
            },
            Told::Heard { nth, message } => match own.ports.get_mut(*nth) {
                Some(port) => port.hear(message.clone()),
                None => return false,
            },
            Told::Cancelled(id) => {
                let operation = own.operations.iter_mut().find(|operation| operation.id == *id);
                operation.and_then(|operation| {
                    operation.is_cancelled = true;
                    operation.waker.take()
                })
            }
            Told::Clock { skew_ms, drift_ppm } => {
                own.clock = ClockError { skew_ms: *skew_ms, drift_ppm: *drift_ppm };
                return true;
            }
            Told::Turn | Told::Other => return false,
        };
        own.is_told = true;
        state.has_told = true;
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        true
    }

    fn end(&self, actor: Actor) {
        self.state().of(actor).task.iter().for_each(AbortHandle::abort);
    }

    fn crash(&self, actor: Actor) {
        self.state().of(actor).is_crashed = true;
        self.end(actor);
    }

    fn tasks(&self) -> usize {
        tasks()
    }

    fn is_expired(&self) -> bool {
        self.quiescence.is_expired()
    }

    fn pause(&self, actor: Actor) {
        self.state().of(actor).pause.get_or_insert_default();
    }

    fn resume(&self, actor: Actor) {
        let mut state = self.state();
        let Some(mut woken) = state.of(actor).pause.take() else { return };
        if !woken.is_empty() {
            state.of(actor).is_told = true;
            state.has_told = true;
        }
        drop(state);
        woken.sort_by_key(|&(part, _)| part);
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

/// How many tasks there are.
pub(super) fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}
