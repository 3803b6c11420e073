//! An execution: what carries its world on, and what concerns all of it.

use std::sync::Arc;
use std::time::Duration;

use emulator::{Clock, Emulator, SlotMap};

use super::actor_state::{ActorState, Life};
use super::clients::Clients;
use super::config::{AFTER_EPOCH_MS, Recording, START, SimulationConfig};
use super::gate::{Gate, GateState};
use super::real_time::RealTime;
use super::replication::Replication;
use super::server::{Engine, Server};
use super::session::Running;
use super::world::{Lack, World};
use crate::actor::Actor;
use crate::fault::{Fault, RequestFault, RequestOutcome};
use crate::live::{Code, Request, Told};
use crate::memo::{ScenarioTimers, UnknownTimer};
use crate::render::script_name;
use crate::trace::{EventKind, HoldId, LeftBy, Struck};

/// One execution: its world, and what carries that on.
pub(crate) struct Simulation {
    pub(crate) world: World,
    pub(crate) servers: Vec<Server>,
    /// The clocks of the emulators among the servers.
    pub(crate) clocks: Vec<Clock>,
    pub(super) engines: Vec<Engine>,
    /// The commands that wait on servers which run everything, each with its gate, in the order in
    /// which they arrived.
    pub(super) waits: Vec<(usize, Running)>,
    pub(crate) config: SimulationConfig,
    pub(crate) recording: Recording,
    /// Real time, if the server is real.
    pub(crate) real_time: Option<RealTime>,
    /// The timers that are known. `None` if time cannot move while a client has a request to send.
    pub(crate) timers: Option<ScenarioTimers>,
    pub(crate) clients: Clients,
    /// The clients whose code runs. `None` if no code runs.
    pub(crate) code: Option<Arc<dyn Code>>,
}

/// The clock of a server without a runtime.
pub(super) fn start_clock() -> Clock {
    let clock = Clock::manual();
    clock.set(START);
    clock
}

impl Simulation {
    pub(crate) fn new(
        servers: Vec<Server>,
        code: Option<Arc<dyn Code>>,
        config: SimulationConfig,
        recording: Recording,
        timers: Option<ScenarioTimers>,
        clients: Clients,
    ) -> Simulation {
        let has_runtime = code.is_some();
        let clock = || if has_runtime { Clock::tokio().skewed(AFTER_EPOCH_MS) } else { start_clock() };
        let is_service = |n| config.services.contains(&n);
        let actor = |n| ActorState { is_service: is_service(n), ..ActorState::new(Actor(n)) };
        let actors = (0..config.terms.leases.len()).map(actor).collect();
        let replication = Replication::of(config.terms.servers, config.replicas, config.reads_replicas);
        let slot_map = config.is_cluster.then(|| Arc::new(SlotMap::new(config.terms.servers)));
        let servers_known = vec![None; servers.len()];
        let mut sim = Simulation {
            world: World { actors, replication, slot_map, servers: servers_known, ..World::default() },
            clocks: servers.iter().map(|_| clock()).collect(),
            engines: servers.iter().map(|_| Engine::default()).collect(),
            waits: Vec::new(),
            code,
            servers,
            config,
            recording,
            real_time: None,
            timers,
            clients,
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
    pub(crate) fn reset(&mut self) {
        self.engines.iter_mut().for_each(|engine| (engine.shown, engine.followed) = (None, None));
        for (server, clock) in self.servers.iter().zip(&self.clocks) {
            if let Server::Emulator(emulator) = server {
                emulator.reset(clock.clone());
                self.config.keep_effects(emulator);
            }
        }
    }

    /// Sets the time of an execution without a runtime.
    pub(super) fn set_time(&mut self, at: Duration) {
        let by = at.saturating_sub(self.world.now);
        self.world.now = at;
        self.clocks.iter().for_each(|clock| clock.advance(by));
    }

    /// The runtime has moved time.
    pub(crate) fn follow_time(&mut self) {
        self.code.iter().for_each(|code| self.world.now = code.now());
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
            _ if client.life == Life::Crashed => Some(false),
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
        self.code.iter().for_each(|code| code.crash(actor));
        let world = &mut self.world;
        world.recorder.forget_preparation();
        world.actors.pop();
        world.gates.clear();
        self.waits.clear();
        (world.n_run, world.n_turns) = (0, 0);
    }

    /// A client that has crashed starts anew. What it then does is not learned: it depends on what
    /// its former process has numbered.
    pub(crate) fn respawn(&mut self, actor: Actor) {
        if !matches!(self.clients, Clients::Tasks) {
            return self.world.stop(Lack::NoSnapshot);
        }
        let now = self.world.now;
        self.world.actor(actor).respawn(now);
        self.world.recorder.requests_changed(actor);
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
            self.stop_waiting(gate);
            self.world.gates[gate].pending = None;
            self.world.gates[gate].lose_pushes();
            self.world.change_gate(gate, GateState::Empty);
        }
        let world = &mut self.world;
        // A service that waits can crash until the execution is over.
        if world.actor(actor).is_service {
            world.recorder.requests_changed(actor);
        }
        world.end_operations(actor);
        world.drop_calls(actor);
        // A task that was spawned may outlive the client. The process has no connection any more.
        own.into_iter().for_each(|gate| self.close(gate));
        self.code.iter().for_each(|code| code.crash(actor));
        self.world.actor(actor).life = Life::Crashed;
    }

    pub(crate) fn advanced(&mut self, by: Duration) {
        let now = self.world.now;
        if let (Some(real_time), Some(code)) = (&self.real_time, &self.code) {
            real_time.wait_until(now, || code.is_expired());
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
        for node in 0..self.servers.len() {
            if self.world.is_serving(node) {
                self.on_server(node, "tick", Emulator::tick);
            }
        }
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
    pub(super) fn note_time_read(&mut self, actor: Actor) {
        if self.actor(actor).life != Life::Crashed {
            self.recorder.time_read();
        }
    }

    /// Records a fault that struck a request or a message of this actor, and that if it is known.
    pub(super) fn record_request_fault(&mut self, actor: Actor, fault: Fault, struck: Option<Struck>) {
        if struck.is_some() {
            self.record(EventKind::Fault { fault, request: struck });
        }
        let Some(RequestFault { outcome, .. }) = fault.of_request() else { return };
        let is_error = matches!(outcome, RequestOutcome::TimedOut | RequestOutcome::Disconnected);
        self.actor(actor).got_fault_error |= is_error;
        self.recorder.reached().lost |=
            !matches!(outcome, RequestOutcome::Cancelled | RequestOutcome::Answered);
    }
}
