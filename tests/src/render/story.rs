//! A history as a story: one entry for each event that people see as an act, with what it changed
//! and what it means. Texts and pages are made of it.

use std::time::Duration;

use serde::Serialize;

use crate::actor::Actor;
use crate::fault::{Delivery, Description, Fault};
use crate::oracle::list;
use crate::schedule::Step;
use crate::trace::{Event, EventKind, History, LeftBy};

/// An act of a client, or an event outside of all clients.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// The number of its step, from 1.
    pub step: usize,
    /// When it happened, in milliseconds since the start.
    pub at_ms: u64,
    /// The number of the client that acts, from 0.
    pub actor: Option<usize>,
    /// The act, in words.
    pub text: String,
    /// Everything that moves between clients and servers.
    pub messages: Vec<Message>,
    /// The state of each client during the act.
    pub clients: Vec<ClientState>,
    /// Changes of keys, and remarks, in order.
    pub details: Vec<Detail>,
}

/// The state of a client between its acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientState {
    /// It has not started.
    NotYet,
    /// It runs, outside of all sections.
    Running,
    /// It is inside of a section.
    Inside,
    /// It has crashed.
    Gone,
}

/// A request, or something that a server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// The number of the client, from 0.
    pub client: usize,
    /// The number of the server, from 0.
    pub server: usize,
    /// The side that sends it.
    pub by: Sender,
    /// It never arrives.
    pub is_lost: bool,
}

/// The side that sends a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sender {
    /// A request of a client.
    Client,
    /// A reply, or a message of a channel.
    Server,
}

/// A detail of an act.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Detail {
    /// The kind of the detail.
    pub kind: DetailKind,
    /// The detail, in words.
    pub text: String,
    /// The state of each client after it.
    pub clients: Vec<ClientState>,
}

/// A kind of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DetailKind {
    /// A key has a new value, or a fresh client tried.
    Change,
    /// An important event.
    Remark,
}

/// Tells the history up to this step, for so many clients.
pub(crate) fn tell(history: &History, actors: usize, last_step: usize) -> Vec<Entry> {
    let mut teller = Teller::new(history, actors);
    history.events.iter().filter(|event| event.step <= last_step).for_each(|event| teller.event(event));
    teller.entries
}

/// Tells events one after the other.
pub(crate) struct Teller<'a> {
    history: &'a History,
    clients: Vec<ClientState>,
    pub(crate) entries: Vec<Entry>,
    /// The client that is about to send the first command of its release.
    leaving: Option<Actor>,
    /// The servers that have run requests whose replies are still on their way, by their clients.
    replying: Vec<(Actor, usize)>,
    /// Whether the history has several sections. Then the story names the section of a client.
    has_sections: bool,
    /// Whether clients ask several servers.
    has_servers: bool,
}

impl Teller<'_> {
    pub(crate) fn new(history: &History, actors: usize) -> Teller<'_> {
        Teller {
            history,
            clients: vec![ClientState::NotYet; actors],
            entries: Vec::new(),
            leaving: None,
            replying: Vec::new(),
            has_sections: has_sections(history),
            has_servers: history
                .events
                .iter()
                .any(|event| matches!(event.kind, EventKind::Command { server: 1.., .. })),
        }
    }

    pub(crate) fn event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Command { actor, server, text, reply, changed, .. } => {
                let to = if *server > 0 { format!(" to {}", server + 1) } else { String::new() };
                self.act(event, Some(*actor), format!("{actor}{to}: {text} → {reply}"));
                self.request(event, *actor, *server);
                changed.iter().for_each(|key| self.detail(DetailKind::Change, format!("now {key}")));
                self.left(*actor);
            }
            EventKind::Message { actor, text, .. } => {
                self.act(event, Some(*actor), format!("{actor} receives {text}"));
                self.message_of_one_server(*actor, Sender::Server);
            }
            EventKind::Received { actor } => {
                self.act(event, Some(*actor), format!("{actor} receives the reply"));
                if let Some(nth) = self.replying.iter().position(|(other, _)| other == actor) {
                    let (_, server) = self.replying.remove(nth);
                    self.message(*actor, server, Sender::Server);
                }
            }
            EventKind::Fault { fault, request } => self.fault(event, *fault, request),
            EventKind::Started { actor } => {
                let what = "starts, reads its clock, and stalls before its first command";
                self.act(event, Some(*actor), format!("{actor} {what}"));
            }
            EventKind::Advanced { by, .. } => self.act(event, None, format!("{} ms pass", by.as_millis())),
            EventKind::Enter { actor, section, until, .. } => self.entered(*actor, section, *until),
            EventKind::Extended { actor, until, .. } => {
                let until = format_time(*until);
                self.remark(format!(
                    "{actor} is granted the section once more. Its lease runs until {until}."
                ));
            }
            EventKind::Leave { actor, by, .. } => {
                self.set(*actor, ClientState::Running);
                match by {
                    // The history records this event just before the first command of the release.
                    LeftBy::Release => self.leaving = Some(*actor),
                    LeftBy::Code => {
                        self.remark(format!("{actor} leaves, and no longer counts as a holder."));
                    }
                    LeftBy::Crash => {}
                }
            }
            kind => sentence(kind).into_iter().for_each(|sentence| self.remark(sentence)),
        }
    }

    /// The act is a request that has run.
    fn request(&mut self, event: &Event, actor: Actor, server: usize) {
        self.message(actor, server, Sender::Client);
        let step = event.step.checked_sub(1).and_then(|nth| self.history.steps.get(nth));
        match step {
            Some(Step::Send(..)) => self.replying.push((actor, server)),
            _ => self.message(actor, server, Sender::Server),
        }
    }

    /// Something moves between a client and a server in this act.
    fn message(&mut self, Actor(client): Actor, server: usize, by: Sender) {
        if client < self.clients.len()
            && let Some(entry) = self.entries.last_mut()
        {
            entry.messages.push(Message { client, server, by, is_lost: false });
        }
    }

    /// Something moves in this act. The history does not say which server it concerns, so it is
    /// left out if there are several.
    fn message_of_one_server(&mut self, actor: Actor, by: Sender) {
        if !self.has_servers {
            self.message(actor, 0, by);
        }
    }

    fn entered(&mut self, actor: Actor, section: &str, until: Duration) {
        self.set(actor, ClientState::Inside);
        let is_inside = |&(_, state): &(usize, &ClientState)| *state == ClientState::Inside;
        let inside: Vec<Actor> =
            self.clients.iter().enumerate().filter(is_inside).map(|(n, _)| Actor(n)).collect();
        let now =
            if inside.len() > 1 { format!(" Now {} are inside.", list(&inside)) } else { String::new() };
        let section = if self.has_sections { format!(" ({section})") } else { String::new() };
        self.remark(format!("{actor} is inside{section}. Its lease runs until {}.{now}", format_time(until)));
    }

    fn fault(&mut self, event: &Event, fault: Fault, request: &str) {
        let actor = fault.target.actor();
        let delivery = fault.of_request().map(|fault| fault.delivery);
        match (fault.kind.row().describe)(fault, request) {
            Description::OfClient(what) => {
                self.act(event, actor, what);
                if let (Some(actor), Some(Delivery::Never)) = (actor, delivery) {
                    self.message_of_one_server(actor, Sender::Client);
                    self.lose_last();
                }
                actor.into_iter().for_each(|actor| self.left(actor));
            }
            Description::EndOfClient(what) => {
                self.leaving = None;
                self.act(event, actor, what);
                actor.into_iter().for_each(|actor| self.set(actor, ClientState::Gone));
            }
            Description::Outside(what) => self.act(event, None, what),
            Description::Remark(what) => {
                if delivery == Some(Delivery::Now) {
                    self.lose_last();
                }
                self.remark(what);
            }
        }
    }

    /// The last message of the act never arrives.
    fn lose_last(&mut self) {
        if let Some(message) = self.entries.last_mut().and_then(|entry| entry.messages.last_mut()) {
            message.is_lost = true;
        }
    }

    /// If this was the first command of the actor's release, notes the release.
    fn left(&mut self, actor: Actor) {
        if self.leaving.take_if(|leaving| *leaving == actor).is_some() {
            self.remark(format!("{actor} releases the lock, and no longer counts as a holder."));
        }
    }

    fn set(&mut self, actor: Actor, state: ClientState) {
        if let Some(client) = self.clients.get_mut(actor.0) {
            *client = state;
        }
    }

    /// Begins an entry.
    fn act(&mut self, event: &Event, actor: Option<Actor>, text: String) {
        // A probe has no column and takes no step.
        if actor.is_some_and(|actor| actor.0 >= self.clients.len()) {
            return self.detail(DetailKind::Change, text);
        }
        if let Some(Actor(n)) = actor
            && self.clients[n] == ClientState::NotYet
        {
            self.clients[n] = ClientState::Running;
        }
        self.begin(event.step, event.at, actor, text);
    }

    fn begin(&mut self, step: usize, at: Duration, actor: Option<Actor>, text: String) {
        self.entries.push(Entry {
            step,
            at_ms: at.as_millis() as u64,
            actor: actor.map(|actor| actor.0),
            text,
            messages: Vec::new(),
            clients: self.clients.clone(),
            details: Vec::new(),
        });
    }

    fn remark(&mut self, sentence: String) {
        self.detail(DetailKind::Remark, sentence);
    }

    /// Adds a detail to the last entry.
    fn detail(&mut self, kind: DetailKind, text: String) {
        if self.entries.is_empty() {
            self.begin(0, Duration::ZERO, None, String::new());
        }
        let entry = self.entries.last_mut().expect("there is one");
        entry.details.push(Detail { kind, text, clients: self.clients.clone() });
    }
}

/// The sentence on an event that is no act.
fn sentence(kind: &EventKind) -> Option<String> {
    Some(match kind {
        EventKind::Accepted { actor, resource, token, .. } => {
            format!("{resource} accepts {actor}'s write with token {token}.")
        }
        EventKind::Late { actor } => format!("This request comes late: {actor} has given it up."),
        EventKind::Ended { holder, by } => {
            format!("With this, {by} has ended the grant of {holder}, whose lease still runs.")
        }
        EventKind::Shortened { holder, by } => {
            format!("With this, {by} has shortened the grant of {holder}: it ends before the lease.")
        }
        EventKind::Overrun { actor } => {
            format!("The lease of {actor} is over, and {actor} is still inside.")
        }
        EventKind::Probed { granted, wanted, after_lease } => {
            let when = if *after_lease {
                "All clients have ended, and more than a lease has passed."
            } else {
                "All clients have ended, none crashed, and no message was lost."
            };
            format!("{when} Fresh clients try: {granted} of {wanted} are granted.")
        }
        EventKind::Failed { actor, error } => format!("{actor} failed: {error}"),
        EventKind::SubscriptionEnded { actor, channel } => {
            format!("{actor} receives no more messages of {channel}: the connection has broken.")
        }
        EventKind::GaveUp { actor, error } => format!("{actor} gives up: {error}"),
        EventKind::Endless { actor, limit } => format!("{actor} does not come to its end: {limit}."),
        EventKind::Stuck { actor } => format!("{actor} waits for something that never comes."),
        EventKind::Command { .. }
        | EventKind::Message { .. }
        | EventKind::Received { .. }
        | EventKind::Fault { .. }
        | EventKind::Started { .. }
        | EventKind::Advanced { .. }
        | EventKind::Enter { .. }
        | EventKind::Extended { .. }
        | EventKind::Leave { .. }
        | EventKind::RetriesEnded { .. } => return None,
    })
}

fn has_sections(history: &History) -> bool {
    let mut entered = history.events.iter().filter_map(|event| match event.kind {
        EventKind::Enter { section, .. } => Some(section),
        _ => None,
    });
    let first = entered.next();
    entered.any(|section| Some(section) != first)
}

pub(super) fn format_time(at: Duration) -> String {
    format!("+{} ms", at.as_millis())
}
