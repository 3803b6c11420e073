//! What changes in the course of an execution: who has come how far, what waits at the gate, and what is granted.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::Waker;
use std::time::Duration;

use emulator::Snapshot;

use super::holds::Grant;
use super::operations::{Operation, OperationId};
use crate::actor::Actor;
use crate::fault::{Budget, Fault};
use crate::schedule::Step;
use crate::trace::{EventKind, History, HoldId, LocalState, Recorder};

#[derive(Default)]
pub(crate) struct State {
    pub(crate) actors: Vec<ActorState>,
    pub(crate) gates: Vec<Gate>,
    pub(crate) recorder: Recorder,
    pub(super) grants: Vec<Grant>,
    /// What can be cancelled, in the order in which it began.
    pub(super) operations: Vec<Operation>,
    pub(super) begun: OperationId,
    pub(super) holds: HoldId,
    /// Servers that are away, and until when.
    pub(super) outages: Vec<(usize, Duration)>,
    /// Where writes may be lost, what each server held before those and after each of them, the oldest first.
    pub(super) logs: Vec<VecDeque<Snapshot>>,
    /// How many tasks there are besides the actors' own.
    pub(crate) spawned: usize,
    /// Those who listen to a real server: it tells nobody here that there is a message, but after a command there may be one.
    pub(crate) listeners: Vec<Waker>,
    /// When the server was last asked which grants it still has.
    pub(super) looked_at: Duration,
}

#[derive(Clone, Debug)]
pub(crate) struct ActorState {
    pub(crate) actor: Actor,
    pub(crate) is_started: bool,
    pub(crate) is_finished: bool,
    pub(crate) is_crashed: bool,
    /// A fault has given it an error for an answer.
    pub(crate) got_fault_error: bool,
    /// By how much its clock was wrong at the start, and how much more it is with time.
    pub(crate) skew_ms: i64,
    pub(crate) drift_ppm: i64,
    /// Nobody else moves: its requests need not wait at the gate.
    pub(crate) is_alone: bool,
    /// How many unique names it has drawn.
    pub(crate) names: u32,
    /// When its last request came to the gate.
    pub(crate) sent_at: Duration,
    /// The release that is being polled: a command that runs now belongs to it.
    pub(crate) releasing: Option<HoldId>,
    /// The release that has begun, and of which nothing has come out of a stream yet.
    pub(crate) release_to_come: Option<HoldId>,
    /// What can be cancelled and is being polled: a request that is made now belongs to it.
    pub(crate) operation: Option<OperationId>,
    /// What its code has seen.
    pub(crate) local_state: LocalState,
    /// How many tasks it has besides its own.
    pub(crate) spawned: usize,
    /// As of the last step: whether it may have a timer, and whether it had a request to send.
    pub(crate) may_wake: bool,
    pub(crate) had_request: bool,
}

/// One connection of an actor, at the gate.
pub(crate) struct Gate {
    pub(crate) actor: Actor,
    /// Which of the actor's connections, from 0.
    pub(crate) nth: usize,
    pub(crate) server: usize,
    pub(crate) gate_state: GateState,
    /// What waits here.
    pub(crate) traffic: Traffic,
    /// What the request that waits belongs to, if that can be cancelled.
    pub(crate) operation: Option<OperationId>,
    /// Requests that the client has given up and that are still on their way, the first that was sent first.
    pub(crate) late: VecDeque<Late>,
    /// The connection is open; a closed one's place is taken by the next that is opened.
    pub(crate) is_open: bool,
}

impl Gate {
    /// A request waits to be let through, or a message to be heard.
    pub(crate) fn waits(&self) -> bool {
        matches!(self.gate_state, GateState::Waiting(_))
    }
}

/// What comes by a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// Requests, and who sent one waits for as long as it takes.
    Requests,
    /// Requests, and who sent one may have given up waiting when it goes on.
    Bytes,
    /// Messages that the client has not heard yet.
    Messages,
}

/// Runs a request that nobody waits for any more.
pub(crate) type Late = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Whose turn it is on a lane.
pub(crate) enum GateState {
    /// No request waits.
    Empty,
    /// A request waits to be let through.
    Waiting(Waker),
    /// It may go, and this befalls it.
    Open(Option<Fault>),
}

impl State {
    pub(crate) fn idx(&self, actor: Actor) -> usize {
        // Probes come after the actors, in the order of their numbers; there are few of them.
        match self.actors.get(actor.0) {
            Some(state) if state.actor == actor => actor.0,
            _ => self.actors.iter().position(|state| state.actor == actor).expect("every actor has a state"),
        }
    }

    pub(crate) fn record(&mut self, at: Duration, kind: EventKind) {
        self.recorder.event(at, kind);
    }

    pub(crate) fn history(&self) -> &History {
        self.recorder.history()
    }

    /// Takes a step.
    pub(crate) fn begin(&mut self, step: Step) {
        let waits = step == Step::Wait;
        let budget = step.budget().filter(|_| !waits || self.gates.iter().any(Gate::waits));
        if budget == Some(Budget::STALLS) {
            let impatient = self.gates.iter().filter(|gate| gate.traffic == Traffic::Bytes && gate.waits());
            for actor in impatient.map(|gate| gate.actor.0) {
                self.actors[actor].got_fault_error = true;
            }
        }
        self.recorder.begin_step(step, budget);
    }

    /// The next request of this lane is let through.
    pub(crate) fn open_gate(&mut self, gate: usize, fault: Option<Fault>) {
        if let GateState::Waiting(waker) =
            std::mem::replace(&mut self.gates[gate].gate_state, GateState::Open(fault))
        {
            waker.wake();
        }
    }

    /// The next request of this lane that its client has given up.
    pub(crate) fn take_late(&mut self, actor: Actor, nth: usize) -> Option<Late> {
        self.gates.iter_mut().find(|gate| gate.actor == actor && gate.nth == nth)?.late.pop_front()
    }

    /// How often something took from this budget.
    pub(crate) fn spent(&self, budget: Budget) -> u32 {
        self.history().footprints.iter().map(|touch| u32::from(touch.budget == Some(budget))).sum()
    }

    pub(crate) fn last_step(&self) -> Option<Step> {
        self.history().steps.last().copied()
    }

    /// A server has refused what it was asked, or hung up. What the actor was to give back stays where it is, as if it had been lost
    /// on its way.
    pub(crate) fn lose_connection(&mut self, actor: Actor) {
        self.recorder.client_ran(actor);
        let idx = self.idx(actor);
        self.actors[idx].got_fault_error = true;
        self.recorder.reached().lost = true;
    }

    /// A fault has given it an error for an answer.
    pub(crate) fn got_fault_error(&self, actor: Actor) -> bool {
        self.actors[self.idx(actor)].got_fault_error
    }

    /// It has not crashed, and its code or what it spawned may still do something.
    pub(crate) fn can_act(&self, actor: Actor) -> bool {
        let state = &self.actors[self.idx(actor)];
        state.is_started && !state.is_crashed && (!state.is_finished || self.has_request(actor))
    }

    /// A request of the actor's waits to be let through.
    pub(crate) fn has_request(&self, actor: Actor) -> bool {
        self.gates.iter().any(|gate| gate.actor == actor && gate.waits())
    }
}

impl ActorState {
    /// By how much its clock is wrong, so long after the start.
    pub(crate) fn error_ms(&self, now: Duration) -> i64 {
        self.skew_ms + (now.as_millis() as i64).saturating_mul(self.drift_ppm) / 1_000_000
    }

    pub(crate) fn new(actor: Actor) -> ActorState {
        ActorState {
            actor,
            is_started: false,
            is_finished: false,
            is_crashed: false,
            got_fault_error: false,
            skew_ms: 0,
            drift_ppm: 0,
            is_alone: false,
            names: 0,
            sent_at: Duration::ZERO,
            releasing: None,
            release_to_come: None,
            operation: None,
            local_state: LocalState::default(),
            spawned: 0,
            may_wake: false,
            had_request: false,
        }
    }
}
