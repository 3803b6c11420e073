//! A hash of everything that decides how an execution of learned clients continues. Executions in
//! states of equal hashes continue equally.
//!
//! All fields of the state are listed here. A field that a step or the end of an execution reads is
//! hashed, also if it is read from the history.

use std::hash::{BuildHasher as _, Hash, Hasher};

use emulator::{Access, Resource};
use foldhash::quality::FixedState;

use super::gate::{Gate, GateState, Pending};
use super::operations::Operation;
use super::pause::Pause;
use super::request::hash_result;
use super::retries::Livelock;
use super::serve::Late;
use super::subscriptions::Subscription;
use super::{ActorState, Simulation, State};
use crate::schedule::Step;
use crate::trace::{History, StepFootprint};

impl Simulation {
    /// A hash of the state between two steps. `None` if the state has none: if clients try again
    /// and again, if the clock of a server was set, or if something is not known.
    pub(crate) fn hash_state(&self) -> Option<u64> {
        let state = self.state();
        if !state.has_hash() {
            return None;
        }
        let mut hasher = FixedState::default().build_hasher();
        (self.config.terms, self.now()).hash(&mut hasher);
        self.hash_servers(&mut hasher);
        state.hash_history(&mut hasher);
        state.hash(&mut hasher);
        // Only spans that the code distinguishes count from these times.
        if !self.config.thresholds.is_empty() {
            state.times.hash(&mut hasher);
        }
        Some(hasher.finish())
    }
}

impl State {
    /// Whether everything that decides how the execution continues is in its hash. If clients try
    /// in vain, that is much of the history.
    fn has_hash(&self) -> bool {
        self.is_whole()
            && !self.is_clock_set
            && !self.actors.iter().any(|client| client.tries_equally() && !self.is_over(client))
    }

    /// Whether the execution has reached no limit, and all that it needed was known.
    pub(crate) fn is_whole(&self) -> bool {
        self.unknown_timers.is_empty() && self.lack.is_none() && !self.is_endless
    }

    /// Whether nothing of a client can run any more.
    fn is_over(&self, client: &ActorState) -> bool {
        let is_gone = client.is_crashed || client.is_finished && client.spawned == 0;
        is_gone && !self.has_request(client.actor)
    }

    /// Hashes what the next steps read of the history.
    fn hash_history(&self, hasher: &mut impl Hasher) {
        let history = self.history();
        let budgets = history.footprints.iter().filter_map(|footprint| footprint.budget);
        let spent = budgets.map(|budget| FixedState::default().hash_one(budget));
        let spent = spent.fold(0_u64, u64::wrapping_add);
        let has_waited = self.last_step() == Some(Step::Wait);
        let reads = (history.steps.len(), self.last_actor(), has_waited, self.has_timer_fired());
        (reads, spent, history.reached).hash(hasher);
    }

    /// Hashes how a client continues the history.
    fn hash_client(&self, client: &ActorState, hasher: &mut impl Hasher) {
        let History { steps, footprints, .. } = self.history();
        // Polls count in the last step alone, and turns by their order.
        let polls = if client.polls.0 == steps.len() { client.polls.1 } else { 0 };
        let earlier = self.actors.iter().filter(|other| other.latest_turn < client.latest_turn);
        (polls, client.last_run, earlier.count()).hash(hasher);
        for step in client.steps_of_tries() {
            let footprint = step.checked_sub(1).and_then(|place| footprints.get(place));
            footprint.into_iter().for_each(|footprint| hash_written(footprint, hasher));
        }
    }
}

/// Hashes the keys that a step wrote, or that it wrote something else.
fn hash_written(footprint: &StepFootprint, hasher: &mut impl Hasher) {
    for (server, footprint) in &footprint.servers {
        for (resource, ..) in footprint.iter().filter(|&(_, access, _)| access == Access::Write) {
            let key = if let Resource::Key { db, key, .. } = resource { Some((db, key)) } else { None };
            (server, key).hash(hasher);
        }
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let State {
            actors,
            gates,
            grants,
            operations,
            woken,
            n_run,
            outages,
            logs,
            looked_at,
            retries,
            waited_in_vain,
            livelock,
            // Part of the time, or of the history.
            times: _,
            recorder: _,
            // Turns count by their order.
            n_turns: _,
            // Only real servers and tasks have these.
            named_keys: _,
            listeners: _,
            spawned: _,
            // The state has no hash, or the execution has not ended.
            unknown_timers: _,
            is_endless: _,
            is_clock_set: _,
            lack: _,
            is_running: _,
        } = self;
        (actors.len(), gates.len(), logs.len()).hash(hasher);
        actors.hashes().chain(gates.hashes()).for_each(|hash| hasher.write_u64(hash));
        let acting = actors.iter().filter(|client| !self.is_over(client));
        acting.for_each(|client| self.hash_client(client, hasher));
        (grants, operations, woken, n_run, outages, looked_at).hash(hasher);
        for log in logs {
            log.len().hash(hasher);
            log.iter().for_each(|snapshot| snapshot.digest().hash(hasher));
        }
        let livelock = livelock.as_ref().map(|Livelock { steps, round, actors }| (steps, round, actors));
        (retries, waited_in_vain, livelock).hash(hasher);
    }
}

impl Hash for ActorState {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let ActorState {
            actor,
            is_started,
            is_finished,
            is_crashed,
            got_fault_error,
            lost_lease,
            lease_end,
            skew_ms,
            drift_ppm,
            result,
            holds,
            operations,
            names,
            sent_at,
            releasing,
            release_to_come,
            operation,
            pause,
            local_state,
            spawned,
            may_wake,
            was_ready,
            gives_up,
            stage,
            exchanges,
            // They count while the client is not over: see `hash_client`.
            polls: _,
            last_run: _,
            latest_turn: _,
            // Only tasks have these.
            is_told: _,
            begun: _,
            connections: _,
        } = self;
        let flags =
            (is_started, is_finished, is_crashed, got_fault_error, lost_lease, may_wake, was_ready, result);
        (actor, flags, skew_ms, drift_ppm, holds, operations, names, sent_at).hash(hasher);
        (releasing, release_to_come, operation, pause, local_state, spawned).hash(hasher);
        (gives_up, stage, exchanges, lease_end).hash(hasher);
    }
}

impl Hash for Gate {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Gate {
            actor,
            nth,
            server,
            session,
            gate_state,
            traffic,
            pending,
            operation,
            late,
            was_given_up,
            subscription,
            // Only tasks have one.
            waker: _,
        } = self;
        (actor, nth, server, session.is_some(), gate_state, traffic).hash(hasher);
        (pending, operation, late, was_given_up, subscription).hash(hasher);
    }
}

impl Hash for GateState {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        std::mem::discriminant(self).hash(hasher);
        match self {
            GateState::Replied(result) => hash_result(result).hash(hasher),
            GateState::Heard(message) => message.hash(hasher),
            // The local state of the client has the answer.
            GateState::Answered(_) | GateState::Empty | GateState::Listening | GateState::Waiting => {}
        }
    }
}

impl Hash for Pending {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Pending { request, brief, sent, release } = self;
        (request.hash, brief, sent, release).hash(hasher);
    }
}

impl Hash for Late {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.request.hash.hash(hasher);
    }
}

impl Hash for Subscription {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (&self.channel, &self.messages, self.is_closed).hash(hasher);
    }
}

impl Hash for Operation {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.id, self.is_cancelled).hash(hasher);
    }
}

impl Hash for Pause {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.awaits_reply, self.woken.is_empty()).hash(hasher);
    }
}
