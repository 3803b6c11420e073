//! The state that the clients of one execution share: gates, servers, time, and the history.

mod server;
mod quiescence;
mod real_time;
mod timer_cache;
mod operations;
mod pause;
mod probes;
mod retries;
mod request;
mod session;
mod gate;
mod state;
mod shared_list;
mod learned;
mod learned_clients;
mod turns;
mod told;
mod subscriptions;
mod known_servers;
mod saved;
mod checkpoints;
mod details;
mod serve;
mod instants;
mod holds;
mod server_faults;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use emulator::{Clock, Emulator, Timestamp};
use tokio::time::Instant;

use crate::actor::Actor;
use crate::fault::{Fault, Faults, RequestFault, RequestOutcome};
use crate::render::script_name;
use crate::trace::{EventKind, HoldId, LeftBy, Struck};

pub(crate) use checkpoints::Checkpoints;
pub(crate) use gate::{Gate, GateState, Passage, Pending, Traffic};
use known_servers::Place;
pub(crate) use learned::{Difference, Key, Lack, Learned};
pub(crate) use learned_clients::{Clients, Unknown};
pub(crate) use operations::OperationId;
pub(crate) use pause::Part;
pub(crate) use quiescence::Quiescence;
pub(crate) use real_time::RealTime;
pub(crate) use request::{Request, RequestKind};
pub(crate) use retries::{Livelock, Retry, Tries};
pub(crate) use saved::Saved;
pub(crate) use serve::{Answer, Blocked, Loss};
pub use server::Server;
pub(crate) use server::connect;
pub(crate) use session::Session;
pub(crate) use shared_list::SharedList;
pub(crate) use state::{ActorState, State};
pub(crate) use timer_cache::{CodeId, ScenarioTimers, Thresholds, TimerCache, UnknownTimer};
pub(crate) use told::{Telling, Told};
pub(crate) use turns::{Act, End, tasks};

/// When every execution on emulators begins. It is no whole second, so that code which rounds to
/// seconds shows what that does.
pub(crate) const START: Timestamp = Timestamp::from_millis(Timestamp::EPOCH.millis() + AFTER_EPOCH_MS);
const AFTER_EPOCH_MS: i64 = 500;

/// The time after the last lease before fresh clients try. It is longer than the second that
/// careful algorithms add.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// The longest wait for a timer of an actor.
pub(crate) const TIMER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How much a history records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// Everything that oracles need.
    Lean,
    /// Commands, replies and changed keys, too.
    Full,
}

/// The settings that all executions of a scenario share.
#[derive(Clone, Debug)]
pub(crate) struct SimulationConfig {
    pub(crate) lease: Duration,
    /// The lease of each actor.
    pub(crate) leases: Vec<Duration>,
    pub(crate) faults: Faults,
    /// How long clients wait for a reply. `None` is for ever.
    pub(crate) response_timeout: Option<Duration>,
    /// The code of each actor, and that of the probes.
    pub(crate) codes: Vec<CodeId>,
    pub(crate) probe_code: CodeId,
    /// The spans of time that the code distinguishes, as far as they are known.
    pub(crate) thresholds: Arc<[Duration]>,
    /// An oracle judges by the order of all commands.
    pub(crate) judges_commands: bool,
    /// A hash of everything in the scenario that decides how executions continue.
    pub(crate) terms: u64,
}

/// The state that the clients of one execution share.
pub(crate) struct Simulation {
    pub(crate) servers: Vec<Server>,
    /// The clocks of the emulators among the servers.
    clocks: Vec<Clock>,
    pub(crate) quiescence: Arc<Quiescence>,
    pub(crate) config: SimulationConfig,
    pub(crate) recording: Recording,
    /// Real time, if the server is real.
    pub(crate) real_time: OnceLock<RealTime>,
    /// The timers that are known. `None` if time cannot move while a client has a request to send.
    pub(crate) timers: Option<ScenarioTimers>,
    pub(crate) clients: Clients,
    /// The places from which the next execution can continue, if it will.
    checkpoints: Mutex<Option<Checkpoints>>,
    places: Mutex<Vec<Place>>,
    /// `None` if clients run without a runtime.
    origin: Option<Instant>,
    /// The time in nanoseconds while it stands still, or [`MOVES`].
    time: AtomicU64,
    state: Mutex<State>,
}

const MOVES: u64 = u64::MAX;

/// The clock of a server without a runtime.
fn start_clock() -> Clock {
    let clock = Clock::manual();
    clock.set(START);
    clock
}

impl Simulation {
    pub(crate) fn new(
        servers: Vec<Server>,
        quiescence: Arc<Quiescence>,
        config: SimulationConfig,
        recording: Recording,
        timers: Option<ScenarioTimers>,
        clients: Clients,
        checkpoints: Option<Checkpoints>,
    ) -> Arc<Simulation> {
        let is_learned = matches!(clients, Clients::Learned(..));
        let clock = || if is_learned { start_clock() } else { Clock::tokio().skewed(AFTER_EPOCH_MS) };
        let clocks: Vec<Clock> = servers.iter().map(|_| clock()).collect();
        let actors = (0..config.leases.len()).map(|n| ActorState::new(Actor(n))).collect();
        let state = State { actors, ..State::default() };
        #[expect(clippy::disallowed_methods, reason = "the paused clock of this execution's own runtime")]
        let origin = (!is_learned).then(Instant::now);
        let (real_time, state) = (OnceLock::new(), Mutex::new(state));
        let (time, checkpoints) = (AtomicU64::new(0), Mutex::new(checkpoints));
        let places = Mutex::new(servers.iter().map(|_| Place::default()).collect());
        let sim = Simulation {
            servers,
            clocks,
            quiescence,
            config,
            recording,
            real_time,
            timers,
            clients,
            checkpoints,
            places,
            origin,
            time,
            state,
        };
        if let Clients::Tasks = sim.clients {
            sim.reset();
        }
        let sim = Arc::new(sim);
        if !is_learned {
            let weak = Arc::downgrade(&sim);
            sim.quiescence.set_hook(move || {
                if let Some(sim) = weak.upgrade() {
                    sim.end_turns();
                }
            });
        }
        sim
    }

    /// The servers in this process.
    pub(crate) fn emulators(&self) -> impl Iterator<Item = &Emulator> {
        self.servers.iter().filter_map(|server| match server {
            Server::Emulator(emulator) => Some(emulator),
            Server::Redis(_) => None,
        })
    }

    /// Empties the servers in this process.
    pub(crate) fn reset(&self) {
        for (server, clock) in self.servers.iter().zip(&self.clocks) {
            if let Server::Emulator(emulator) = server {
                emulator.reset(clock.clone());
            }
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn checkpoints(&self) -> MutexGuard<'_, Option<Checkpoints>> {
        self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True time since the start.
    pub(crate) fn now(&self) -> Duration {
        match self.time.load(Ordering::Relaxed) {
            MOVES => self.moving_now(),
            nanos => Duration::from_nanos(nanos),
        }
    }

    fn is_moving(&self) -> bool {
        self.time.load(Ordering::Relaxed) == MOVES
    }

    fn moving_now(&self) -> Duration {
        #[expect(clippy::disallowed_methods, reason = "the paused clock of this execution's own runtime")]
        self.origin.map_or(Duration::ZERO, |origin| Instant::now().duration_since(origin))
    }

    /// Sets the time of an execution without a runtime.
    fn set_time(&self, at: Duration) {
        let by = at.saturating_sub(self.now());
        self.time.store(u64::try_from(at.as_nanos()).unwrap_or(MOVES), Ordering::Relaxed);
        self.clocks.iter().for_each(|clock| clock.advance(by));
    }

    /// Lets time move until [`Simulation::freeze_time`]. While it stands still, its value is kept
    /// here: reading tokio's clock is slow.
    pub(crate) fn unfreeze_time(&self) {
        self.time.store(MOVES, Ordering::Relaxed);
    }

    pub(crate) fn freeze_time(&self) {
        if self.origin.is_none() {
            return;
        }
        let nanos = u64::try_from(self.moving_now().as_nanos()).unwrap_or(MOVES);
        self.time.store(nanos, Ordering::Relaxed);
    }

    /// The true time of day.
    pub(crate) fn wall_time(&self) -> Timestamp {
        self.real_time.get().map_or(START, |real_time| real_time.started_at) + self.now()
    }

    pub(crate) fn instant(&self, at: Duration) -> Instant {
        self.origin.expect("clients without tasks have no timers") + at
    }

    pub(crate) fn record(&self, kind: EventKind) {
        let at = self.now();
        self.state().record(at, kind);
    }

    /// Records which actors that ran in the last step may have timers. Their actions depend on the
    /// time. If it is not known of an actor, `teach` is called first.
    pub(crate) fn record_timers(&self, teach: impl Fn(Actor)) {
        let state = self.state();
        let Some(footprint) = state.history().footprints.last() else { return };
        let moved = footprint.clients();
        if !state.recorder.is_in_step() {
            return;
        }
        drop(state);
        for actor in moved {
            let nth = actor.0;
            let known = self.may_have_timer(actor).or_else(|| {
                teach(actor);
                self.may_have_timer(actor)
            });
            let mut state = self.state();
            let has_request = state.has_request(actor);
            let is_ready = state.gates.iter().any(|gate| gate.actor == actor && state.is_awake(gate));
            let ActorState { local_state, may_wake: could_wake, was_ready, .. } = state.actors[nth];
            if known.is_none() {
                let steps = state.history().steps.len();
                state.unknown_timers.push(UnknownTimer { steps, actor, local_state });
            }
            let may_wake = known.unwrap_or(true);
            if could_wake || may_wake {
                state.recorder.time_read();
            }
            if was_ready != is_ready {
                state.recorder.readiness_changed(actor);
            }
            if may_wake && !has_request {
                state.recorder.timer_awaited();
            }
            (state.actors[nth].may_wake, state.actors[nth].was_ready) = (may_wake, is_ready);
        }
    }

    /// Whether an actor may have a timer. If it waits for something other than a reply, or has
    /// tasks that may, it may wait for time.
    fn may_have_timer(&self, actor: Actor) -> Option<bool> {
        let state = self.state();
        let client = &state.actors[state.idx(actor)];
        match &self.timers {
            _ if client.is_crashed => Some(false),
            _ if client.spawned > 0 => Some(true),
            _ if !state.can_act(actor) => Some(false),
            _ if !state.has_request(actor) || self.config.response_timeout.is_some() => Some(true),
            Some(timers) => timers.get(actor, client.local_state),
            None => Some(false),
        }
    }

    pub(crate) fn crash(&self, actor: Actor) {
        let at = self.now();
        let mut state = self.state();
        let inside: Vec<HoldId> = state.grants.iter().filter(|g| g.actor == actor).map(|g| g.id).collect();
        inside.into_iter().for_each(|id| state.leave(id, at, LeftBy::Crash));
        state.recorder.reached().crash = true;
        state.recorder.client_ran(actor);
        // Oracles may leave out the time that passes after a crash.
        state.recorder.time_read();
        let own = (0..state.gates.len()).filter(|&gate| state.gates[gate].actor == actor);
        let own: Vec<usize> = own.collect();
        own.iter().for_each(|&gate| state.change_gate(gate, GateState::Empty));
        drop(state);
        // A task that was spawned may outlive the client. The process has no connection any more.
        own.into_iter().for_each(|gate| self.hang_up(gate));
        self.state().actor(actor).is_crashed = true;
    }

    pub(crate) fn advanced(&self, by: Duration) {
        let at = self.now();
        if let Some(real_time) = self.real_time.get() {
            real_time.wait_until(at, || self.quiescence.is_expired());
        }
        let mut state = self.state();
        let is_slow = state.gates.iter().any(Gate::is_slow);
        state.recorder.advanced(at, by, is_slow);
        for kind in self.ends_of_grants(&mut state.grants, at - by, at) {
            state.recorder.reached().overrun |= matches!(kind, EventKind::Overrun { .. });
            state.record(at, kind);
        }
    }

    /// Runs what is due on every server by its clock.
    pub(crate) fn tick(&self) {
        (0..self.servers.len()).for_each(|server| self.on_server(server, "tick", Emulator::tick));
    }

    /// Sets the clock of a client.
    pub(crate) fn set_clock(&self, actor: Actor, set: impl FnOnce(&mut ActorState)) {
        let mut state = self.state();
        state.recorder.client_ran(actor);
        let idx = state.idx(actor);
        set(&mut state.actors[idx]);
        let ActorState { skew_ms, drift_ppm, .. } = state.actors[idx];
        drop(state);
        self.tell(actor, || (skew_ms, drift_ppm), || Told::Clock { skew_ms, drift_ppm });
    }

    /// Sets the clock of a server. The clock of a real server cannot be set.
    pub(crate) fn set_server_clock(&self, server: usize, set: impl FnOnce(&Clock)) {
        set(&self.clocks[server]);
        self.state().is_clock_set = true;
        self.tick();
        self.state().recorder.clock_set(server);
    }

    /// Records a fault that is not a request fault.
    pub(crate) fn record_fault(&self, fault: Fault) {
        let kind = EventKind::Fault { fault, request: None };
        if fault.target.server().is_none() {
            return self.record(kind);
        }
        if fault.is_setup() {
            self.state().recorder.reached().skew = true;
            return self.record(kind);
        }
        self.record_server_fault(kind);
    }

    /// When a client makes a request. The time counts if it can pass before the request arrives: a
    /// lease may begin here.
    pub(crate) fn request_time(&self, actor: Actor) -> Duration {
        if self.timers.is_some() {
            self.note_time_read(actor);
        }
        self.now()
    }

    /// Notes that a client reads the time. It does not matter what a task reads that has outlived a
    /// crashed client.
    pub(crate) fn note_time_read(&self, actor: Actor) {
        let mut state = self.state();
        if !state.actor(actor).is_crashed {
            state.recorder.time_read();
        }
    }

    /// Records the name of a script, for texts that know its SHA1 alone.
    pub(crate) fn name_script(&self, sha: &str, source: &[u8]) {
        if self.recording == Recording::Full {
            let name = script_name(&String::from_utf8_lossy(source));
            self.state().recorder.script_named(sha, name);
        }
    }

    /// Records a fault that struck a request or a message of this actor.
    pub(crate) fn record_request_fault(&self, actor: Actor, fault: Fault, request: impl FnOnce() -> Struck) {
        if self.recording == Recording::Full {
            self.record(EventKind::Fault { fault, request: Some(request()) });
        }
        let Some(RequestFault { outcome, .. }) = fault.of_request() else { return };
        let mut state = self.state();
        let idx = state.idx(actor);
        let is_error = matches!(outcome, RequestOutcome::TimedOut | RequestOutcome::Disconnected);
        state.actors[idx].got_fault_error |= is_error;
        state.recorder.reached().lost |= outcome != RequestOutcome::Cancelled;
    }
}
