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
        let reads = (
            history.steps.len(),
            self.last_actor(),
            has_waited,
            self.has_timer_fired(),
            self.waits_in_stall(),
        );
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
            // Only tasks have or read these.
            is_told: _,
            begun: _,
            connections: _,
            releasing: _,
            release_to_come: _,
            operation: _,
        } = self;
        let flags =
            (is_started, is_finished, is_crashed, got_fault_error, lost_lease, may_wake, was_ready, result);
        (actor, flags, skew_ms, drift_ppm, holds, operations, names, sent_at).hash(hasher);
        (pause, local_state, spawned, gives_up, stage, exchanges, lease_end).hash(hasher);
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
            is_slow,
            traffic,
            pending,
            operation,
            late,
            was_given_up,
            subscription,
            // Only tasks have one.
            waker: _,
        } = self;
        (actor, nth, server, session.is_some(), gate_state, is_slow, traffic).hash(hasher);
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, OnceLock};
    use std::task::Waker;
    use std::time::Duration;

    use emulator::Emulator;
    use locks::Record;

    use super::super::gate::Traffic;
    use super::super::holds::Grant;
    use super::super::pause::Part;
    use super::super::request::Request;
    use super::super::retries::Tries;
    use super::super::session::Session;
    use super::*;
    use crate::actor::Actor;

    const A: Actor = Actor(0);
    const MS: Duration = Duration::from_millis(1);

    type Change = fn(&mut State);

    /// Each of these changes how an execution may continue, or what oracles see of it.
    const CHANGES: &[(&str, Change)] = &[
        ("nothing", |_| {}),
        ("another actor", |state| state.actors.push(ActorState::new(Actor(2)))),
        ("started", |state| state.actor(A).is_started = true),
        ("finished", |state| state.actor(A).is_finished = true),
        ("crashed", |state| state.actor(A).is_crashed = true),
        ("got an error", |state| state.actor(A).got_fault_error = true),
        ("lost its lease", |state| state.actor(A).lost_lease = true),
        ("has a lease", |state| state.actor(A).lease_end = Some(MS)),
        ("wrong clock", |state| state.actor(A).skew_ms = 1),
        ("drifting clock", |state| state.actor(A).drift_ppm = 1),
        ("result", |state| state.actor(A).result = Some(true)),
        ("holds", |state| state.actor(A).holds = 1),
        ("operations", |state| state.actor(A).operations = 1),
        ("names", |state| state.actor(A).names = 1),
        ("its last command", |state| state.actor(A).last_run = 1),
        ("sent", |state| state.actor(A).sent_at = MS),
        ("stands still", |state| state.actor(A).pause = Some(Pause::default())),
        ("stands still until a reply", |state| {
            state.actor(A).pause = Some(Pause { awaits_reply: true, ..Pause::default() });
        }),
        ("stands still, and was woken", |state| {
            let woken = vec![(Part::Main, Waker::noop().clone())];
            state.actor(A).pause = Some(Pause { woken, ..Pause::default() });
        }),
        ("latest turn", |state| state.actor(A).latest_turn = 1),
        ("local state", |state| {
            let client = state.actor(A);
            client.local_state = client.local_state.after(MS, "told");
        }),
        ("a task", |state| state.actor(A).spawned = 1),
        ("may wake", |state| state.actor(A).may_wake = true),
        ("was ready", |state| state.actor(A).was_ready = true),
        ("gives up", |state| state.actor(A).gives_up = vec![1]),
        ("stage", |state| state.actor(A).stage = 1),
        ("another gate", |state| state.gates.push(Gate::new(A, 1, 0))),
        ("another server", |state| state.gates[0].server = 1),
        ("closed", |state| state.gates[0].session = None),
        ("slow", |state| state.gates[0].is_slow = true),
        ("waits", |state| state.gates[0].gate_state = GateState::Waiting),
        ("listens", |state| state.gates[0].gate_state = GateState::Listening),
        ("replied", |state| state.gates[0].gate_state = GateState::Replied(Ok(redis::Value::Nil))),
        ("replied something else", |state| {
            state.gates[0].gate_state = GateState::Replied(Ok(redis::Value::Okay));
        }),
        ("a message", |state| state.gates[0].gate_state = GateState::Heard(Some(vec![1]))),
        ("no more messages", |state| state.gates[0].gate_state = GateState::Heard(None)),
        ("traffic", |state| state.gates[0].traffic = Traffic::Bytes),
        ("another request", |state| state.gates[0].pending = Some(pending("SET"))),
        ("no request", |state| state.gates[0].pending = None),
        ("a later request", |state| state.gates[0].pending = Some(Pending { sent: MS, ..pending("GET") })),
        ("a release", |state| {
            state.gates[0].pending = Some(Pending { release: Some((A, 1)), ..pending("GET") });
        }),
        ("operation", |state| state.gates[0].operation = Some((A, 1))),
        ("a late request", |state| state.gates[0].late.push_back(late("GET"))),
        ("another late request", |state| state.gates[0].late.push_back(late("SET"))),
        ("gave a request up", |state| state.gates[0].was_given_up = true),
        ("a grant", |state| state.grants.push(grant())),
        ("another holder", |state| state.grants.push(Grant { actor: Actor(1), ..grant() })),
        ("another section", |state| state.grants.push(Grant { section: "other", ..grant() })),
        ("a longer grant", |state| state.grants.push(Grant { until: 2 * MS, ..grant() })),
        ("a grant without a record", |state| state.grants.push(Grant { record: None, ..grant() })),
        ("a shortened grant", |state| state.grants.push(Grant { lasts: false, ..grant() })),
        ("a lapsed grant", |state| state.grants.push(Grant { has_lapsed: true, ..grant() })),
        ("an operation", |state| state.operations.push(operation(false))),
        ("a cancelled operation", |state| state.operations.push(operation(true))),
        ("awake", |state| state.woken.push(A)),
        ("commands", |state| state.n_run = 1),
        ("an outage", |state| state.outages.push((0, MS))),
        ("an outage elsewhere", |state| state.outages.push((1, MS))),
        ("a longer outage", |state| state.outages.push((0, 2 * MS))),
        ("a log", |state| state.logs.push([Arc::new(Emulator::new().snapshot())].into())),
        ("a log of another state", |state| {
            let emulator = Emulator::new();
            emulator.connection().execute(&[b"SET", b"k", b"v"]);
            state.logs.push([Arc::new(emulator.snapshot())].into());
        }),
        ("looked at", |state| state.looked_at = MS),
        ("waited in vain", |state| _ = state.waited_in_vain.insert(tries())),
        ("a livelock", |state| {
            state.livelock = Some(Livelock { steps: 2, round: 1, actors: vec![A, Actor(1)] });
        }),
    ];

    fn pending(name: &str) -> Pending {
        let request = request(name);
        Pending { brief: request.hash_brief(0), request, sent: Duration::ZERO, release: None }
    }

    fn request(name: &str) -> Request {
        Request::from(&redis::cmd(name).arg("k").to_owned())
    }

    fn late(name: &str) -> Late {
        Late { request: request(name), session: Session::over(&Emulator::new(), OnceLock::new()) }
    }

    fn grant() -> Grant {
        let record = Some(Record::Key("k".into()));
        Grant { id: (A, 1), actor: A, section: "cs", until: MS, record, lasts: true, has_lapsed: false }
    }

    fn operation(is_cancelled: bool) -> Operation {
        Operation { id: (A, 1), is_cancelled, waker: None }
    }

    fn tries() -> Tries {
        Tries { actor: A, request: 1, commands: 1, hash: 1 }
    }

    fn hash_of(change: Change) -> u64 {
        let actors = [A, Actor(1)].map(ActorState::new).into_iter().collect();
        let mut state = State { actors, ..State::default() };
        let session = Some(Session::over(&Emulator::new(), OnceLock::new()));
        state.gates.push(Gate { session, pending: Some(pending("GET")), ..Gate::new(A, 0, 0) });
        change(&mut state);
        FixedState::default().hash_one(&state)
    }

    /// If two such states had one hash, a step of one would be repeated in the other.
    #[test]
    fn states_that_continue_otherwise_have_other_hashes() {
        let mut seen = BTreeMap::new();
        for &(name, change) in CHANGES {
            if let Some(other) = seen.insert(hash_of(change), name) {
                panic!("{other} and {name} have one hash");
            }
        }
    }

    #[test]
    fn a_state_has_no_hash_if_it_lacks_something() {
        let has_hash = |change: Change| {
            let mut state = State::default();
            change(&mut state);
            state.has_hash()
        };
        assert!(has_hash(|_| {}));
        assert!(!has_hash(|state| state.is_clock_set = true));
        assert!(!has_hash(|state| state.is_endless = true));
    }
}
