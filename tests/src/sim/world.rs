//! The state of an execution: how far each client is, which requests wait at their gates, and which
//! grants clients hold.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use emulator::{HashSlot, SlotMap, Snapshot};
use locks::Record;

use super::actor_state::{ActorState, Life};
use super::gate::{Gate, GateState};
use super::replication::{Replication, Sighting};
use super::shared_list::SharedList;
use super::tries::{Livelock, Retry, Tries};
use crate::actor::{ACTORS_MAX, Actor};
use crate::fault::{Budget, Fault, Target};
use crate::linearizability::Call;
use crate::live::OperationId;
use crate::memo::{Judgement, ServerState, UnknownTimer};
use crate::schedule::Step;
use crate::trace::{CallId, Ended, EventKind, History, HoldId, Recorder};

/// The state of an execution.
#[derive(Clone, Default)]
pub(crate) struct World {
    /// True time since the start.
    pub(crate) now: Duration,
    /// The state of each server. `None` in an execution in which all servers run.
    pub(super) servers: Vec<Option<ServerState>>,
    pub(crate) actors: SharedList<ActorState>,
    pub(crate) gates: SharedList<Gate>,
    pub(crate) recorder: Recorder,
    /// Clients for which it is not known whether they have a timer.
    pub(crate) unknown_timers: Vec<UnknownTimer>,
    /// The keys that commands to real servers named and may have written, each with its server.
    pub(crate) named_keys: BTreeSet<(usize, Vec<u8>)>,
    pub(super) grants: Vec<Grant>,
    /// Operations that can be cancelled, in the order in which they began.
    pub(super) operations: Vec<Operation>,
    /// Calls of operations that have not returned.
    pub(super) calls: Vec<OpenCall>,
    /// The learned clients that have something to do, in order.
    pub(crate) woken: Vec<Actor>,
    /// Counts what clients did that the driver may have to handle.
    pub(crate) activity: u64,
    /// The number of turns of clients so far.
    pub(super) n_turns: u64,
    /// The number of commands that have run.
    pub(super) n_run: u64,
    /// The nodes of each server.
    pub(super) replication: Vec<Replication>,
    /// Which server has which slots. `None` if they are no cluster.
    pub(super) slot_map: Option<Arc<SlotMap>>,
    /// The slots of keys that there were at the start, or that a request has named.
    pub(super) slots_in_use: BTreeSet<HashSlot>,
    /// What replicas had when that showed, in order.
    pub(crate) sightings: Vec<Sighting>,
    /// Servers that refuse requests, and until when.
    pub(super) outages: Vec<(usize, Duration)>,
    /// For each server whose last writes may be lost: what it held before them and after each of
    /// them, the oldest first.
    pub(super) logs: Vec<VecDeque<Arc<Snapshot>>>,
    /// The number of tasks besides the actors' own.
    pub(crate) spawned: usize,
    /// When the servers were last checked for the grants.
    pub(super) looked_at: Duration,
    /// The clients that tried in vain.
    pub(crate) retries: BTreeMap<Tries, Retry>,
    /// The clients that read their clocks inside a section, each with its latest request.
    pub(crate) readings_inside: BTreeSet<(Actor, u64)>,
    /// The clients that waited as long as possible while they tried in vain.
    pub(super) waited_in_vain: BTreeSet<Tries>,
    /// The clients keep each other from getting on, as it seems.
    pub(crate) livelock: Option<Livelock>,
    /// Why the execution ends now, if it does before its clients.
    pub(crate) cut: Option<Cut>,
    /// The clock of a server was set, or jumped.
    pub(super) is_clock_set: bool,
    /// When all actors but services had ended, if there are services.
    pub(super) evening: Option<Duration>,
    /// All other actors have ended, and every service waits. Then the next wait ends the execution.
    pub(crate) is_at_rest: bool,
    pub(crate) is_over: bool,
    /// Clients run: the execution has not ended.
    pub(crate) is_running: bool,
    /// For each invariant, its last judgement. `None` once it is broken.
    pub(super) judged: Vec<Option<Arc<Judgement>>>,
    /// The times at which steps were taken, in order.
    pub(super) times: Vec<Duration>,
}

/// A client inside a section.
#[derive(Clone)]
pub(super) struct Grant {
    pub(super) id: HoldId,
    pub(super) actor: Actor,
    pub(super) section: &'static str,
    pub(super) until: Duration,
    /// Where the server keeps the grant. `None` if that is not known, or if the grant was ended.
    pub(super) record: Option<Record>,
    /// The record stays on the server until the lease ends, if nobody changes it.
    pub(super) lasts: bool,
    /// The server has it no longer, and that is told. Only texts need this.
    pub(super) has_lapsed: bool,
}

/// An operation that can be cancelled.
#[derive(Clone)]
pub(super) struct Operation {
    pub(super) id: OperationId,
    pub(super) is_cancelled: bool,
}

/// A call of an operation that has not returned.
#[derive(Clone)]
pub(super) struct OpenCall {
    pub(super) id: CallId,
    pub(super) what: Arc<Call>,
    /// The client has read its clock since.
    pub(super) has_read_clock: bool,
    /// It is in the history.
    pub(super) is_recorded: bool,
}

/// Why an execution means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// A learned client reached a local state in which it has not been seen.
    UnknownState,
    /// A client left more behind on a server than a snapshot has.
    NoSnapshot,
}

/// Why an execution ends before its clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// A client reached a limit.
    Limit,
    /// The execution means nothing.
    Lack(Lack),
}

impl World {
    pub(crate) fn idx(&self, actor: Actor) -> usize {
        // Probes come after the actors, in the order of their numbers. There are few of them.
        match self.actors.get(actor.0) {
            Some(state) if state.actor == actor => actor.0,
            _ => self.actors.iter().position(|state| state.actor == actor).expect("every actor has a state"),
        }
    }

    /// Why the execution means nothing, if so.
    pub(crate) fn lack(&self) -> Option<Lack> {
        match self.cut {
            Some(Cut::Lack(lack)) => Some(lack),
            Some(Cut::Limit) | None => None,
        }
    }

    /// Whether there is such an actor.
    pub(super) fn knows(&self, actor: Actor) -> bool {
        self.actors.iter().any(|state| state.actor == actor)
    }

    /// Whether the code of an actor has begun and not ended.
    pub(crate) fn runs(&self, actor: Actor) -> bool {
        self.actors[self.idx(actor)].life == Life::Running
    }

    /// Whether the code of an actor, or a task of it, may still do something by itself.
    pub(super) fn can_run(&self, actor: Actor) -> bool {
        let ActorState { life, spawned, .. } = self.actors[self.idx(actor)];
        life == Life::Running || matches!(life, Life::Ended(_)) && spawned > 0
    }

    /// The gate of a connection.
    pub(crate) fn gate(&self, actor: Actor, nth: usize) -> Option<usize> {
        self.gates.iter().position(|gate| gate.actor == actor && gate.nth == nth)
    }

    pub(crate) fn actor(&mut self, actor: Actor) -> &mut ActorState {
        let idx = self.idx(actor);
        &mut self.actors[idx]
    }

    pub(crate) fn record(&mut self, kind: EventKind) {
        // A client that enters or leaves, or does what counts, makes progress.
        if let EventKind::Enter { actor, .. }
        | EventKind::Extended { actor, .. }
        | EventKind::Leave { actor, .. }
        | EventKind::Did { actor, .. } = kind
        {
            self.note_progress(actor);
        }
        match kind {
            EventKind::Enter { actor, until, .. } | EventKind::Extended { actor, until, .. } => {
                self.actor(actor).lease_end = Some(until);
            }
            EventKind::Overrun { actor: loser, .. }
            | EventKind::Ended { holder: loser, .. }
            | EventKind::Shortened { holder: loser, .. } => self.actor(loser).lost_lease = true,
            _ => {}
        }
        self.recorder.event(self.now, kind);
    }

    pub(crate) fn history(&self) -> &History {
        self.recorder.history()
    }

    /// Whether a timer of a client fired in the last step.
    pub(crate) fn has_timer_fired(&self) -> bool {
        self.history().footprints.last().is_some_and(|footprint| footprint.fires_timer)
    }

    /// Whether no timer fired in the last wait, and nothing has happened since that depends on it.
    /// An order in which the wait comes last is equivalent.
    pub(crate) fn has_waited_in_vain(&self) -> bool {
        let History { steps, footprints, .. } = self.history();
        let Some(wait) = steps.iter().rposition(|step| *step == Step::Wait) else { return false };
        let (wait, later) = (&footprints[wait], &footprints[wait + 1..]);
        !wait.fires_timer && !later.iter().any(|step| step.conflicts_with(wait))
    }

    /// Begins a step.
    pub(crate) fn begin(&mut self, step: Step) {
        let waits = step == Step::Wait;
        let budget = step.budget().filter(|_| !waits || self.gates.iter().any(|gate| self.is_awake(gate)));
        if budget == Some(Budget::STALLS) {
            self.slow_down();
        }
        if self.times.last() != Some(&self.now) {
            self.times.push(self.now);
        }
        self.recorder.begin_step(step, budget);
    }

    /// Time passes while requests, replies and messages are on their way: each is slow from now on,
    /// until it has arrived.
    fn slow_down(&mut self) {
        for nth in 0..self.gates.len() {
            if self.gates[nth].is_busy() {
                let Gate { actor, traffic, .. } = self.gates[nth];
                self.gates[nth].is_slow = true;
                self.actor(actor).was_ready = false;
                if traffic.is_stream() {
                    self.may_time_out(actor);
                }
            }
        }
    }

    /// Time passes while a request of a multiplexed connection is on its way, so its client may
    /// give up. If the request is a release, it may come too late.
    pub(crate) fn may_time_out(&mut self, actor: Actor) {
        let idx = self.idx(actor);
        self.actors[idx].got_fault_error = true;
        self.recorder.reached().lost = true;
    }

    /// A client did something that the driver may have to handle.
    pub(super) fn note_activity(&mut self) {
        self.activity += 1;
    }

    /// A request that a client made at `sent` comes to this gate.
    pub(super) fn arrive(&mut self, gate: usize, sent: Duration) {
        let idx = self.idx(self.gates[gate].actor);
        let actor = &mut self.actors[idx];
        actor.sent_at = sent;
        self.wait_at(gate);
    }

    /// A request or a message waits at this gate from now on.
    pub(super) fn wait_at(&mut self, gate: usize) {
        self.note_activity();
        self.change_gate(gate, GateState::Waiting);
        self.recorder.requests_changed(self.gates[gate].actor);
    }

    /// Changes what waits at this gate.
    pub(super) fn change_gate(&mut self, gate: usize, gate_state: GateState) {
        if self.gates[gate].change_to(gate_state) {
            self.recorder.slow_request_ended(self.gates[gate].actor);
        }
    }

    /// The number that `CLIENT ID` returns on the next connection of an actor. It does not depend
    /// on the order in which clients connect. `None` for code that runs alone.
    pub(super) fn next_connection(&mut self, actor: Actor) -> Option<u64> {
        if actor.0 >= ACTORS_MAX {
            return None;
        }
        let client = self.actor(actor);
        client.connections += 1;
        Some((client.connections - 1) * ACTORS_MAX as u64 + actor.0 as u64 + 1)
    }

    /// A learned client has something to do.
    pub(crate) fn wake(&mut self, actor: Actor) {
        if !self.woken.contains(&actor) {
            self.woken.push(actor);
        }
    }

    /// The code of an actor is polled `polls` more times. If that makes more than `polls_max` in
    /// this step, returns `false`, and the execution ends.
    pub(super) fn note_polls(&mut self, actor: Actor, polls: u64, polls_max: u64) -> bool {
        let step = self.history().steps.len();
        let client = self.actor(actor);
        let before = if client.polls.0 == step { client.polls.1 } else { 0 };
        client.polls = (step, before + polls);
        let is_over = client.polls.1 > polls_max;
        if is_over && self.cut.is_none() {
            self.end(actor, format!("in one step, it was polled {polls_max} times"));
        }
        !is_over
    }

    /// An actor reached this limit, and the execution ends.
    pub(crate) fn end(&mut self, actor: Actor, limit: String) {
        self.cut = Some(Cut::Limit);
        self.record(EventKind::Endless { actor, limit });
    }

    /// The actor that took most of the latest steps: a service only if all others have ended.
    pub(crate) fn busiest(&self) -> Actor {
        const LATEST: usize = 100;
        let counts = |actor: &Actor| self.evening.is_some() || !self.actors[actor.0].is_service;
        let steps = self.history().steps.iter().rev().filter_map(|step| step.actor());
        let latest = steps.filter(counts).take(LATEST);
        let mut taken = vec![0; self.actors.len()];
        latest.for_each(|actor| taken[actor.0] += 1);
        Actor((0..taken.len()).max_by_key(|&actor| taken[actor]).unwrap_or(0))
    }

    /// How often a fault took from this budget.
    pub(crate) fn spent(&self, budget: Budget) -> u32 {
        self.history().footprints.iter().map(|footprint| u32::from(footprint.budget == Some(budget))).sum()
    }

    /// How often time moved to a timer since the last stall.
    pub(crate) fn waits_in_stall(&self) -> usize {
        let since = self.history().footprints.iter().rev().take_while(|footprint| !footprint.stalls());
        since.filter(|footprint| footprint.waits).count()
    }

    pub(crate) fn last_step(&self) -> Option<Step> {
        self.history().steps.last().copied()
    }

    /// The actor that ran in the last step.
    pub(crate) fn last_actor(&self) -> Option<Actor> {
        match self.last_step() {
            Some(
                Step::Run(actor, _)
                | Step::Send(actor, _)
                | Step::Receive(actor, _)
                | Step::Start(actor)
                | Step::Fault(Fault { target: Target::Connection(actor, _), .. }),
            ) => Some(actor),
            _ => None,
        }
    }

    /// How the actors have ended.
    pub(crate) fn ended(&self) -> Ended {
        let mut ended = Ended::default();
        for client in self.actors.iter().filter(|client| client.actor.0 < ACTORS_MAX && !client.is_service) {
            match client.life {
                Life::Ended(Some(_)) => ended.finished.push(client.actor),
                Life::Ended(None) => ended.failed.push(client.actor),
                Life::Crashed => ended.crashed.push(client.actor),
                Life::Unstarted | Life::Running => {}
            }
        }
        ended
    }

    /// A copy without the history.
    pub(super) fn without_history(&mut self) -> World {
        let recorder = std::mem::take(&mut self.recorder);
        let copy = self.clone();
        self.recorder = recorder;
        copy
    }

    /// A server refused a request or disconnected. If the request was a release, the grant stays,
    /// as if the request had been lost.
    pub(crate) fn note_fault_error(&mut self, actor: Actor) {
        self.recorder.client_ran(actor);
        self.actor(actor).got_fault_error = true;
        self.recorder.reached().lost = true;
    }

    /// A command of the actor has run on a server.
    pub(super) fn note_run(&mut self, actor: Actor) {
        self.n_run += 1;
        let idx = self.idx(actor);
        self.actors[idx].last_run = self.n_run;
    }

    /// Whether the client may end with an error now: a fault gave it one in place of a reply, it
    /// has lost its grant, or its lease has ended.
    pub(crate) fn may_give_up(&mut self, actor: Actor) -> bool {
        let ActorState { got_fault_error, lost_lease, lease_end, .. } = self.actors[self.idx(actor)];
        if got_fault_error || lost_lease {
            return true;
        }
        lease_end.is_some_and(|end| {
            self.recorder.time_read();
            end <= self.now
        })
    }

    /// Whether the client has not crashed and its code, or a task of it, may still do something.
    pub(crate) fn can_act(&self, actor: Actor) -> bool {
        match self.actors[self.idx(actor)].life {
            Life::Unstarted | Life::Crashed => false,
            Life::Running => true,
            Life::Ended(_) => self.has_request(actor),
        }
    }

    /// Whether a request at this gate keeps others from sleeping: neither is it slow, nor is it a
    /// try in vain. A client that only tries in vain waits as if it had nothing to send.
    pub(super) fn is_awake(&self, gate: &Gate) -> bool {
        gate.is_busy() && !gate.is_slow() && !self.retries(gate.actor)
    }

    /// Whether a request of the actor waits, or the reply to one is on the way.
    pub(crate) fn has_request(&self, actor: Actor) -> bool {
        self.gates.iter().any(|gate| gate.actor == actor && gate.is_busy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Actor = Actor(0);
    const B: Actor = Actor(1);

    /// Two clients whose code runs.
    fn world() -> World {
        let mut world = World::default();
        for actor in [A, B] {
            world.actors.push(ActorState { life: Life::Running, ..ActorState::new(actor) });
        }
        world
    }

    /// Code that asks for `CLIENT ID` may use it as a name.
    #[test]
    fn no_two_connections_have_one_number() {
        let mut world = world();
        let numbers = [A, B, A, B, A].map(|actor| world.next_connection(actor).unwrap());
        assert_eq!(numbers[..2], [1, 2]);
        assert_eq!(BTreeSet::from(numbers).len(), numbers.len());
        assert_eq!(world.next_connection(Actor(ACTORS_MAX)), None);
    }

    #[test]
    fn polls_are_limited_in_each_step() {
        let mut world = world();
        assert!(world.note_polls(A, 2, 3) && world.note_polls(A, 1, 3) && world.note_polls(B, 3, 3));
        world.begin(Step::Run(A, 0));
        assert!(world.note_polls(A, 3, 3) && world.cut.is_none());
        assert!(!world.note_polls(A, 1, 3) && world.cut == Some(Cut::Limit));
        assert!(!world.note_polls(A, 1, 3));
        assert_eq!(world.history().events.len(), 1, "the limit is recorded once");
    }

    /// A service goes on for ever, so it is no sign of a limit that others are to blame for.
    #[test]
    fn the_busiest_client_is_no_service_until_all_others_have_ended() {
        let mut world = world();
        [A, B, A].into_iter().for_each(|actor| world.begin(Step::Run(actor, 0)));
        assert_eq!(world.busiest(), A);
        world.actor(A).is_service = true;
        assert_eq!(world.busiest(), B);
        world.evening = Some(Duration::ZERO);
        assert_eq!(world.busiest(), A);
    }

    #[test]
    fn steps_are_counted_by_what_they_take() {
        let mut world = world();
        let steps =
            [(Step::Wait, None), (Step::Wait, Some(Budget::STALLS)), (Step::Wait, None), (Step::Wait, None)];
        for (nth, (step, budget)) in steps.into_iter().enumerate() {
            assert_eq!(world.spent(Budget::STALLS), u32::from(nth > 1));
            world.recorder.begin_step(step, budget);
        }
        assert_eq!((world.spent(Budget::STALLS), world.waits_in_stall()), (1, 2));
    }
}
