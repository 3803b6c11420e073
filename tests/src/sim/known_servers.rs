//! Servers repeat what they did before.
//!
//! A server is a function of its state, its clock and what it is to do. An exploration asks the
//! same again and again, in few different states. A known deed runs nowhere: the server only moves
//! to its next state. An emulator gets a state when something unknown is to run there.

use std::hash::Hash;
use std::sync::{Arc, OnceLock};

use emulator::{Data, Emulator, Footprint, Snapshot};
use redis::Value;

use super::session::Session;
use super::subscriptions::arrived;
use super::{Lack, Server, Simulation};
use crate::actor::Actor;
use crate::fingerprint::fingerprint;
use crate::live::{Request, RequestKind};
use crate::memo::{Reply, ServerState, Subscriber, Touches, Transition};

impl Simulation {
    /// Another execution left behind what the emulators hold.
    pub(super) fn forget_emulators(&mut self) {
        for engine in &mut self.engines {
            engine.loaded = None;
            (engine.shown, engine.followed) = (None, None);
            engine.listeners.clear();
            engine.waiters.clear();
            engine.served.clear();
        }
    }

    /// Brings the servers to the state in which every execution begins: empty ones, or those of
    /// snapshots with their digests.
    pub(crate) fn begin_with(&mut self, snapshots: &[(Arc<Snapshot>, u64)]) {
        let Some(learned) = self.learned() else {
            for (node, emulator) in self.emulators().enumerate() {
                let own = snapshots.get(self.world.home(node));
                own.into_iter().for_each(|(snapshot, _)| emulator.restore(snapshot));
            }
            return;
        };
        let mut known = learned.known();
        let state_of = |node: usize| match snapshots.get(self.world.home(node)) {
            Some((snapshot, digest)) => known.servers.state_of(*digest, snapshot),
            None => known.servers.empty(),
        };
        let states = (0..self.servers.len()).map(state_of).map(Some).collect();
        drop(known);
        self.world.servers = states;
    }

    /// Lets a server do something, as far as that is known. `None` if it has to run: its emulator
    /// then has its state, and [`Simulation::learn_deed`] is to follow.
    pub(super) fn repeat_deed(&mut self, server: usize, deed: u64) -> Option<Reply> {
        let Some(state) = self.world.servers[server] else {
            self.show_place(server);
            return None;
        };
        let deed = (state, self.clocks[server].now(), self.in_context(server, deed));
        let known = self.clients.learned()?.known();
        let engine = &mut self.engines[server];
        if let Some(transition) = known.servers.transition(&deed) {
            engine.footprint = transition.footprint.clone();
            engine.units.clone_from(&transition.units);
            drop(known);
            self.follow(server, &transition);
            return Some(transition.reply.clone());
        }
        let Server::Emulator(emulator) = &self.servers[server] else { return None };
        let subscribers = known.servers.subscribers(state);
        if engine.loaded.is_none_or(|loaded| !loaded.holds_as(state)) || !subscribers.is_empty() {
            if engine.loaded.is_none() || !subscribers.is_empty() {
                emulator.reset(self.clocks[server].clone());
                self.config.keep_effects(emulator);
                (engine.shown, engine.followed) = (None, None);
            }
            // They subscribe to an empty server. Otherwise they would run what is due there.
            for (actor, nth, channel) in subscribers {
                let mut connection = emulator.connection();
                connection.execute(&[b"SUBSCRIBE", channel.as_bytes()]);
                engine.listeners.push(((*actor, *nth), connection));
            }
            emulator.restore(known.servers.snapshot(state));
            engine.loaded = Some(state);
        }
        drop(known);
        self.show_place(server);
        self.block_waiters(server, state);
        None
    }

    /// Lets the commands wait on a server that wait there in this state.
    fn block_waiters(&mut self, server: usize, state: ServerState) {
        let (Server::Emulator(emulator), Some(learned)) = (&self.servers[server], self.clients.learned())
        else {
            return;
        };
        let known = learned.known();
        let engine = &mut self.engines[server];
        for waiter in known.servers.waiters(state) {
            let connection = emulator.connection();
            connection.block(&waiter.command);
            engine.waiters.push(((waiter.actor, waiter.nth), connection));
        }
    }

    /// Shows a server its place among the others, before it runs what is not known of it.
    fn show_place(&mut self, server: usize) {
        self.show_slot_map(server);
        self.show_primary(server);
    }

    /// A deed whose effects are kept is another one: scenarios without replicas do not know them.
    /// It also depends on the place of the server among the others.
    fn in_context(&self, server: usize, deed: u64) -> u64 {
        if let Some(primary) = self.followed(server) {
            return fingerprint((deed, "follows", primary));
        }
        match &self.world.slot_map {
            Some(slot_map) => fingerprint((deed, self.world.home(server), slot_map)),
            None => fingerprint((deed, self.config.needs_effects())),
        }
    }

    /// A hash of what a request makes a server do. A subscription belongs to its connection.
    pub(super) fn deed(&self, request: &Request, (actor, nth): (Actor, usize)) -> u64 {
        match request.kind {
            RequestKind::Subscribe { .. } => fingerprint((request.hash, actor, nth)),
            _ => request.hash,
        }
    }

    /// The session on which a connection to a known server subscribes. It is not that of the
    /// client: the server is told of its subscribers when something runs there.
    pub(super) fn subscribing(&mut self, server: usize, subscriber: (Actor, usize)) -> Option<Session> {
        self.learned()?;
        let Server::Emulator(emulator) = &self.servers[server] else { return None };
        let listeners = &mut self.engines[server].listeners;
        let own = listeners.iter().position(|(of, _)| *of == subscriber);
        let own = own.map(|place| OnceLock::from(listeners.remove(place).1));
        Some(Session::over(emulator, own.unwrap_or_default()))
    }

    /// A server has done something, with this reply. `None` if there is none. If that, or what it
    /// left behind, is more than a state has, the execution means nothing. It has to run with
    /// servers that run everything. All that was `open` for it closes.
    pub(super) fn learn_deed(&mut self, server: usize, deed: u64, reply: Option<Reply>, open: impl Sized) {
        let Server::Emulator(emulator) = &self.servers[server] else { return };
        let footprint = Arc::new(emulator.footprint());
        drop(open);
        let deed = self.in_context(server, deed);
        let engine = &mut self.engines[server];
        engine.footprint = footprint.clone();
        engine.units = emulator.effects();
        let units = engine.units.clone();
        let (Some(learned), Some(state)) = (self.clients.learned(), self.world.servers[server]) else {
            return self.hear_from(server);
        };
        let mut messages = Vec::new();
        let mut is_complete = true;
        for (to, connection) in std::mem::take(&mut engine.listeners) {
            let (arrived, is_closed) = arrived(&connection);
            messages.extend(arrived.into_iter().map(|message| (to, message)));
            is_complete &= !is_closed || connection.is_hung_up();
        }
        let waiters = std::mem::take(&mut engine.waiters).into_iter();
        let served = waiters.filter_map(|(of, connection)| Some((of, connection.take_reply()?)));
        let served: Vec<_> = served.collect();
        let can_move =
            |reply: &Reply| if let Reply::Later(command) = reply { command.can_move() } else { true };
        let is_known = |reply: &Reply| can_move(reply) && is_complete && emulator.is_snapshot_complete();
        let Some(reply) = reply.filter(is_known) else {
            return self.world.stop(Lack::NoSnapshot);
        };
        let mut known = learned.known();
        let snapshot = Arc::new(emulator.snapshot());
        let mut next = state.with_data_of(known.servers.state_of(snapshot.digest(), &snapshot));
        if !served.is_empty() {
            let waits = |of| !served.iter().any(|(served, _)| *served == of);
            known.servers.change_waiters(&mut next, |waiters| waiters.retain(|of| waits((of.actor, of.nth))));
        }
        let transition = Transition { reply, footprint, units, next, messages, served };
        let transition = known.servers.learn((state, self.clocks[server].now(), deed), transition);
        engine.loaded = Some(next);
        drop(known);
        self.follow(server, &transition);
    }

    /// A known server moves to its next state, and what it sends is on its way.
    fn follow(&mut self, server: usize, transition: &Transition) {
        self.world.servers[server] = Some(transition.next);
        self.engines[server].served.extend(transition.served.iter().cloned());
        self.hear_all(&transition.messages);
    }

    /// A server that is known has one more subscriber. Returns what that touches there.
    pub(super) fn add_subscriber(&mut self, server: usize, subscriber: Subscriber) -> Option<Arc<Touches>> {
        let mut known = self.clients.learned()?.known();
        let touches = known.servers.touches(&subscriber.2);
        if let Some(state) = &mut self.world.servers[server] {
            known.servers.change_subscribers(state, |subscribers| {
                if !subscribers.contains(&subscriber) {
                    subscribers.push(subscriber);
                }
            });
        }
        Some(touches)
    }

    /// These connections to a server are no longer subscribed.
    pub(super) fn remove_subscribers(&mut self, server: usize, is_meant: impl Fn(Actor, usize) -> bool) {
        if let (Some(learned), Some(state)) = (self.clients.learned(), &mut self.world.servers[server]) {
            learned.known().servers.change_subscribers(state, |subscribers| {
                subscribers.retain(|&(actor, nth, _)| !is_meant(actor, nth));
            });
        }
    }

    /// Lets an emulator do something that no client asked for, and records what that touches.
    pub(super) fn on_server(&mut self, server: usize, deed: impl Hash, act: impl FnOnce(&Emulator)) {
        if let Server::Emulator(emulator) = &self.servers[server] {
            let emulator = emulator.clone();
            let deed = fingerprint(deed);
            if self.repeat_deed(server, deed).is_none() {
                act(&emulator);
                self.learn_deed(server, deed, Some(Reply::Now(Value::Nil)), ());
            }
            self.note_footprint(server);
        }
    }

    /// Reads the data of a server. `None` if the server is real.
    pub(super) fn read<R>(&self, server: usize, read: impl FnOnce(Data<'_>) -> R) -> Option<R> {
        let Server::Emulator(emulator) = &self.servers[server] else { return None };
        let state = self.world.servers[server];
        let (Some(learned), Some(state)) = (self.learned(), state) else { return Some(emulator.read(read)) };
        let snapshot = learned.known().servers.snapshot(state).clone();
        Some(read(snapshot.at(self.clocks[server].now())))
    }

    /// The footprint of what a server has just done. `None` if that is not known.
    pub(crate) fn footprint(&self, server: usize) -> Option<Arc<Footprint>> {
        match &self.servers[server] {
            Server::Emulator(_) => Some(self.engines[server].footprint.clone()),
            Server::Redis(_) => None,
        }
    }

    /// A copy of what a server in this process holds.
    pub(super) fn snapshot(&self, server: usize) -> Option<Arc<Snapshot>> {
        let Server::Emulator(emulator) = &self.servers[server] else { return None };
        Some(match (self.learned(), self.world.servers[server]) {
            (Some(learned), Some(state)) => learned.known().servers.snapshot(state).clone(),
            _ => Arc::new(emulator.snapshot()),
        })
    }

    /// Records what a server has just touched, if a step is being taken.
    pub(crate) fn note_footprint(&mut self, server: usize) {
        if self.world.recorder.is_in_step()
            && let Some(footprint) = self.footprint(server)
        {
            if let Some(primary) = self.followed(server) {
                self.world.recorder.server_access(primary, footprint.clone());
            }
            self.world.recorder.server_access(server, footprint);
            self.carry_messages(server);
            self.note_units(server);
        }
    }
}
