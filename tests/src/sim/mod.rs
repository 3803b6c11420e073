//! The state that the clients of one execution share: gates, servers, time, and the history.

mod server;
mod real_time;
mod timer_cache;
mod operations;
mod pause;
mod probes;
mod retries;
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

use crate::actor::Actor;
use crate::fault::{Fault, Faults, RequestFault, RequestOutcome};
use crate::live::{Live, Quiescence, Terms, Told};
use crate::render::script_name;
use crate::trace::{EventKind, HoldId, LeftBy, Struck};

pub(crate) use checkpoints::Checkpoints;
pub(crate) use gate::{Gate, GateState, Passage};
use known_servers::Place;
pub(crate) use learned::{Difference, Key, Lack, Learned, Timer};
pub(crate) use learned_clients::{Clients, Unknown};
pub(crate) use real_time::RealTime;
pub(crate) use retries::{Livelock, Retry, Tries};
pub(crate) use saved::Saved;
pub use server::Server;
pub(crate) use server::connect;
pub(crate) use shared_list::SharedList;
pub(crate) use state::{ActorState, State};
pub(crate) use timer_cache::{CodeId, ScenarioTimers, Thresholds, TimerCache, UnknownTimer};

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
    pub(crate) terms: Terms,
    pub(crate) faults: Faults,
    /// The code of each actor, and that of the probes.
    pub(crate) codes: Vec<CodeId>,
    pub(crate) probe_code: CodeId,
    /// The spans of time that the code distinguishes, as far as they are known.
    pub(crate) thresholds: Arc<[Duration]>,
    /// An oracle judges by the order of all commands.
    pub(crate) judges_commands: bool,
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
    /// The clients whose code runs. `None` if no code runs.
    pub(crate) live: Option<Arc<Live>>,
    /// The time in nanoseconds, if no code runs.
    time: AtomicU64,
    state: Mutex<State>,
}

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
        let actors = (0..config.terms.leases.len()).map(|n| ActorState::new(Actor(n))).collect();
        let state = State { actors, ..State::default() };
        let live = (!is_learned).then(|| Live::new(quiescence.clone(), config.terms.clone(), START));
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
            live,
            time,
            state,
        };
        if let Clients::Tasks = sim.clients {
            sim.reset();
        }
        Arc::new(sim)
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
        self.live
            .as_ref()
            .map_or_else(|| Duration::from_nanos(self.time.load(Ordering::Relaxed)), |live| live.now())
    }

    /// Sets the time of an execution without a runtime.
    fn set_time(&self, at: Duration) {
        let by = at.saturating_sub(self.now());
        self.time.store(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.clocks.iter().for_each(|clock| clock.advance(by));
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
            _ if !state.has_request(actor) || self.config.terms.response_timeout.is_some() => Some(true),
            Some(timers) => timers.get(actor, client.local_state),
            None => Some(false),
        }
    }

    /// Forgets the code before the actors. It runs only in some executions, and all have to be
    /// alike.
    pub(crate) fn forget_preparation(&self, actor: Actor) {
        // If a task of it still runs, nothing that it does counts.
        self.live.iter().for_each(|live| live.crash(actor));
        let mut state = self.state();
        state.recorder.forget_preparation();
        state.actors.pop();
        state.gates.clear();
        (state.n_run, state.n_turns) = (0, 0);
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
        drop(state);
        for &gate in &own {
            self.note_awaited(gate);
            self.state().change_gate(gate, GateState::Empty);
        }
        // A task that was spawned may outlive the client. The process has no connection any more.
        own.into_iter().for_each(|gate| self.close(gate));
        self.live.iter().for_each(|live| live.crash(actor));
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
        self.tell(actor, &Told::Clock { skew_ms, drift_ppm });
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
