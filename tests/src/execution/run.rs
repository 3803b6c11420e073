//! One execution: lists the possible steps, lets the policy choose, and takes the step, until none
//! is left.

use std::sync::Arc;
use std::time::Duration;

use emulator::{Emulator, Snapshot};

use super::lesson::Lessons;
use super::{Choice, Policy};
use crate::actor::{ACTORS_MAX, Actor};
use crate::fault::{Effect, Effects, Fault, FaultKind, LostWrites, RequestOutcome, Target};
use crate::live::Live;
use crate::scenario::{Act, Limits, Scenario};
use crate::schedule::Step;
use crate::sim::{
    Checkpoints, Clients, Gate, Lack, Life, Passage, RealTime, Recording, Server, Simulation, Tries, World,
};
use crate::trace::{Event, EventKind, LocalState};

/// An execution, as it runs.
pub(super) struct Execution<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) policy: &'a mut dyn Policy,
    pub(super) sim: Box<Simulation>,
    /// The clients whose code runs in this process. `None` if no code runs.
    pub(super) live: Option<Arc<Live>>,
    /// The places from which the next execution can continue, if it will.
    pub(super) checkpoints: Option<Checkpoints>,
    pub(super) prepared: &'a mut Option<Prepared>,
    /// The kinds of faults that have a budget.
    pub(super) kinds: Vec<FaultKind>,
    pub(super) lessons: &'a mut Lessons,
    /// How many lessons it has given.
    pub(super) n_lessons: usize,
}

/// The results of the code before the actors.
pub(super) struct Prepared {
    act: Act<()>,
    /// The servers, each with the digest of its snapshot.
    snapshots: Vec<(Arc<Snapshot>, u64)>,
    /// The snapshots have all that the code left on the servers.
    is_complete: bool,
    /// The failures of the code. They belong to every execution that starts from it.
    failures: Vec<Event>,
}

impl Execution<'_> {
    pub(super) fn run(&mut self) {
        self.run_to_end();
        self.sim.world.is_running = false;
    }

    fn run_to_end(&mut self) {
        let saved = self.checkpoints.as_mut().and_then(|places| places.resume(&mut self.sim));
        if saved.is_none() {
            self.begin();
        }
        self.go_on(saved);
    }

    /// Brings everything to the state in which the first step is chosen.
    fn begin(&mut self) {
        for server in &self.sim.servers {
            let Server::Redis(client) = server else { continue };
            let real_time = self.sim.real_time.get_or_insert_with(|| RealTime::start(client));
            self.sim.code.iter().for_each(|code| code.start_at(real_time.started_at));
        }
        match &self.scenario.before {
            Some(before) => self.prepare(before),
            None => self.sim.begin_with(&[]),
        }
        self.sim.world.is_running = true;
        self.sim.begin_logs();
        self.sim.begin_replication();
        self.sim.begin_cluster();
        self.sim.begin_judging();
        if self.sim.recording == Recording::Full {
            self.sim.world.recorder.servers_named(&self.scenario.server_names);
        }
        let started_at = self.sim.real_time.as_ref().map(|real_time| real_time.started_at);
        self.sim.world.recorder.started_at(started_at);
    }

    /// Takes steps until the execution ends, from this state on if there is one.
    fn go_on(&mut self, mut saved: Option<Box<[Step]>>) {
        let mut enabled = Vec::new();
        loop {
            if self.sim.world.lack().is_some() {
                return;
            }
            match saved.take() {
                Some(saved) => enabled.extend_from_slice(&saved),
                None => self.enabled_steps(&mut enabled),
            }
            if enabled.is_empty() {
                break;
            }
            // Where there is no choice, no execution branches.
            if enabled.len() > 1 {
                self.checkpoints.iter_mut().for_each(|places| places.keep(&mut self.sim, &enabled));
            }
            if self.is_cut() {
                return;
            }
            if enabled == [Step::Wait] {
                if !self.policy.lets_time_pass(self.sim.world.history()) {
                    return;
                }
                self.take(Step::Wait);
                continue;
            }
            let choice = self.policy.choose(&enabled, self.sim.world.history());
            match choice {
                Choice::Take(idx) => self.take(enabled[idx]),
                Choice::Move(step) => self.take(step),
                Choice::ProbeTimer(actor) => return self.probe_timer(actor),
                Choice::Finish => break,
                Choice::Abort => return,
            }
        }
        if self.sim.world.cut.is_some() {
            return;
        }
        self.heal();
        self.note_panics();
    }

    /// Whether the execution ends before its clients do. If it reaches a limit now, records that.
    pub(super) fn is_cut(&mut self) -> bool {
        let Limits { steps, wall_time, .. } = self.scenario.limits;
        let world = &mut self.sim.world;
        if world.cut.is_some() {
            return true;
        }
        let limit = if self.lessons.runtime.quiescence.is_expired() {
            format!("the execution took {} seconds of real time", wall_time.as_secs_f64())
        } else if world.history().steps.len() >= steps {
            format!("the execution has {steps} steps")
        } else {
            return false;
        };
        let actor = world.busiest();
        world.end(actor, limit);
        true
    }

    /// Brings the servers to the state in which every execution of the scenario begins. On
    /// emulators this runs once; a snapshot is restored afterwards.
    fn prepare(&mut self, before: &Act<()>) {
        let emulators: Vec<Emulator> = self.sim.emulators().cloned().collect();
        if emulators.is_empty() {
            return self.run_before(before);
        }
        if !self.prepared.as_ref().is_some_and(|prepared| Arc::ptr_eq(&prepared.act, before)) {
            if let Clients::Learned(..) = self.sim.clients {
                return self.sim.world.stop(Lack::UnknownState);
            }
            self.sim.reset();
            self.run_before(before);
            let failures = self.sim.world.history().events.clone();
            let is_complete = emulators.iter().all(Emulator::is_snapshot_complete);
            let snapshots = emulators.iter().map(Emulator::snapshot);
            let snapshots = snapshots.map(|snapshot| (snapshot.digest(), Arc::new(snapshot)));
            let snapshots = snapshots.map(|(digest, snapshot)| (snapshot, digest)).collect();
            *self.prepared = Some(Prepared { act: before.clone(), snapshots, is_complete, failures });
            self.sim.reset();
        }
        if let Some(Prepared { snapshots, is_complete, failures, .. }) = &self.prepared {
            if !is_complete && !matches!(self.sim.clients, Clients::Tasks) {
                return self.sim.world.stop(Lack::NoSnapshot);
            }
            self.sim.begin_with(snapshots);
            self.sim.world.recorder.start_with(failures);
            let scripts = snapshots.iter().flat_map(|(snapshot, _)| snapshot.scripts());
            scripts.for_each(|(sha, source)| self.sim.name_script(sha, source));
        }
    }

    /// Runs the code before the actors, and removes its actor.
    fn run_before(&mut self, before: &Act<()>) {
        self.run_alone(Actor(ACTORS_MAX), LocalState::default(), before, |()| true, World::can_act);
        self.note_panics();
        assert!(
            self.sim.world.now.is_zero(),
            "the code of `Scenario::before` must not wait for time to pass"
        );
        self.sim.forget_preparation(Actor(ACTORS_MAX));
    }

    /// Records which actors that ran in this step may have timers. If that is not known of one, it
    /// has a lesson first.
    fn record_timers(&mut self) {
        let world = &self.sim.world;
        let last = world.history().footprints.last().filter(|_| world.recorder.is_in_step());
        let moved: Vec<Actor> = last.into_iter().flat_map(|footprint| footprint.clients()).collect();
        for &actor in &moved {
            if self.sim.may_have_timer(actor).is_none() {
                self.teach(actor);
            }
        }
        self.sim.record_timers(&moved);
    }

    pub(super) fn take(&mut self, step: Step) {
        let retrying = if step == Step::Wait { self.sim.world.retrying() } else { Vec::new() };
        self.take_while(step, &retrying);
    }

    /// Takes a step while these clients try in vain.
    pub(super) fn take_while(&mut self, step: Step, retrying: &[Tries]) {
        // The step itself would count as a change.
        let change = self.sim.next_change(retrying);
        self.sim.world.begin(step);
        match step {
            Step::Run(actor, _) if self.sim.world.actors[actor.0].life == Life::Unstarted => {
                self.start(actor);
                // If several requests wait, the next step chooses one.
                if let [connection] = self.waiting_connections(actor)[..] {
                    self.let_through(actor, connection, Passage::default());
                }
            }
            Step::Run(actor, connection) => self.let_through(actor, connection, Passage::default()),
            Step::Send(actor, connection) => {
                let passage = Passage { is_reply_late: true, ..Passage::default() };
                self.let_through(actor, connection, passage);
            }
            Step::Receive(actor, connection) => {
                if let Some(gate) = self.gate(actor, connection, Gate::receives) {
                    self.sim.deliver(gate);
                    self.settle(actor);
                }
            }
            Step::Wait if self.sim.world.is_at_rest => self.sim.world.is_over = true,
            Step::Wait => {
                self.resume_all();
                if self.sim.world.recorder.is_in_stall() {
                    self.wait(&[], None);
                } else {
                    self.wait(retrying, change);
                }
            }
            Step::Start(actor) => {
                self.start(actor);
                self.sim.world.record(EventKind::Started { actor });
            }
            Step::Advance(span) => self.advance(span),
            Step::Fault(fault) => self.strike(fault),
            Step::Late(actor, connection) => {
                if let Some(gate) = self.gate(actor, connection, |_| true) {
                    self.sim.run_late(gate);
                }
                self.quiesce();
            }
        }
        if let Some(actor) = step.actor() {
            self.sim.world.recorder.client_ran(actor);
            if !step.fault().is_some_and(Fault::moves_time) {
                self.resume(actor);
            }
        }
        self.note_panics();
        self.sim.judge_again();
        self.record_timers();
        self.sim.world.recorder.end_step();
    }

    /// Lets a fault strike.
    pub(super) fn strike(&mut self, fault: Fault) {
        match (fault.kind.row().effect, fault.target) {
            (Effect::Request(request), Target::Connection(actor, connection)) => {
                let mut connection = Some(connection);
                if self.sim.world.actors[actor.0].life == Life::Unstarted {
                    self.start(actor);
                    connection = self.waiting_connections(actor).first().copied();
                }
                if let Some(connection) = connection {
                    let fault = Fault { target: Target::Connection(actor, connection), ..fault };
                    self.let_through(actor, connection, Passage { fault: Some(fault), ..Passage::default() });
                    if request.outcome == RequestOutcome::Crashed {
                        Effects::crash(self, actor);
                        if fault.kind.row().respawns {
                            Effects::respawn(self, actor);
                        }
                        self.sim.record_fault(fault);
                        self.quiesce();
                    }
                }
            }
            (Effect::Request(_), Target::Client(_) | Target::Server(_)) => {}
            (Effect::Pause, target) => {
                target.actor().into_iter().for_each(|actor| self.sim.pause(actor));
                self.advance(Duration::from_millis(fault.amount.unsigned_abs()));
                self.sim.record_fault(fault);
                // A client that waits for a server notices the reply first, and its timers then.
                let sleeps = |actor: &Actor| !self.sim.world.has_request(*actor);
                if let Some(actor) = target.actor().filter(sleeps) {
                    self.resume(actor);
                }
            }
            (Effect::Act(act), _) => {
                let fault = act(self, fault);
                self.sim.record_fault(fault);
                self.quiesce();
            }
        }
    }

    /// Lets the process of an actor go on, if it stood still.
    pub(super) fn resume(&mut self, actor: Actor) {
        if self.sim.resume(actor) {
            self.quiesce();
        }
    }

    pub(super) fn resume_all(&mut self) {
        for actor in (0..self.scenario.actors.len()).map(Actor) {
            self.resume(actor);
        }
    }

    /// Finds out whether an actor has a timer.
    fn probe_timer(&mut self, actor: Actor) {
        // Tasks of other actors must not look like timers of this one.
        for other in (0..self.scenario.actors.len()).map(Actor).filter(|&other| other != actor) {
            Effects::crash(self, other);
            self.quiesce();
        }
        self.sim.world.is_at_rest = false;
        self.take_while(Step::Wait, &[]);
    }

    /// Lets one request or message pass, and waits until the client has handled the reply or the
    /// fault.
    pub(super) fn let_through(&mut self, actor: Actor, connection: usize, passage: Passage) {
        if let Some(gate) = self.gate(actor, connection, Gate::waits) {
            self.sim.let_through(gate, passage);
            self.settle(actor);
        }
    }

    /// The gate of a connection, if it is in this state.
    pub(super) fn gate(&self, actor: Actor, connection: usize, is_due: fn(&Gate) -> bool) -> Option<usize> {
        let is_meant = |gate: &Gate| gate.actor == actor && gate.nth == connection && is_due(gate);
        self.sim.world.gates.iter().position(is_meant)
    }

    /// Waits until the client has handled what has just arrived.
    pub(super) fn settle(&mut self, actor: Actor) {
        self.quiesce();
        self.resume(actor);
    }

    /// The actors that can still act.
    pub(super) fn active(&self) -> Vec<Actor> {
        let world = &self.sim.world;
        world.actors.iter().map(|client| client.actor).filter(|&actor| world.can_act(actor)).collect()
    }

    /// A connection with a request that is still on its way.
    pub(super) fn late(&self) -> Option<(Actor, usize)> {
        let world = &self.sim.world;
        let gate = world.gates.iter().find(|gate| !gate.late.is_empty())?;
        Some((gate.actor, gate.nth))
    }

    /// The connections of an actor on which a request waits.
    pub(super) fn waiting_connections(&self, actor: Actor) -> Vec<usize> {
        self.connections(actor, Gate::waits)
    }

    /// The connections of an actor whose gates are in this state.
    pub(super) fn connections(&self, actor: Actor, is_meant: fn(&Gate) -> bool) -> Vec<usize> {
        let world = &self.sim.world;
        let own = world.gates.iter().filter(|gate| gate.actor == actor && is_meant(gate));
        own.map(|gate| gate.nth).collect()
    }
}

impl Effects for Execution<'_> {
    fn crash(&mut self, actor: Actor) {
        self.sim.crash(actor);
    }

    fn respawn(&mut self, actor: Actor) {
        self.sim.respawn(actor);
    }

    fn cancel(&mut self, actor: Actor) {
        self.sim.cancel(actor);
    }

    fn shift_clock(&mut self, target: Target, by_ms: i64) {
        match target {
            Target::Server(server) => self.sim.set_server_clock(server, |clock| clock.jump(by_ms)),
            Target::Client(actor) | Target::Connection(actor, _) => {
                self.sim.set_clock(actor, |state| state.skew_ms += by_ms);
            }
        }
    }

    fn drift_clock(&mut self, target: Target, ppm: i64) {
        match target {
            Target::Server(server) => self.sim.set_server_clock(server, |clock| clock.drift(ppm)),
            Target::Client(actor) | Target::Connection(actor, _) => {
                self.sim.set_clock(actor, |state| state.drift_ppm = ppm);
            }
        }
    }

    fn stop_server(&mut self, server: usize) {
        self.sim.stop_server(server);
    }

    fn execute(&mut self, server: usize, commands: &[&str]) {
        self.sim.execute(server, commands);
    }

    fn lose_data(&mut self, server: usize) {
        self.sim.lose_data(server);
    }

    fn lose_writes(&mut self, server: usize, count: usize) -> usize {
        self.sim.lose_writes(server, count)
    }

    fn fail_over(&mut self, replica: usize, lost: LostWrites, stays: bool) -> LostWrites {
        self.sim.fail_over(replica, lost, stays)
    }

    fn begin_move(&mut self, slot: u16, to: usize) {
        self.sim.begin_move(slot, to);
    }

    fn end_move(&mut self, slot: u16) {
        self.sim.end_move(slot);
    }

    fn begin_log(&mut self, server: usize) {
        self.sim.begin_log(server);
        self.sim.copy_to_replicas(server);
    }
}
