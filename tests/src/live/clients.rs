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
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    pub(crate) lease: Duration,
    /// The lease of each actor.
    pub(crate) leases: Vec<Duration>,
    /// The number of servers.
    pub(crate) servers: usize,
    /// How many replicas of each server clients can read.
    pub(crate) readable: usize,
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

#[cfg(test)]
pub(super) mod tests {
    use super::super::port::Port;
    use super::super::process::Operation;
    use super::super::{Answer, Part, PausedRuntime, Traffic};
    use super::*;

    const A: Actor = Actor(0);
    const B: Actor = Actor(1);
    const SECOND: Duration = Duration::from_secs(1);
    const START: Timestamp = Timestamp::from_millis(1_000);

    /// Clients on a runtime that is entered.
    pub(in super::super) fn with_live(act: impl FnOnce(&mut Arc<Live>)) {
        let paused = PausedRuntime::default();
        let runtime = paused.get();
        let _entered = runtime.enter();
        let terms = Terms { lease: SECOND, leases: vec![2 * SECOND], servers: 1, ..Terms::default() };
        act(&mut paused.clients(terms, START));
    }

    /// The clients that have done something, with their turns, if these have begun.
    fn noticed(live: &Live) -> Vec<(Actor, Option<Begun>)> {
        live.take_noticed(&|_| true).into_iter().map(|noticed| (noticed.actor, noticed.begun)).collect()
    }

    #[test]
    fn an_actor_has_its_own_lease_or_that_of_all() {
        with_live(|live| assert_eq!([A, B].map(|actor| live.terms.lease_of(actor)), [2 * SECOND, SECOND]));
    }

    #[test]
    fn time_moves_to_its_end_or_until_a_client_acts() {
        with_live(|live| {
            let sleeps = |client: super::super::LiveClient| async move {
                tokio::time::sleep(SECOND).await;
                client.draw_name();
                Ok::<(), String>(())
            };
            live.start(A, sleeps, |()| true, 10);
            live.run();
            assert_eq!(live.take_noticed(&|_| true)[0].fired, None);
            assert_eq!((live.move_time(3 * SECOND), live.now()), (Moved::UntilAct, SECOND));
            assert_eq!(live.take_noticed(&|_| true)[0].fired, Some(SECOND));
            assert_eq!((live.move_time(3 * SECOND), live.now()), (Moved::There, 3 * SECOND));
            assert_eq!(live.wall_time(), START + 3 * SECOND);
            assert_eq!(live.instant(4 * SECOND), live.origin + 4 * SECOND);
        });
    }

    /// Nobody notices a task that only sleeps, so it ends at this limit.
    #[test]
    fn timers_fire_a_limited_number_of_times() {
        with_live(|live| {
            Arc::get_mut(live).unwrap().parks_max = 10;
            tokio::spawn(async {
                loop {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
            assert_eq!(live.move_time(SECOND), Moved::TooOften);
            assert!(live.now() < SECOND && !live.is_expired());
            live.quiescence.expire();
            assert!(live.is_expired());
        });
    }

    #[test]
    fn acts_belong_to_the_code_or_to_a_task_of_a_client() {
        with_live(|live| {
            let process = live.state().begin_process(A);
            let note = || live.note(process, Act::DrawName);
            live.quiescence.running(A, note);
            let by = |live: &Live| {
                let noticed = live.take_noticed(&|_| true).remove(0);
                let Begun { by_task, turn, .. } = noticed.begun.unwrap();
                (turn.acts.len(), by_task, noticed.is_sharing)
            };
            assert_eq!(by(live), (1, false, false));
            // Code that nothing has woken shares something with what woke it.
            note();
            live.quiescence.running(A, note);
            assert_eq!(by(live), (2, true, true));
            live.state().of(A).is_told = true;
            live.quiescence.running(B, note);
            assert_eq!(by(live), (1, false, true));
        });
    }

    #[test]
    fn spawned_tasks_have_numbers_from_1() {
        with_live(|live| {
            let process = live.state().begin_process(A);
            let number = |live: &Arc<Live>| {
                let (live, spawned) = (live.clone(), live.clone());
                let task = async move { spawned.sending_task(process) };
                live.block_on(async { tokio::spawn(task).await.unwrap() })
            };
            assert_eq!([number(live), number(live)], [1, 2]);
            assert_eq!(live.sending_task(process), 0);
            let own = live.clone();
            let task = async move { own.quiescence.running(A, || own.sending_task(process)) };
            assert_eq!(live.block_on(async { tokio::spawn(task).await.unwrap() }), 0);
        });
    }

    /// Whoever was told something has a turn, unless it stands still, has crashed or cannot run.
    #[test]
    fn the_turns_of_clients_begin_when_they_were_told_something() {
        with_live(|live| {
            let actors =
                |live: &Live| noticed(live).into_iter().map(|(actor, begun)| (actor, begun.is_some()));
            let begun = |live: &Live| actors(live).collect::<Vec<_>>();
            for actor in [A, B] {
                live.state().begin_process(actor);
            }
            assert!(live.take_noticed(&|_| false).is_empty());
            assert_eq!(begun(live), [(A, true), (B, true)]);
            assert_eq!(begun(live), []);
            let tell = |live: &Live| live.state().clients.iter_mut().for_each(|own| own.is_told = true);
            tell(live);
            live.pause(A);
            assert_eq!(begun(live), [(B, true)]);
            live.resume(A);
            assert!(!live.has_told(), "nothing woke it meanwhile");
            assert_eq!(begun(live), [(A, true)]);
            // Turns that have begun come first. What is told in a turn leads to another one.
            live.poll(B, 1);
            live.poll(A, 1);
            tell(live);
            assert_eq!(begun(live), [(B, true), (A, true)]);
            assert_eq!(begun(live), [(A, true), (B, true)]);
            live.note_sharing(0);
            live.poll(B, 1);
            assert_eq!(begun(live), [(B, true), (A, false)]);
            tell(live);
            live.crash(A);
            assert_eq!(begun(live), [(B, true)]);
        });
    }

    #[test]
    fn a_client_that_stood_still_is_told_what_woke_it() {
        with_live(|live| {
            live.state().of(A).is_told = false;
            live.pause(A);
            let wake = |part| live.state().of(A).pause.as_mut().unwrap().push((part, Waker::noop().clone()));
            wake(Part::Driver);
            let is_awake = |live: &Live| live.take_noticed(&|_| true).first().map(|noticed| noticed.is_awake);
            assert_eq!(is_awake(live), None);
            wake(Part::Main);
            assert_eq!(is_awake(live), Some(true));
            live.resume(A);
            assert!(live.has_told());
            assert_eq!(is_awake(live), Some(false));
        });
    }

    #[test]
    fn clients_are_told_what_there_is_to_be_told() {
        with_live(|live| {
            let answer = |nth| Told::Answered { nth, answer: Answer::Waits };
            assert!(!live.deliver(A, &answer(0)) && !live.deliver(A, &Told::Heard { nth: 0, message: None }));
            assert!(live.deliver(A, &Told::Clock { skew_ms: 1, drift_ppm: 2 }));
            assert!(!live.deliver(A, &Told::Turn) && !live.has_told());
            live.state().of(A).ports.push(Port::new(0, Traffic::Requests));
            assert!(live.deliver(A, &answer(0)) && live.has_told());
            assert!(!live.deliver(A, &answer(1)));
            let operation = |nth| Operation { id: (A, nth), is_cancelled: false, waker: None };
            live.state().of(A).operations.extend([operation(1), operation(2)]);
            assert!(live.deliver(A, &Told::Cancelled((A, 2))));
            let cancelled: Vec<bool> =
                live.state().of(A).operations.iter().map(|op| op.is_cancelled).collect();
            assert_eq!(cancelled, [false, true]);
        });
    }
}
