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
    /// A whole database: `KEYS`, `DBSIZE`, `FLUSHDB`.
    Database(usize),
    /// The time, computed with or reported.
    Clock,
    /// The script cache.
    Scripts,
    /// The generator of random choices.
    Random,
}

/// The record of one execution, in the order in which things were touched.
#[derive(Clone, Default)]
pub struct Footprint {
    entries: Vec<Entry>,
    /// The keys of all entries, one after the other: recording a key costs a copy and no allocation.
    keys: Vec<u8>,
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
    Database(usize),
    Clock,
    Scripts,
    Random,
}

impl Footprint {
    /// What was touched, how, and the deadline (milliseconds since the Unix epoch) that was seen or left there.
    pub fn iter(&self) -> impl Iterator<Item = (Resource<'_>, Access, Option<i64>)> {
        self.entries.iter().map(|entry| (self.resource(entry), entry.access, entry.deadline))
    }

    /// Whether the order of the two executions can matter: one changed what the other touched.
    pub fn conflicts_with(&self, other: &Footprint) -> bool {
        self.iter().any(|(mine, my_access, _)| {
            other.iter().any(|(theirs, their_access, _)| {
                (my_access == Access::Write || their_access == Access::Write) && overlap(mine, theirs)
            })
        })
    }

    /// Forgets everything, keeping the memory.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.keys.clear();
    }

    pub(crate) fn key(&mut self, access: Access, db: usize, key: &[u8], deadline: Option<i64>) {
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        self.entries.push(Entry { what: What::Key { db, start, end: self.keys.len() }, access, deadline });
    }

    pub(crate) fn database(&mut self, access: Access, db: usize) {
        self.entries.push(Entry { what: What::Database(db), access, deadline: None });
    }

    pub(crate) fn clock(&mut self) {
        self.entries.push(Entry { what: What::Clock, access: Access::Read, deadline: None });
    }

    pub(crate) fn scripts(&mut self, access: Access) {
        self.entries.push(Entry { what: What::Scripts, access, deadline: None });
    }

    pub(crate) fn random(&mut self) {
        self.entries.push(Entry { what: What::Random, access: Access::Write, deadline: None });
    }

    fn resource(&self, entry: &Entry) -> Resource<'_> {
        match entry.what {
            What::Key { db, start, end } => Resource::Key { db, key: &self.keys[start..end] },
            What::Database(db) => Resource::Database(db),
            What::Clock => Resource::Clock,
            What::Scripts => Resource::Scripts,
            What::Random => Resource::Random,
        }
    }
}

fn overlap(a: Resource<'_>, b: Resource<'_>) -> bool {
    match (a, b) {
        (Resource::Key { db, .. }, Resource::Database(whole))
        | (Resource::Database(whole), Resource::Key { db, .. }) => db == whole,
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
                Resource::Database(db) => write!(f, "{access} {db}")?,
                Resource::Clock => write!(f, "{access} clock")?,
                Resource::Scripts => write!(f, "{access} scripts")?,
                Resource::Random => write!(f, "{access} random")?,
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
