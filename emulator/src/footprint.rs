//! What one command, transaction or script really touched: the fact base of schedule exploration.
//!
//! A footprint is recorded where the keyspace is touched and nowhere else. It says what was *read* and what was *changed*,
//! not what a command might do: `SET k v NX` that found the key is a read of `k`. The deadlines it looked at or set are
//! part of it, because a step of the clock across a deadline does not commute with the command that looked.

use std::fmt;

/// Whether a resource was only looked at or really changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Looked at; also looked for and not found.
    Read,
    /// Changed.
    Write,
}

/// Something that two commands can both touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource<'a> {
    /// A key of a database.
    Key {
        /// Index of the database.
        db: usize,
        /// The key.
        key: &'a [u8],
    },
    /// Who waits for a key of a database, first come first served: `BLPOP` that finds nothing.
    Waiting {
        /// Index of the database.
        db: usize,
        /// The key.
        key: &'a [u8],
    },
    /// A whole database: `KEYS`, `DBSIZE`, `FLUSHDB`.
    Database(usize),
    /// The time, computed with or reported.
    Clock,
    /// A script of the cache, by its SHA1 in lower case: whether it is there.
    Script(&'a [u8]),
    /// The whole script cache, and functions: `SCRIPT FLUSH`, `FUNCTION LOAD`.
    Scripts,
    /// The generator of random choices.
    Random,
    /// A channel of pub/sub, and who listens to it.
    Channel(&'a [u8]),
    /// All channels: `PSUBSCRIBE`, `PUBSUB CHANNELS`.
    Channels,
    /// The settings: `CONFIG SET`; and what clients do with each other's connections: `CLIENT KILL`, `PAUSE`, `TRACKING`, `LIST`.
    /// Any command may depend on one of them, so whoever changes one concerns all.
    Settings,
}

/// The record of one execution, in the order in which things were touched.
#[derive(Clone, Default)]
pub struct Footprint {
    entries: Vec<Entry>,
    /// The names of all entries, one after the other: recording a key costs a copy and no allocation.
    names: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Entry {
    what: What,
    access: Access,
    deadline: Option<i64>,
}

#[derive(Clone, Copy)]
enum What {
    Key { db: usize, start: usize, end: usize },
    Waiting { db: usize, start: usize, end: usize },
    Database(usize),
    Clock,
    Script { start: usize, end: usize },
    Scripts,
    Random,
    Channel { start: usize, end: usize },
    Channels,
    Settings,
}

impl Footprint {
    /// What was touched, how, and the deadline (milliseconds since the Unix epoch) that was seen or left there.
    pub fn iter(&self) -> impl Iterator<Item = (Resource<'_>, Access, Option<i64>)> {
        self.entries.iter().map(|entry| (self.resource(entry), entry.access, entry.deadline))
    }

    /// How much was touched.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the order of the two executions can matter: one changed what the other touched.
    pub fn conflicts_with(&self, other: &Footprint) -> bool {
        if self.changes_settings() || other.changes_settings() {
            return true;
        }
        self.iter().any(|(mine, my_access, _)| {
            other.iter().any(|(theirs, their_access, _)| {
                (my_access == Access::Write || their_access == Access::Write) && overlap(mine, theirs)
            })
        })
    }

    /// Whether anything was computed from the time, or looked at or set when a key expires.
    pub fn depends_on_time(&self) -> bool {
        self.entries.iter().any(|entry| match entry.what {
            What::Clock => true,
            // Any key of it may have had a deadline.
            What::Database(_) => entry.access == Access::Write,
            _ => entry.deadline.is_some(),
        })
    }

    fn changes_settings(&self) -> bool {
        self.entries.iter().any(|entry| matches!(entry.what, What::Settings) && entry.access == Access::Write)
    }

    /// Forgets everything, keeping the memory.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.names.clear();
    }

    pub(crate) fn key(&mut self, access: Access, db: usize, key: &[u8], deadline: Option<i64>) {
        let (start, end) = self.name(key);
        self.entries.push(Entry { what: What::Key { db, start, end }, access, deadline });
    }

    pub(crate) fn waiting(&mut self, db: usize, key: &[u8], deadline: Option<i64>) {
        let (start, end) = self.name(key);
        self.entries.push(Entry { what: What::Waiting { db, start, end }, access: Access::Write, deadline });
    }

    pub(crate) fn database(&mut self, access: Access, db: usize) {
        self.entries.push(Entry { what: What::Database(db), access, deadline: None });
    }

    pub(crate) fn clock(&mut self) {
        self.entries.push(Entry { what: What::Clock, access: Access::Read, deadline: None });
    }

    pub(crate) fn script(&mut self, access: Access, sha: &[u8]) {
        let (start, end) = self.name(sha);
        self.names[start..end].make_ascii_lowercase();
        self.entries.push(Entry { what: What::Script { start, end }, access, deadline: None });
    }

    pub(crate) fn scripts(&mut self, access: Access) {
        self.entries.push(Entry { what: What::Scripts, access, deadline: None });
    }

    pub(crate) fn random(&mut self) {
        self.entries.push(Entry { what: What::Random, access: Access::Write, deadline: None });
    }

    pub(crate) fn channel(&mut self, access: Access, name: &[u8]) {
        let (start, end) = self.name(name);
        self.entries.push(Entry { what: What::Channel { start, end }, access, deadline: None });
    }

    pub(crate) fn channels(&mut self, access: Access) {
        self.entries.push(Entry { what: What::Channels, access, deadline: None });
    }

    pub(crate) fn settings(&mut self, access: Access) {
        self.entries.push(Entry { what: What::Settings, access, deadline: None });
    }

    fn name(&mut self, name: &[u8]) -> (usize, usize) {
        let start = self.names.len();
        self.names.extend_from_slice(name);
        (start, self.names.len())
    }

    fn resource(&self, entry: &Entry) -> Resource<'_> {
        match entry.what {
            What::Key { db, start, end } => Resource::Key { db, key: &self.names[start..end] },
            What::Waiting { db, start, end } => Resource::Waiting { db, key: &self.names[start..end] },
            What::Database(db) => Resource::Database(db),
            What::Clock => Resource::Clock,
            What::Script { start, end } => Resource::Script(&self.names[start..end]),
            What::Scripts => Resource::Scripts,
            What::Random => Resource::Random,
            What::Channel { start, end } => Resource::Channel(&self.names[start..end]),
            What::Channels => Resource::Channels,
            What::Settings => Resource::Settings,
        }
    }
}

fn overlap(a: Resource<'_>, b: Resource<'_>) -> bool {
    match (a, b) {
        (Resource::Key { db, .. }, Resource::Database(whole))
        | (Resource::Database(whole), Resource::Key { db, .. }) => db == whole,
        (Resource::Channel(_), Resource::Channels)
        | (Resource::Channels, Resource::Channel(_))
        | (Resource::Script(_), Resource::Scripts)
        | (Resource::Scripts, Resource::Script(_)) => true,
        _ => a == b,
    }
}

/// One entry a line: `read 0 lock:a until 1700000010000`.
impl fmt::Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (resource, access, deadline) in self.iter() {
            let access = if access == Access::Read { "read" } else { "write" };
            match resource {
                Resource::Key { db, key } => write!(f, "{access} {db} {}", key.escape_ascii())?,
                Resource::Waiting { db, key } => write!(f, "{access} waiting {db} {}", key.escape_ascii())?,
                Resource::Database(db) => write!(f, "{access} {db}")?,
                Resource::Clock => write!(f, "{access} clock")?,
                Resource::Script(sha) => write!(f, "{access} script {}", sha.escape_ascii())?,
                Resource::Scripts => write!(f, "{access} scripts")?,
                Resource::Random => write!(f, "{access} random")?,
                Resource::Channel(name) => write!(f, "{access} channel {}", name.escape_ascii())?,
                Resource::Channels => write!(f, "{access} channels")?,
                Resource::Settings => write!(f, "{access} settings")?,
            }
            match deadline {
                Some(deadline) => writeln!(f, " until {deadline}")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
