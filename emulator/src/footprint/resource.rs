//! The resources that an execution can touch, and which of them overlap.

use std::fmt;

/// Whether a resource was only read or really changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Read. This includes a lookup that found nothing.
    Read,
    /// Changed.
    Write,
}

/// Something that two commands can both touch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Resource<'a> {
    /// A key of a database.
    Key {
        /// Index of the database.
        db: usize,
        /// The key.
        key: &'a [u8],
        /// Which part of the key.
        part: Part<'a>,
    },
    /// The clients that wait for a key of a database, in order: `BLPOP` that finds nothing.
    Waiting {
        /// Index of the database.
        db: usize,
        /// The key.
        key: &'a [u8],
    },
    /// A whole database: `KEYS`, `DBSIZE`, `FLUSHDB`.
    Database(usize),
    /// The time: a command has computed with it or returned it.
    Clock,
    /// Whether the script cache has a script, by its SHA1 in lower case.
    Script(&'a [u8]),
    /// The whole script cache, and what scripts keep in Lua: `SCRIPT FLUSH`, the settings of
    /// `cjson`.
    Scripts,
    /// The libraries of functions, and what functions keep in Lua between calls: `FUNCTION LOAD`,
    /// `FCALL`.
    Functions,
    /// The generator of random choices.
    Random,
    /// The messages published on a channel.
    Channel(&'a [u8]),
    /// One client's subscription to a channel. The subscriptions of different clients are
    /// independent.
    Subscription(&'a [u8]),
    /// The subscribers of a channel, and their number.
    Subscribers(&'a [u8]),
    /// All channels: `PSUBSCRIBE`, `PUBSUB CHANNELS`.
    Channels,
    /// The connections of subscribed and blocked clients. They last until the server hangs up.
    Connections,
    /// The settings, and what clients do with each other's connections.
    ///
    /// Examples are `CONFIG SET`, `CLIENT KILL`, `PAUSE`, `TRACKING` and `LIST`. Any command may
    /// depend on a setting, so a change conflicts with every footprint.
    Settings,
}

/// A part of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part<'a> {
    /// The key, and everything that it holds.
    Whole,
    /// A member of a sorted set: whether it exists, and its score. If the key does not exist, no
    /// member exists.
    Member(&'a [u8]),
    /// The members of a sorted set between two places, both included. A rank depends on all members
    /// before it.
    Places(Place<'a>, Place<'a>),
}

/// A place in the order of a sorted set: by score, then by member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place<'a> {
    /// The score; never NaN.
    pub score: f64,
    /// The member; `None` is behind all members with the score.
    pub member: Option<&'a [u8]>,
}

impl<'a> Place<'a> {
    /// In front of all members.
    pub const FIRST: Place<'static> = Place::before(f64::NEG_INFINITY);
    /// Behind all members.
    pub const LAST: Place<'static> = Place::after(f64::INFINITY);

    /// In front of all members with this score.
    pub const fn before(score: f64) -> Place<'static> {
        Place { score, member: Some(b"") }
    }

    /// Behind all members with this score.
    pub const fn after(score: f64) -> Place<'static> {
        Place { score, member: None }
    }

    /// The place of this member with this score.
    pub const fn of(score: f64, member: &'a [u8]) -> Place<'a> {
        Place { score, member: Some(member) }
    }

    fn is_past(self, other: Place<'_>) -> bool {
        let is_past_member = || match (self.member, other.member) {
            (Some(mine), Some(theirs)) => mine > theirs,
            (mine, theirs) => mine.is_none() && theirs.is_some(),
        };
        self.score > other.score || self.score == other.score && is_past_member()
    }
}

impl Resource<'_> {
    /// Whether one execution can change what the other touches.
    pub(super) fn overlaps(self, other: Resource<'_>) -> bool {
        match (self, other) {
            (
                Resource::Key { db, key, part },
                Resource::Key { db: other_db, key: other_key, part: other_part },
            ) => db == other_db && key == other_key && part.overlaps(other_part),
            (Resource::Key { db, .. }, Resource::Database(whole))
            | (Resource::Database(whole), Resource::Key { db, .. }) => db == whole,
            (Resource::Subscription(channel), Resource::Subscribers(other))
            | (Resource::Subscribers(other), Resource::Subscription(channel)) => channel == other,
            (Resource::Subscription(_), Resource::Subscription(_)) => false,
            (
                Resource::Channel(_) | Resource::Subscription(_) | Resource::Subscribers(_),
                Resource::Channels,
            )
            | (
                Resource::Channels,
                Resource::Channel(_) | Resource::Subscription(_) | Resource::Subscribers(_),
            )
            | (Resource::Script(_), Resource::Scripts)
            | (Resource::Scripts, Resource::Script(_)) => true,
            _ => self == other,
        }
    }
}

impl Part<'_> {
    fn overlaps(self, other: Part<'_>) -> bool {
        match (self, other) {
            (Part::Whole, _) | (_, Part::Whole) => true,
            (Part::Member(mine), Part::Member(theirs)) => mine == theirs,
            (Part::Places(from, to), Part::Places(other_from, other_to)) => {
                !from.is_past(other_to) && !other_from.is_past(to)
            }
            // A command that changes a member records its place, too.
            (Part::Member(_), Part::Places(..)) | (Part::Places(..), Part::Member(_)) => false,
        }
    }
}

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Whole => Ok(()),
            Part::Member(member) => write!(f, " member {}", member.escape_ascii()),
            Part::Places(from, to) => write!(f, " places {from} to {to}"),
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.member {
            Some(b"") => write!(f, "before {}", self.score),
            Some(member) => write!(f, "{} {}", self.score, member.escape_ascii()),
            None => write!(f, "after {}", self.score),
        }
    }
}

impl fmt::Display for Resource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::Key { db, key, part } => write!(f, "{db} {}{part}", key.escape_ascii()),
            Resource::Waiting { db, key } => write!(f, "waiting {db} {}", key.escape_ascii()),
            Resource::Database(db) => write!(f, "{db}"),
            Resource::Clock => f.write_str("clock"),
            Resource::Script(sha) => write!(f, "script {}", sha.escape_ascii()),
            Resource::Scripts => f.write_str("scripts"),
            Resource::Functions => f.write_str("functions"),
            Resource::Random => f.write_str("random"),
            Resource::Channel(name) => write!(f, "channel {}", name.escape_ascii()),
            Resource::Subscription(name) => write!(f, "subscription to {}", name.escape_ascii()),
            Resource::Subscribers(name) => write!(f, "subscribers of {}", name.escape_ascii()),
            Resource::Channels => f.write_str("channels"),
            Resource::Connections => f.write_str("connections"),
            Resource::Settings => f.write_str("settings"),
        }
    }
}
