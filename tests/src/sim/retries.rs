//! Clients that send the same commands again and again, because nothing has changed. Such a client
//! waits for a change, and it is explored like that: more tries would show nothing new.
//!
//! The idea is that of awaits in explorations of spin loops: Kokologiannakis, Ren and Vafeiadis,
//! "Dynamic Partial Order Reductions for Spinloops" (2021).

use std::time::Duration;

use emulator::{Access, Timestamp};

use super::{GRACE, Server, Simulation, State};
use crate::actor::Actor;
use crate::trace::{EventKind, History};

/// A client waits for a change after so many equal tries.
const TRIES: usize = 3;
/// Most commands of one try.
const COMMANDS_MAX: usize = 8;

/// A command and its reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    /// A hash of the server, the command's name and its first key.
    request: u64,
    /// A hash of the reply.
    reply: u64,
    /// The number of the step in which the command ran, from 1. Zero if it ran outside of steps.
    step: usize,
}

/// The first time at which a client was about to try once more what it had tried in vain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    /// The number of steps before.
    pub(crate) steps: usize,
    pub(crate) actor: Actor,
    pub(crate) connection: usize,
}

impl State {
    /// This client tries in vain. Only the first time of each client is kept.
    pub(crate) fn note_retry(&mut self, actor: Actor) {
        let gate = self.gates.iter().find(|gate| gate.actor == actor && gate.waits());
        if let Some(connection) = gate.map(|gate| gate.nth)
            && !self.retries.iter().any(|known| known.actor == actor)
        {
            self.retries.push(Retry { steps: self.history().steps.len(), actor, connection });
        }
    }

    /// A client has a request to send. If it has ended equal tries by itself, that is recorded.
    pub(crate) fn note_request(&mut self, at: Duration, actor: Actor, request: u64) {
        if self.equal_tries(actor, TRIES + 1).is_some_and(|tries| tries[0].request != request) {
            self.record(at, EventKind::RetriesEnded { actor });
        }
    }

    /// A command of a client has run.
    pub(crate) fn note_exchange(&mut self, actor: Actor, request: u64, reply: u64) {
        let step = if self.recorder.is_in_step() { self.history().steps.len() } else { 0 };
        let idx = self.idx(actor);
        self.actors[idx].exchanges.push(Exchange { request, reply, step });
    }

    /// The code of a client has ended.
    pub(crate) fn note_end(&mut self, at: Duration, actor: Actor) {
        if self.equal_tries(actor, TRIES + 1).is_some() {
            self.record(at, EventKind::RetriesEnded { actor });
        }
    }

    /// The latest try of a client. `None` if its last `count` tries were not equal, or wrote, or if
    /// something has changed since that the latest one read. Otherwise the next try would be equal,
    /// too. If time moved, tries are not equal: the client may count how long it has waited.
    fn equal_tries(&self, actor: Actor, count: usize) -> Option<&[Exchange]> {
        let exchanges = &self.actors[self.idx(actor)].exchanges;
        let is_equal = |len: usize| {
            let tries = exchanges.len().checked_sub(count * len).map(|start| &exchanges[start..]);
            let is_same =
                |(one, next): (&Exchange, &Exchange)| (one.request, one.reply) == (next.request, next.reply);
            tries.is_some_and(|tries| tries.iter().zip(&tries[len..]).all(is_same))
        };
        let len = (1..=COMMANDS_MAX).find(|&len| is_equal(len))?;
        let latest = &exchanges[exchanges.len() - len..];
        let History { steps, footprints, .. } = self.history();
        let of = |exchange: &Exchange| &footprints[exchange.step - 1];
        let tries = &exchanges[exchanges.len() - count * len..];
        if tries[0].step == 0 || tries.last()?.step > steps.len() {
            // The tries belong to no step, or the history has been taken.
            return None;
        }
        let since = &footprints[tries[0].step - 1..];
        if since.iter().any(|footprint| footprint.moves_time) {
            return None;
        }
        let only_reads = tries.iter().all(|exchange| {
            let mut servers = of(exchange).servers.iter();
            servers.all(|(_, footprint)| footprint.iter().all(|(_, access, _)| access == Access::Read))
        });
        let has_changed = |place: usize| {
            steps[place].actor() != Some(actor)
                && latest.iter().any(|exchange| of(exchange).conflicts_with(&footprints[place]))
        };
        (only_reads && !(latest[0].step..steps.len()).any(has_changed)).then_some(latest)
    }

    /// Whether the client is about to try once more what it has tried in vain.
    pub(crate) fn retries(&self, actor: Actor) -> bool {
        if self.actors[self.idx(actor)].gives_up {
            return false;
        }
        let Some(tries) = self.equal_tries(actor, TRIES) else { return false };
        let mut waiting = self.gates.iter().filter(|gate| gate.actor == actor && gate.is_busy());
        waiting.next().is_some_and(|gate| gate.waits() && gate.request == tries[0].request)
            && waiting.next().is_none()
    }

    /// The clients that are about to try once more what they have tried in vain. They wait for a
    /// change.
    pub(crate) fn retrying(&self) -> Vec<Actor> {
        let actors = self.actors.iter().map(|state| state.actor);
        actors.filter(|&actor| self.can_act(actor) && self.retries(actor)).collect()
    }
}

impl Simulation {
    /// How long it takes until something changes by itself that the clients in question may read: a
    /// key's time to live ends, or an outage, or much time has passed by their clocks. `None` if
    /// nothing does, or if there are no such clients.
    pub(crate) fn next_change(&self, retrying: &[Actor]) -> Option<Duration> {
        if retrying.is_empty() {
            return None;
        }
        self.logged_or(|| self.find_next_change(retrying).into_iter().collect::<Vec<_>>()).first().copied()
    }

    fn find_next_change(&self, retrying: &[Actor]) -> Option<Duration> {
        const JUST_PAST: Duration = Duration::from_millis(1);
        let ends = self.servers.iter().zip(&self.clocks).filter_map(|(server, clock)| {
            let Server::Emulator(emulator) = server else { return None };
            let deadline = emulator.next_deadline(Timestamp::from_millis(clock.now().millis() - 1))?;
            clock.shows_in(deadline + JUST_PAST)
        });
        let next = ends.chain(self.outage()).min();
        let state = self.state();
        let reads_time = |&actor: &Actor| {
            let tries = state.equal_tries(actor, TRIES).into_iter().flatten();
            tries.into_iter().any(|exchange| state.history().footprints[exchange.step - 1].reads_time)
        };
        let clocks = retrying.iter().any(reads_time).then(|| self.config.lease + GRACE);
        next.or(clocks)
    }
}
