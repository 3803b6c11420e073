//! Clients whose code is known.
//!
//! A client is a function of what it has been told: replies, times, cancellations. Its local state
//! is a hash of that. An execution with tasks records, for each local state, what the client does
//! in its turn. As long as all states that an execution reaches are known, no code has to run: the
//! acts are performed again, and the execution is plain data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use super::Simulation;
use super::gate::Gate;
use super::known_servers::KnownServers;
use super::pause::Part;
use super::timer_cache::CodeId;
use super::turns::{Act, End, Turn};
use crate::actor::Actor;
use crate::trace::{EventKind, LocalState};

/// When a timer wakes a client.
#[derive(Clone, Copy, Debug)]
pub(super) enum Timer {
    At(Duration),
    /// None does up to this time.
    NotBefore(Duration),
}

/// If timers fire more often than this while time moves, tasks have to run.
const FIRED_MAX: usize = 1000;

/// If servers are known to do more than this, all of it is forgotten before the next exploration.
const DEEDS_MAX: usize = 200_000;

/// The code of a client, its name and its local state.
pub(super) type Key = (CodeId, Actor, LocalState);

#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    turns: BTreeMap<Key, Arc<Turn>>,
    timers: BTreeMap<Key, Timer>,
    pub(super) servers: KnownServers,
}

/// Everything that clients and servers are known to do. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Learned {
    known: Arc<Mutex<Known>>,
    unlearnable: Arc<Mutex<Unlearnable>>,
}

/// The codes of which nothing is known by what was learned.
#[derive(Debug, Default)]
struct Unlearnable {
    /// Codes with state that is shared outside of Redis, or with streams.
    clients: BTreeSet<CodeId>,
    /// Codes that leave more behind on servers than snapshots have.
    servers: BTreeSet<CodeId>,
}

/// Why an execution means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// A learned client reached a local state in which it has not been seen.
    UnknownState,
    /// A client left more behind on a server than a snapshot has.
    NoSnapshot,
}

impl Learned {
    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unlearnable(&self) -> MutexGuard<'_, Unlearnable> {
        self.unlearnable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy that learns by itself from now on, so that two threads need not wait for each other.
    pub(crate) fn fork(&self) -> Learned {
        let known = Arc::new(Mutex::new(self.known().clone()));
        Learned { known, unlearnable: self.unlearnable.clone() }
    }

    /// How much is known.
    pub(crate) fn len(&self) -> usize {
        let known = self.known();
        known.turns.len() + known.servers.len()
    }

    /// Forgets what servers do, if that takes much memory. No place of an execution may be kept.
    pub(crate) fn limit(&self) {
        let mut known = self.known();
        if known.servers.len() > DEEDS_MAX {
            known.servers = KnownServers::default();
        }
    }
}

impl Learned {
    /// The turn of a client in this state, if that is known.
    fn turn(&self, key: &Key) -> Option<Arc<Turn>> {
        self.known().turns.get(key).cloned()
    }

    /// Whether the codes of all these clients can be learned.
    pub(crate) fn are_clients_learnable(&self, codes: &[CodeId]) -> bool {
        let unlearnable = self.unlearnable();
        !codes.iter().any(|code| unlearnable.clients.contains(code))
    }

    /// Whether snapshots of servers have all that these clients leave there.
    pub(crate) fn are_servers_learnable(&self, codes: &[CodeId]) -> bool {
        let unlearnable = self.unlearnable();
        !codes.iter().any(|code| unlearnable.servers.contains(code))
    }

    /// These codes do not always do what was learned, or servers do not.
    pub(crate) fn unlearn(&self, codes: &[CodeId]) {
        let mut unlearnable = self.unlearnable();
        unlearnable.clients.extend(codes);
        unlearnable.servers.extend(codes);
    }

    /// These codes depend on more than they are told.
    pub(super) fn unlearn_clients(&self, codes: &[CodeId]) {
        self.unlearnable().clients.extend(codes);
    }

    /// Learns a turn. Code that does something else than before depends on more than it is told.
    pub(super) fn learn(&self, key: Key, turn: Turn) {
        let mut known = self.known();
        match known.turns.get(&key) {
            None => _ = known.turns.insert(key, Arc::new(turn)),
            Some(known) if **known == turn => {}
            Some(_) => self.unlearn_clients(&[key.0]),
        }
    }

    pub(super) fn learn_timer(&self, key: Key, timer: Timer) {
        let mut known = self.known();
        let is_news = match (known.timers.get(&key).copied(), timer) {
            (Some(Timer::At(known)), Timer::At(now)) if known != now => {
                return self.unlearn_clients(&[key.0]);
            }
            (Some(Timer::At(_)), _) => false,
            (Some(Timer::NotBefore(before)), Timer::NotBefore(now)) => before < now,
            _ => true,
        };
        if is_news {
            known.timers.insert(key, timer);
        }
    }
}

/// How the clients of an execution run.
pub(crate) enum Clients {
    /// As tasks, and all servers run everything.
    Tasks,
    /// As tasks, from which is learned. Servers run what is not known.
    Teachers(Learned),
    /// As far as they are known, without tasks. Servers run what is not known.
    Learned(Learned, Arc<Woken>),
}

/// The learned clients that are to be polled, in order.
#[derive(Debug, Default)]
pub(crate) struct Woken(Mutex<Vec<Actor>>);

impl Woken {
    fn list(&self) -> MutexGuard<'_, Vec<Actor>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<Actor> {
        let mut list = self.list();
        (!list.is_empty()).then(|| list.remove(0))
    }
}

/// Wakes a learned client.
struct LearnedWaker {
    actor: Actor,
    woken: Arc<Woken>,
}

impl Wake for LearnedWaker {
    fn wake(self: Arc<Self>) {
        let mut list = self.woken.list();
        if !list.contains(&self.actor) {
            list.push(self.actor);
        }
    }
}

/// A client reached a local state in which it has not been seen.
#[derive(Debug)]
pub(crate) struct Unknown;

impl Simulation {
    pub(super) fn key(&self, actor: Actor) -> Key {
        let state = self.state();
        (self.code_of(actor), actor, state.actors[state.idx(actor)].local_state)
    }

    pub(super) fn code_of(&self, actor: Actor) -> CodeId {
        self.config.codes.get(actor.0).copied().unwrap_or(self.config.probe_code)
    }

    /// Time has moved. No timer that has not fired was due.
    pub(crate) fn learn_timers(&self) {
        let Clients::Teachers(learned) = &self.clients else { return };
        let actors: Vec<Actor> = self.state().actors.iter().map(|state| state.actor).collect();
        for actor in actors.into_iter().filter(|&actor| self.state().can_run(actor)) {
            learned.learn_timer(self.key(actor), Timer::NotBefore(self.now()));
        }
    }

    /// Wakes a client: it starts.
    pub(crate) fn wake(&self, actor: Actor) {
        if let Clients::Learned(_, woken) = &self.clients {
            Arc::new(LearnedWaker { actor, woken: woken.clone() }).wake();
        }
    }

    /// Polls learned clients until none is awake.
    pub(crate) fn run_learned(
        &self,
        learned: &Learned,
        woken: &Arc<Woken>,
        polls_max: u64,
    ) -> Result<(), Unknown> {
        while let Some(actor) = woken.next() {
            let waker = Waker::from(Arc::new(LearnedWaker { actor, woken: woken.clone() }));
            if !self.state().can_run(actor) {
                continue;
            }
            if self.stands_still(actor, Part::Main, &waker) {
                // The tasks that its code spawned run on, and are not known without it.
                if self.state().actor(actor).spawned > 0 {
                    return Err(Unknown);
                }
                continue;
            }
            let turn = learned.turn(&self.runs_next(actor)).ok_or(Unknown)?;
            let at = self.now();
            let mut state = self.state();
            if !state.note_polls(at, actor, turn.polls, polls_max) {
                continue;
            }
            let client = state.actor(actor);
            client.spawned = client.spawned.saturating_add_signed(turn.tasks);
            drop(state);
            turn.acts.iter().for_each(|act| self.perform(actor, act));
            self.wait_with(actor, &waker);
        }
        Ok(())
    }

    /// Everything that is known of clients and servers. `None` if all of them run.
    pub(super) fn learned(&self) -> Option<&Learned> {
        match &self.clients {
            Clients::Tasks => None,
            Clients::Teachers(learned) | Clients::Learned(learned, _) => Some(learned),
        }
    }

    /// The execution ends, and means nothing.
    pub(crate) fn stop(&self, lack: Lack) {
        let mut state = self.state();
        (state.lack, state.is_endless) = (Some(lack), true);
    }

    /// Records the end of a client's code.
    pub(crate) fn end_client(&self, actor: Actor, end: &End) {
        let is_excused = self.state().got_fault_error(actor);
        match end.clone() {
            End::Done(value) => self.state().actor(actor).result = Some(value),
            End::Error(error) if is_excused => self.record(EventKind::GaveUp { actor, error }),
            End::Error(error) | End::Panic(error) => self.record(EventKind::Failed { actor, error }),
        }
    }

    /// Records that an actor has ended, for whatever reason.
    pub(crate) fn finish_client(&self, actor: Actor) {
        let mut state = self.state();
        state.actor(actor).is_finished = true;
        if !state.actor(actor).is_crashed {
            state.note_end(self.now(), actor);
        }
        self.quiescence.note_activity();
    }

    /// Drops what the code of a learned client holds.
    pub(crate) fn drop_learned(&self, actor: Actor) {
        if !matches!(self.clients, Clients::Learned(..)) || self.state().actor(actor).is_finished {
            return;
        }
        let gates = self.state().gates.len();
        for gate in (0..gates).filter(|&gate| self.state().gates[gate].actor == actor) {
            self.withdraw(gate);
            self.hang_up(gate);
        }
        self.state().end_operations(actor);
        self.finish_client(actor);
    }

    /// Moves time to this, and polls the learned clients whose timers fire. If `stops`, it ends
    /// when one of them acts. Returns whether one did.
    pub(crate) fn move_learned(
        &self,
        (learned, woken): (&Learned, &Arc<Woken>),
        until: Duration,
        stops: bool,
        polls_max: u64,
    ) -> Result<bool, Unknown> {
        let activity = self.quiescence.activity();
        let mut n_fired = 0;
        while let Some((at, actors)) = self.next_timer(learned, until)? {
            n_fired += 1;
            if n_fired > FIRED_MAX {
                return Err(Unknown);
            }
            self.set_time(at);
            actors.into_iter().for_each(|actor| self.wake(actor));
            self.run_learned(learned, woken, polls_max)?;
            if stops && self.quiescence.activity() != activity {
                return Ok(true);
            }
        }
        self.set_time(until);
        Ok(self.quiescence.activity() != activity)
    }

    /// The next timer up to this time, and the clients that it wakes.
    fn next_timer(
        &self,
        learned: &Learned,
        until: Duration,
    ) -> Result<Option<(Duration, Vec<Actor>)>, Unknown> {
        let now = self.now();
        // If timers fire together, the first to be armed is the first to fire.
        let mut actors: Vec<(u64, Actor)> =
            self.state().actors.iter().map(|state| (state.latest_turn, state.actor)).collect();
        actors.sort_unstable();
        let actors: Vec<Actor> = actors.into_iter().map(|(_, actor)| actor).collect();
        let mut next: Option<(Duration, Vec<Actor>)> = None;
        let mut known_to = until;
        for actor in actors.into_iter().filter(|&actor| self.state().can_run(actor)) {
            match learned.known().timers.get(&self.key(actor)) {
                Some(Timer::At(at)) if *at <= now => {}
                Some(&Timer::At(at)) => match &mut next {
                    Some((first, actors)) if *first == at => actors.push(actor),
                    Some((first, _)) if *first < at => {}
                    _ => next = Some((at, vec![actor])),
                },
                Some(&Timer::NotBefore(before)) => known_to = known_to.min(before),
                None => return Err(Unknown),
            }
        }
        match next.filter(|(at, _)| *at <= until) {
            Some((at, _)) if at > known_to => Err(Unknown),
            None if until > known_to => Err(Unknown),
            next => Ok(next),
        }
    }

    /// Makes all clients learned ones, in a state that was saved.
    pub(super) fn reattach(&self, woken: &Arc<Woken>) {
        let actors: Vec<Actor> = self.state().actors.iter().map(|state| state.actor).collect();
        for actor in actors {
            let waker = Waker::from(Arc::new(LearnedWaker { actor, woken: woken.clone() }));
            self.wait_with(actor, &waker);
            if let Some(pause) = &mut self.state().actor(actor).pause {
                pause.rewake(&waker);
            }
        }
    }

    /// A learned client waits: this wakes it.
    fn wait_with(&self, actor: Actor, waker: &Waker) {
        let mut state = self.state();
        let waits = |gate: &&mut Gate| gate.actor == actor && (gate.is_busy() || gate.listens());
        for gate in state.gates.iter_mut().filter(waits) {
            gate.waker = Some(waker.clone());
        }
        state.wake_when_cancelled(actor, waker);
    }

    /// Does what the code of a client did before.
    fn perform(&self, actor: Actor, act: &Act) {
        let gate = |nth: usize| self.state().gate(actor, nth).expect("the client has opened it");
        match act.clone() {
            Act::ReadTime => self.state().recorder.time_read(),
            Act::DrawName => self.state().actor(actor).names += 1,
            Act::Open { server } => _ = self.open(actor, server),
            Act::Close { nth } => self.close(gate(nth)),
            Act::Ask { nth, request, operation } => {
                let gate = gate(nth);
                self.set_operation(actor, operation);
                self.request_time();
                self.ask(gate, request);
                self.set_operation(actor, None);
            }
            Act::Withdraw { nth } => self.withdraw(gate(nth)),
            Act::AwaitMessage { nth } => self.await_message(gate(nth)),
            Act::GiveUp { nth } => self.give_up(gate(nth)),
            Act::Delay { nth, request } => self.delay_too(gate(nth), request),
            Act::Enter { section, since, record } => _ = self.enter(actor, section, since, record),
            Act::Extend { hold, since, record } => self.extend(hold, since, record),
            Act::Leave { hold } => self.leave(hold),
            Act::BeginOperation => _ = self.begin_operation(actor),
            Act::EndOperation { id } => self.end_operation(id),
            Act::Accept { resource, token } => self.accept(actor, resource, token),
            Act::End(end) => {
                self.end_client(actor, &end);
                self.finish_client(actor);
            }
        }
    }
}
