//! Everything that clients are told. Their local states follow from it.

use std::hash::Hash;
use std::time::Duration;

use super::gate::Gate;
use super::learned_clients::Clients;
use super::operations::OperationId;
use super::request::value_bytes;
use super::serve::{Answer, Loss};
use super::{ActorState, Simulation};
use crate::actor::Actor;
use crate::trace::LocalState;

/// One thing that a client is told.
#[derive(Clone)]
pub(crate) enum Told {
    /// Its turn begins.
    Turn,
    Answered {
        nth: usize,
        answer: Answer,
    },
    /// It receives a message, or no more will come.
    Heard {
        nth: usize,
        message: Option<Vec<u8>>,
    },
    Cancelled(OperationId),
    Clock {
        skew_ms: i64,
        drift_ppm: i64,
    },
    /// A client that runs alone cannot be told this.
    Other,
}

impl Told {
    /// About how many bytes its values take.
    pub(super) fn value_bytes(&self) -> usize {
        match self {
            Told::Answered { answer: Answer::Reply(Ok(reply)), .. } => value_bytes(reply),
            Told::Heard { message: Some(message), .. } => message.len(),
            _ => 0,
        }
    }
}

/// How a local state follows from another one.
#[derive(Clone)]
pub(crate) struct Telling {
    pub(crate) before: LocalState,
    pub(crate) at: Duration,
    pub(crate) told: Told,
}

impl Simulation {
    /// A client is told something. Its hash is a part of the local state.
    pub(super) fn tell<H: Hash>(
        &self,
        actor: Actor,
        hashed: impl FnOnce() -> H,
        told: impl FnOnce() -> Told,
    ) {
        if self.timers.is_none() && matches!(self.clients, Clients::Tasks) {
            return;
        }
        let (at, hashed) = (self.now(), hashed());
        let mut state = self.state();
        let client = state.actor(actor);
        let before = client.local_state;
        let after = before.after(at, hashed);
        client.local_state = after;
        drop(state);
        if let Some(learned) = self.learned() {
            learned.note_telling(after, || Telling { before, at, told: told() });
        }
    }

    /// Tells a client that runs alone what it was told in an execution. Returns whether that is
    /// possible.
    pub(crate) fn tell_again(&self, actor: Actor, told: &Told) -> bool {
        match told.clone() {
            Told::Answered { nth, answer: answer @ (Answer::Reply(_) | Answer::Lost(_)) } => {
                // No other connection takes the place of a request that was given up. A client that
                // runs alone has no such place.
                let is_late = matches!(answer, Answer::Lost(Loss::Late));
                let gate = self.gate_where(actor, nth, |gate| gate.waits() && !is_late);
                gate.map(|gate| self.answer(gate, answer)).is_some()
            }
            Told::Heard { nth, message } => {
                let gate = self.gate_where(actor, nth, |gate| gate.waker.is_some());
                gate.map(|gate| self.give_message(gate, message)).is_some()
            }
            Told::Cancelled(id) => {
                self.cancel_operation(actor, Some(id));
                true
            }
            Told::Clock { skew_ms, drift_ppm } => {
                self.set_clock(actor, |ActorState { skew_ms: skew, drift_ppm: drift, .. }| {
                    (*skew, *drift) = (skew_ms, drift_ppm);
                });
                true
            }
            Told::Answered { .. } | Told::Turn | Told::Other => false,
        }
    }

    fn gate_where(&self, actor: Actor, nth: usize, is_meant: impl FnOnce(&Gate) -> bool) -> Option<usize> {
        let state = self.state();
        state.gate(actor, nth).filter(|&gate| is_meant(&state.gates[gate]))
    }
}
