//! The subscriptions of clients. A message that was published waits at the gate of its subscriber.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use emulator::{DirectConnection, Footprint, Reply};

use super::gate::{Gate, GateState, Passage, Subscription};
use super::session::Session;
use super::{Recording, Simulation, World};
use crate::actor::Actor;
use crate::live::{OperationId, Told, Traffic};
use crate::render::{brief, quoted};
use crate::trace::{EventKind, Struck};

/// The messages that have arrived at a connection, and whether it is closed.
pub(super) fn arrived(connection: &DirectConnection) -> (Vec<Vec<u8>>, bool) {
    let mut messages = Vec::new();
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        match connection.poll_message(&mut cx) {
            Poll::Ready(Reply::Push(words)) => messages.push(match words.into_iter().next_back() {
                Some(Reply::Bulk(message)) => message.into(),
                _ => Vec::new(),
            }),
            Poll::Ready(_) => return (messages, true),
            Poll::Pending => return (messages, false),
        }
    }
}

impl Simulation {
    /// A connection is subscribed to this channel from now on.
    pub(super) fn begin_subscription(&mut self, gate: usize, channel: &str) {
        let Gate { actor, nth, server, .. } = self.world.gates[gate];
        let touches = self.add_subscriber(server, (actor, nth, channel.into())).unwrap_or_default();
        let subscription =
            Subscription { channel: channel.into(), messages: VecDeque::new(), is_closed: false, touches };
        // A request that is sent again changes nothing.
        self.world.gates[gate].subscription.get_or_insert(subscription);
    }

    /// Ends the subscription of a connection that closes. Returns what that touches on a server
    /// that is known.
    pub(super) fn end_subscription(&mut self, gate: usize) -> Option<Arc<Footprint>> {
        let Subscription { is_closed, touches, .. } = self.world.gates[gate].subscription.take()?;
        self.learned()?;
        self.forget_subscriber(gate);
        Some(if is_closed { touches.closing_closed.clone() } else { touches.closing.clone() })
    }

    /// A connection is not subscribed any more, unless a request that its client has given up still
    /// comes before its end.
    pub(super) fn forget_subscriber(&mut self, gate: usize) {
        let Gate { actor, nth, server, ref late, ref subscription, .. } = self.world.gates[gate];
        if late.is_empty() && subscription.is_none() {
            self.remove_subscribers(server, |of, number| (of, number) == (actor, nth));
        }
    }

    /// Fetches what a server that is not known has sent to its subscribers.
    pub(super) fn hear_from(&mut self, server: usize) {
        for gate in 0..self.world.gates.len() {
            if self.world.is_subscribed(gate, server) {
                self.fetch_messages(gate);
            }
        }
        self.fetch_pushes(server);
    }

    fn fetch_messages(&mut self, gate: usize) {
        let session = self.world.session(gate);
        let (messages, is_closed) = match &session {
            Session::Emulator(connection) => arrived(connection.open()),
            // A server that no longer answers sends nothing.
            Session::Redis(_) => (session.news("PING").unwrap_or_default(), false),
        };
        messages.into_iter().for_each(|message| self.hear(gate, message));
        if is_closed {
            self.world.close_subscription(gate);
        }
    }

    /// A message arrives at its subscriber. If the client waits for one, it waits at the gate from
    /// now on until the message may pass: its code has nothing to do.
    fn hear(&mut self, gate: usize, message: Vec<u8>) {
        let world = &mut self.world;
        let Some(subscription) = &mut world.gates[gate].subscription else { return };
        subscription.messages.push_back(message);
        if world.gates[gate].listens() {
            world.wait_at(gate);
            self.note_looking(gate);
        }
    }

    /// Messages arrive at the subscribers of a server that is known.
    pub(super) fn hear_all(&mut self, messages: &[((Actor, usize), Vec<u8>)]) {
        for ((actor, nth), message) in messages {
            let gate = self.world.gate(*actor, *nth);
            gate.into_iter().for_each(|gate| self.hear(gate, message.clone()));
        }
    }

    /// A server has closed the connections of its subscribers.
    pub(super) fn close_subscriptions(&mut self, server: usize) {
        self.remove_subscribers(server, |_, _| true);
        for gate in 0..self.world.gates.len() {
            if self.world.is_subscribed(gate, server) {
                self.world.close_subscription(gate);
            }
        }
    }

    /// Clients that wait for a message on a connection which is closed learn that no more will
    /// come.
    pub(crate) fn end_closed_subscriptions(&mut self) {
        let world = &self.world;
        let is_closed = |gate: &Gate| gate.subscription.as_ref().is_some_and(|of| of.is_closed);
        let ended = (0..world.gates.len())
            .filter(|&gate| world.gates[gate].listens() && is_closed(&world.gates[gate]));
        let ended: Vec<usize> = ended.collect();
        for gate in ended {
            self.note_looking(gate);
            self.end_messages(gate);
        }
    }

    /// A client waits at its gate until a message may pass, or for a message.
    pub(super) fn await_message(&mut self, gate: usize, operation: Option<OperationId>) {
        let world = &mut self.world;
        if !world.gates[gate].looks() {
            return;
        }
        world.gates[gate].traffic = Traffic::Messages;
        world.gates[gate].operation = operation;
        self.note_looking(gate);
        if let Session::Redis(_) = self.world.session(gate) {
            self.fetch_messages(gate);
        }
        let world = &mut self.world;
        let Some(subscription) = &world.gates[gate].subscription else { return };
        if !subscription.messages.is_empty() {
            world.wait_at(gate);
            return;
        }
        if !subscription.is_closed {
            return world.change_gate(gate, GateState::Listening);
        }
        self.end_messages(gate);
    }

    /// A client that waits for a message learns that no more will come.
    fn end_messages(&mut self, gate: usize) {
        let world = &self.world;
        let Gate { actor, subscription: Some(Subscription { channel, .. }), .. } = &world.gates[gate] else {
            return;
        };
        let (actor, channel) = (*actor, channel.clone());
        // A connection to a known server is closed by nothing but the server's restart.
        if self.learned().is_some() || self.world.session(gate).is_hung_up() {
            self.world.note_fault_error(actor);
        }
        self.give_message(gate, None);
        self.world.record(EventKind::SubscriptionEnded { actor, channel });
    }

    /// A client polls for messages, or no longer does. Records what it touches.
    pub(super) fn note_looking(&mut self, gate: usize) {
        let world = &self.world;
        let Gate { actor, server, .. } = world.gates[gate];
        let Some(Subscription { is_closed, touches, .. }) = &world.gates[gate].subscription else { return };
        let known = if *is_closed { &touches.looking_closed } else { &touches.looking }.clone();
        if let Session::Emulator(connection) = self.world.session(gate) {
            let is_known = self.learned().is_some();
            let looking = if is_known { known } else { Arc::new(connection.open().looking()) };
            let world = &mut self.world;
            world.recorder.client_ran(actor);
            world.recorder.server_access(server, looking);
        }
    }

    /// Lets the message at this gate pass, unless a fault breaks the connection.
    pub(super) fn pass_message(&mut self, gate: usize, passage: Passage) {
        let world = &mut self.world;
        let Gate { actor, server, .. } = world.gates[gate];
        let Some(subscription) = &mut world.gates[gate].subscription else { return };
        let channel = subscription.channel.clone();
        let message = subscription.messages.front().cloned().unwrap_or_default();
        let text = || format!("{channel}: {}", quoted(&message));
        if passage.fault.is_none() {
            subscription.messages.pop_front();
        }
        if let Some(fault) = passage.fault {
            let is_full = self.recording == Recording::Full;
            let struck = is_full.then(|| Struck { server, text: text(), script: None, is_message: true });
            self.world.record_request_fault(actor, fault, struck);
            return self.give_message(gate, None);
        }
        if self.recording == Recording::Full {
            let brief = brief("message", Some(channel.clone().into_bytes()));
            self.world.record(EventKind::Message { actor, server, text: text(), brief });
        }
        self.give_message(gate, Some(message));
    }

    /// A client receives a message. `None` if no more will come.
    pub(super) fn give_message(&mut self, gate: usize, message: Option<Vec<u8>>) {
        let Gate { actor, nth, .. } = self.world.gates[gate];
        self.world.change_gate(gate, GateState::Empty);
        self.tell(actor, &Told::Heard { nth, message });
    }
}

impl World {
    /// Whether a connection to this server is subscribed, and open.
    fn is_subscribed(&self, gate: usize, server: usize) -> bool {
        let Gate { server: of, subscription, .. } = &self.gates[gate];
        *of == server && subscription.as_ref().is_some_and(|subscription| !subscription.is_closed)
    }

    /// A server has closed the connection of a subscriber.
    fn close_subscription(&mut self, gate: usize) {
        if let Some(subscription) = &mut self.gates[gate].subscription {
            subscription.is_closed = true;
        }
    }
}
