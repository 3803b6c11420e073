//! The target of a fault, and its notation.

use std::fmt;

use crate::actor::Actor;

/// The largest number of servers in a scenario: each is an emulator of its own.
pub(crate) const SERVERS_MAX: usize = 100;

/// The target of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A client: `A`
    Client(Actor),
    /// A connection of a client, counted from 0: `A` is the first, `A.2` the second.
    Connection(Actor, usize),
    /// A server, counted from 0: `1` is the first.
    Server(usize),
}

/// The kinds of targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetKind {
    /// A client that can still act.
    Client,
    /// A request that waits to be sent.
    Connection,
    /// A server.
    Server,
    /// A server that follows another one.
    Replica,
    /// A server, or one that follows it.
    Node,
}

impl Target {
    /// The client.
    pub fn actor(self) -> Option<Actor> {
        match self {
            Target::Client(actor) | Target::Connection(actor, _) => Some(actor),
            Target::Server(_) => None,
        }
    }

    /// The server.
    pub fn server(self) -> Option<usize> {
        match self {
            Target::Server(server) => Some(server),
            Target::Client(_) | Target::Connection(..) => None,
        }
    }

    /// This target with another client.
    pub fn renamed(self, name: impl Fn(Actor) -> Actor) -> Target {
        match self {
            Target::Client(actor) => Target::Client(name(actor)),
            Target::Connection(actor, connection) => Target::Connection(name(actor), connection),
            Target::Server(_) => self,
        }
    }

    /// Parses a target of this kind.
    pub(crate) fn parse(kind: TargetKind, word: &str) -> Option<Target> {
        let number = |word: &str| word.parse::<usize>().ok()?.checked_sub(1);
        match kind {
            TargetKind::Client => Actor::parse(word).map(Target::Client),
            TargetKind::Server | TargetKind::Replica | TargetKind::Node => number(word).map(Target::Server),
            TargetKind::Connection => match word.split_once('.') {
                Some((actor, connection)) => {
                    Some(Target::Connection(Actor::parse(actor)?, number(connection)?))
                }
                None => Actor::parse(word).map(|actor| Target::Connection(actor, 0)),
            },
        }
    }

    /// `the clock of A`, `the clock of server 1`
    pub(crate) fn clock(self) -> String {
        match self {
            Target::Client(actor) | Target::Connection(actor, _) => format!("the clock of {actor}"),
            Target::Server(server) => format!("the clock of server {}", server + 1),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Client(actor) | Target::Connection(actor, 0) => write!(f, "{actor}"),
            Target::Connection(actor, connection) => write!(f, "{actor}.{}", connection + 1),
            Target::Server(server) => write!(f, "{}", server + 1),
        }
    }
}
