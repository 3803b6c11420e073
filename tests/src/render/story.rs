//! A history as a story: one entry for each event that people see as an act, with what it changed
//! and what it means. Texts and pages are made of it.

use serde::Serialize;

/// An act of a client, or an event outside of all clients.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// The number of its step, from 1.
    pub step: usize,
    /// When it happened, in milliseconds since the start.
    pub at_ms: u64,
    /// The number of the client that acts, from 0.
    pub actor: Option<usize>,
    /// The act is a fault.
    pub is_fault: bool,
    /// What a fault strikes that is no act of a client: a clock, or a server.
    pub strikes: Option<Strikes>,
    /// The act, in words.
    pub text: String,
    /// The commands that the script of this act called, in order.
    pub script: Vec<Exchange>,
    /// Everything that moves between clients and servers.
    pub messages: Vec<Message>,
    /// The state of each client during the act.
    pub clients: Vec<ClientState>,
    /// The clients to which a reply is on its way after the act: a server has run their requests,
    /// and they do not know it.
    pub replying: Vec<usize>,
    /// Changes of keys, and remarks, in order.
    pub details: Vec<Detail>,
}

/// The side that a fault strikes, by its number from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strikes {
    /// The clock of a client.
    Client(usize),
    /// A server.
    Server(usize),
}

/// The state of a client between its acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientState {
    /// It has not started.
    NotYet,
    /// It runs, outside of all sections.
    Running,
    /// It is inside of a section, and its grant lasts.
    Inside,
    /// It still believes to be inside, but its lease is over or another client has ended its grant.
    Believes,
    /// It has crashed.
    Gone,
}

/// A command with its reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Exchange {
    /// The command as one would type it.
    pub command: String,
    /// The reply on one line.
    pub reply: String,
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
    /// For a change of a key.
    pub key: Option<KeyState>,
}

/// A key before and after a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyState {
    /// The number of its server, from 0.
    pub server: usize,
    /// The key.
    pub key: String,
    /// Its value before. `None` if there was none, or if it is not known.
    pub before: Option<String>,
    /// Its value now. `None` if it is gone.
    pub value: Option<String>,
    /// How long it has to live, in milliseconds.
    pub left_ms: Option<i64>,
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
