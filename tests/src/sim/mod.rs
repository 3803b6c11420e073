//! One execution: its world, and what carries that on.
//!
//! The world (`World`) is plain data: how far each client is, what waits at its gates, in which
//! states the servers are, the time, the history. A copy of it is a place from which an execution can
//! continue. The rest of a simulation is alike in all executions, or can be had again: servers that
//! run what is not known of them, clients whose code runs, and memory of both.

mod server;
mod real_time;
mod timer_cache;
mod operations;
mod pause;
mod probes;
mod retries;
mod session;
mod gate;
mod world;
mod shared_list;
mod learned;
mod learned_clients;
mod turns;
mod told;
mod subscriptions;
mod known_servers;
mod checkpoints;
mod details;
mod serve;
mod instants;
mod holds;
mod server_faults;

use std::sync::Arc;
use std::time::Duration;

use emulator::{Clock, Emulator, Timestamp};

use crate::actor::Actor;
use crate::fault::{Fault, Faults, RequestFault, RequestOutcome};
use crate::live::{Live, Request, Terms, Told};
use crate::render::script_name;
use crate::trace::{EventKind, HoldId, LeftBy, Struck};

pub(crate) use checkpoints::Checkpoints;
pub(crate) use gate::{Gate, GateState, Passage};
use known_servers::Engine;
pub(crate) use learned::{Difference, Key, Lack, Learned, Timer};
pub(crate) use learned_clients::{Clients, Unknown};
pub(crate) use real_time::RealTime;
pub(crate) use retries::{Livelock, Retry, Tries};
pub use server::Server;
pub(crate) use server::connect;
pub(crate) use shared_list::SharedList;
pub(crate) use timer_cache::{CodeId, ScenarioTimers, Thresholds, TimerCache, UnknownTimer};
pub(crate) use world::{ActorState, World};

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

/// One execution: its world, and what carries that on.
pub(crate) struct Simulation {
    pub(crate) world: World,
    pub(crate) servers: Vec<Server>,
    /// The clocks of the emulators among the servers.
    clocks: Vec<Clock>,
    engines: Vec<Engine>,
    pub(crate) config: SimulationConfig,
    pub(crate) recording: Recording,
    /// Real time, if the server is real.
    pub(crate) real_time: Option<RealTime>,
    /// The timers that are known. `None` if time cannot move while a client has a request to send.
    pub(crate) timers: Option<ScenarioTimers>,
    pub(crate) clients: Clients,
    /// The clients whose code runs. `None` if no code runs.
    pub(crate) live: Option<Arc<Live>>,
    /// The places from which the next execution can continue, if it will.
    pub(crate) checkpoints: Option<Checkpoints>,
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
        live: Option<Arc<Live>>,
        config: SimulationConfig,
        recording: Recording,
        timers: Option<ScenarioTimers>,
        clients: Clients,
        checkpoints: Option<Checkpoints>,
    ) -> Simulation {
        let has_runtime = live.is_some();
        let clock = || if has_runtime { Clock::tokio().skewed(AFTER_EPOCH_MS) } else { start_clock() };
        let actors = (0..config.terms.leases.len()).map(|n| ActorState::new(Actor(n))).collect();
        let sim = Simulation {
            world: World { actors, servers: vec![None; servers.len()], ..World::default() },
            clocks: servers.iter().map(|_| clock()).collect(),
            engines: servers.iter().map(|_| Engine::default()).collect(),
            live,
            servers,
            config,
            recording,
            real_time: None,
            timers,
            clients,
            checkpoints,
        };
        if let Clients::Tasks = sim.clients {
            sim.reset();
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

    /// Sets the time of an execution without a runtime.
    fn set_time(&mut self, at: Duration) {
        let by = at.saturating_sub(self.world.now);
        self.world.now = at;
        self.clocks.iter().for_each(|clock| clock.advance(by));
    }

    /// The runtime has moved time.
    pub(crate) fn follow_time(&mut self) {
        self.live.iter().for_each(|live| self.world.now = live.now());
    }

    /// Records which actors that ran in the last step may have timers. Their actions depend on the
    /// time.
    pub(crate) fn record_timers(&mut self, moved: &[Actor]) {
        for &actor in moved {
            let known = self.may_have_timer(actor);
            let world = &mut self.world;
            let has_request = world.has_request(actor);
            let is_ready = world.gates.iter().any(|gate| gate.actor == actor && world.is_awake(gate));
            let ActorState { local_state, may_wake: could_wake, was_ready, .. } = world.actors[actor.0];
            if known.is_none() {
                let steps = world.history().steps.len();
                world.unknown_timers.push(UnknownTimer { steps, actor, local_state });
            }
            let may_wake = known.unwrap_or(true);
            if could_wake || may_wake {
                world.recorder.time_read();
            }
            if was_ready != is_ready {
                world.recorder.readiness_changed(actor);
            }
            if may_wake && !has_request {
                world.recorder.timer_awaited();
            }
            (world.actors[actor.0].may_wake, world.actors[actor.0].was_ready) = (may_wake, is_ready);
        }
    }

    /// Whether an actor may have a timer. If it waits for something other than a reply, or has
    /// tasks that may, it may wait for time.
    pub(crate) fn may_have_timer(&self, actor: Actor) -> Option<bool> {
        let world = &self.world;
        let client = &world.actors[world.idx(actor)];
        match &self.timers {
            _ if client.is_crashed => Some(false),
            _ if client.spawned > 0 => Some(true),
            _ if !world.can_act(actor) => Some(false),
            _ if !world.has_request(actor) || self.config.terms.response_timeout.is_some() => Some(true),
            Some(timers) => timers.get(actor, client.local_state),
            None => Some(false),
        }
    }

    /// Forgets the code before the actors. It runs only in some executions, and all have to be
    /// alike.
    pub(crate) fn forget_preparation(&mut self, actor: Actor) {
        // If a task of it still runs, nothing that it does counts.
        self.live.iter().for_each(|live| live.crash(actor));
        let world = &mut self.world;
        world.recorder.forget_preparation();
        world.actors.pop();
        world.gates.clear();
        (world.n_run, world.n_turns) = (0, 0);
    }

    pub(crate) fn crash(&mut self, actor: Actor) {
        let world = &mut self.world;
        let inside: Vec<HoldId> = world.grants.iter().filter(|g| g.actor == actor).map(|g| g.id).collect();
        inside.into_iter().for_each(|id| world.leave(id, LeftBy::Crash));
        world.recorder.reached().crash = true;
        world.recorder.client_ran(actor);
        // Oracles may leave out the time that passes after a crash.
        world.recorder.time_read();
        let own = (0..world.gates.len()).filter(|&gate| world.gates[gate].actor == actor);
        let own: Vec<usize> = own.collect();
        for &gate in &own {
            world.note_awaited(gate);
            world.change_gate(gate, GateState::Empty);
        }
        // A task that was spawned may outlive the client. The process has no connection any more.
        own.into_iter().for_each(|gate| self.close(gate));
        self.live.iter().for_each(|live| live.crash(actor));
        self.world.actor(actor).is_crashed = true;
    }

    pub(crate) fn advanced(&mut self, by: Duration) {
        let now = self.world.now;
        if let (Some(real_time), Some(live)) = (&self.real_time, &self.live) {
            real_time.wait_until(now, || live.quiescence.is_expired());
        }
        let is_slow = self.world.gates.iter().any(Gate::is_slow);
        self.world.recorder.advanced(now, by, is_slow);
        for kind in self.ends_of_grants(now - by) {
            self.world.recorder.reached().overrun |= matches!(kind, EventKind::Overrun { .. });
            self.world.record(kind);
        }
    }

    /// Runs what is due on every server by its clock.
    pub(crate) fn tick(&mut self) {
        (0..self.servers.len()).for_each(|server| self.on_server(server, "tick", Emulator::tick));
    }

    /// Sets the clock of a client.
    pub(crate) fn set_clock(&mut self, actor: Actor, set: impl FnOnce(&mut ActorState)) {
        self.world.recorder.client_ran(actor);
        let client = self.world.actor(actor);
        set(client);
        let ActorState { skew_ms, drift_ppm, .. } = *client;
        self.tell(actor, &Told::Clock { skew_ms, drift_ppm });
    }

    /// Sets the clock of a server. The clock of a real server cannot be set.
    pub(crate) fn set_server_clock(&mut self, server: usize, set: impl FnOnce(&Clock)) {
        set(&self.clocks[server]);
        self.world.is_clock_set = true;
        self.tick();
        self.world.recorder.clock_set(server);
    }

    /// Records a fault that is not a request fault.
    pub(crate) fn record_fault(&mut self, fault: Fault) {
        let kind = EventKind::Fault { fault, request: None };
        if fault.target.server().is_some() && !fault.is_setup() {
            return self.record_server_fault(kind);
        }
        self.world.recorder.reached().skew |= fault.target.server().is_some();
        self.world.record(kind);
    }

    /// Records the name of a script, for texts that know its SHA1 alone.
    pub(crate) fn name_script(&mut self, sha: &str, source: &[u8]) {
        if self.recording == Recording::Full {
            let name = script_name(&String::from_utf8_lossy(source));
            self.world.recorder.script_named(sha, name);
        }
    }

    /// Records a fault that struck a request.
    pub(super) fn record_request_fault(&mut self, gate: usize, fault: Fault, request: &Request) {
        let struck = (self.recording == Recording::Full).then(|| self.struck(gate, request));
        self.world.record_request_fault(self.world.gates[gate].actor, fault, struck);
    }
}

impl World {
    /// Notes that a client reads the time. It does not matter what a task reads that has outlived a
    /// crashed client.
    fn note_time_read(&mut self, actor: Actor) {
        if !self.actor(actor).is_crashed {
            self.recorder.time_read();
        }
    }

    /// Records a fault that struck a request or a message of this actor, and that if it is known.
    fn record_request_fault(&mut self, actor: Actor, fault: Fault, struck: Option<Struck>) {
        if struck.is_some() {
            self.record(EventKind::Fault { fault, request: struck });
        }
        let Some(RequestFault { outcome, .. }) = fault.of_request() else { return };
        let is_error = matches!(outcome, RequestOutcome::TimedOut | RequestOutcome::Disconnected);
        self.actor(actor).got_fault_error |= is_error;
        self.recorder.reached().lost |= outcome != RequestOutcome::Cancelled;
    }
}
