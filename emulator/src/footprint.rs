//! The footprint of one command, transaction or script: what it really touched. Schedule
//! exploration is built on it.
//!
//! A footprint is recorded where the keyspace is touched and nowhere else. It says what was *read*
//! and what was *changed*, not what a command might do. For example, if `SET k v NX` finds the key,
//! it is a read of `k`.
//!
//! The deadlines that a command read or set are part of its footprint. A step of the clock across
//! such a deadline does not commute with the command.

use std::fmt;

use foldhash::fast::FixedState as Hasher;
use indexmap::IndexSet;

use crate::topic::Topic;

/// From this many entries on, a footprint is checked for duplicates.
const LONG: usize = 1024;
/// How much memory is kept for the next execution: entries, and bytes of names.
const KEPT_ENTRIES_MAX: usize = 4 * LONG;
const KEPT_NAMES_BYTES_MAX: usize = 256 * 1024;

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
    /// The whole script cache, and functions: `SCRIPT FLUSH`, `FUNCTION LOAD`.
    Scripts,
    /// The generator of random choices.
    Random,
    /// The messages published on a channel.
    Channel(&'a [u8]),
    /// One client's subscription to a channel. The subscriptions of different clients are
    /// independent.
    Listening(&'a [u8]),
    /// The subscribers of a channel, and their number.
    Listeners(&'a [u8]),
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
    pub const LAST: Place<'static> = Place::behind(f64::INFINITY);

    /// In front of all members with this score.
    pub const fn before(score: f64) -> Place<'static> {
        Place { score, member: Some(b"") }
    }

    /// Behind all members with this score.
    pub const fn behind(score: f64) -> Place<'static> {
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

/// The record of one execution, in the order of its accesses.
#[derive(Clone, Default, PartialEq)]
pub struct Footprint {
    entries: Vec<Entry>,
    /// The names of all entries, one after the other, so that recording a key costs a copy and no
    /// allocation.
    names: Vec<u8>,
    /// The places of entries, from and to.
    places: Vec<[StoredPlace; 2]>,
    /// The number of entries after duplicates were dropped the last time.
    n_distinct: usize,
    /// Recording is off.
    is_off: bool,
}

#[derive(Clone, Copy, PartialEq)]
struct Entry {
    what: StoredResource,
    access: Access,
    deadline: Option<i64>,
}

#[derive(Clone, Copy, PartialEq)]
enum StoredResource {
    Key { db: usize, start: usize, end: usize, part: StoredPart },
    Waiting { db: usize, start: usize, end: usize },
    Database(usize),
    Clock,
    Script { start: usize, end: usize },
    Scripts,
    Random,
    Channel { start: usize, end: usize },
    Listening { start: usize, end: usize },
    Listeners { start: usize, end: usize },
    Channels,
    Connections,
    Settings,
}

#[derive(Clone, Copy, PartialEq)]
enum StoredPart {
    Whole,
    /// The member's name follows the key's name, and ends at this index of `names`.
    Member(usize),
    /// The index in `places`.
    Places(usize),
}

#[derive(Clone, Copy, PartialEq)]
struct StoredPlace {
    score: f64,
    /// Start and end in `names`.
    member: Option<(usize, usize)>,
}

impl Footprint {
    /// Iterates over what was touched, how, and the deadline that was seen or left there, in
    /// milliseconds since the Unix epoch.
    pub fn iter(&self) -> impl Iterator<Item = (Resource<'_>, Access, Option<i64>)> {
        self.entries.iter().map(|entry| (self.resource(entry), entry.access, entry.deadline))
    }

    /// Whether nothing was touched.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the order of the two executions can matter: one has changed what the other has
    /// touched.
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

    /// Whether anything was computed from the time, or the deadline of a key was read or set.
    pub fn depends_on_time(&self) -> bool {
        self.entries.iter().any(|entry| match entry.what {
            StoredResource::Clock => true,
            // Any of its keys may have had a deadline.
            StoredResource::Database(_) => entry.access == Access::Write,
            _ => entry.deadline.is_some(),
        })
    }

    fn changes_settings(&self) -> bool {
        self.entries
            .iter()
            .any(|entry| matches!(entry.what, StoredResource::Settings) && entry.access == Access::Write)
    }

    /// Removes all entries, and keeps a limited amount of memory.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.names.clear();
        self.places.clear();
        self.n_distinct = 0;
        self.entries.shrink_to(KEPT_ENTRIES_MAX);
        self.places.shrink_to(KEPT_ENTRIES_MAX);
        self.names.shrink_to(KEPT_NAMES_BYTES_MAX);
    }

    /// Switches recording on or off.
    pub(crate) fn set_recording(&mut self, is_recording: bool) {
        self.is_off = !is_recording;
    }

    /// Whether it is so long that dropping duplicates may be worth the time.
    pub(crate) fn is_long(&self) -> bool {
        self.entries.len() >= LONG.max(2 * self.n_distinct)
    }

    /// Removes duplicates: of equal entries only the first is kept.
    pub(crate) fn drop_duplicates(&mut self) {
        let long = std::mem::take(self);
        let mut seen: IndexSet<String, Hasher> = IndexSet::default();
        for (resource, access, deadline) in long.iter() {
            if seen.insert(format!("{:?}", (resource, access, deadline))) {
                self.record_again(resource, access, deadline);
            }
        }
        self.n_distinct = self.entries.len();
    }

    fn record_again(&mut self, resource: Resource<'_>, access: Access, deadline: Option<i64>) {
        match resource {
            Resource::Key { db, key, part: Part::Whole } => self.key(access, db, key, deadline),
            Resource::Key { db, key, part } => self.part(access, db, key, part),
            Resource::Waiting { db, key } => self.waiting(db, key, deadline),
            Resource::Database(db) => self.database(access, db),
            Resource::Clock => self.clock(),
            Resource::Script(sha) => self.script(access, sha),
            Resource::Scripts => self.scripts(access),
            Resource::Random => self.random(),
            Resource::Channel(name) => self.channel(access, name),
            Resource::Listening(name) => self.listening(Topic::Channel, name),
            Resource::Listeners(name) => self.listeners(name),
            Resource::Channels => self.channels(access),
            Resource::Connections => self.connections(access),
            Resource::Settings => self.settings(access),
        }
    }

    pub(crate) fn key(&mut self, access: Access, db: usize, key: &[u8], deadline: Option<i64>) {
        let (start, end) = self.name(key);
        let what = StoredResource::Key { db, start, end, part: StoredPart::Whole };
        self.record(Entry { what, access, deadline });
    }

    /// Records an access to a part of a key that has no deadline.
    pub(crate) fn part(&mut self, access: Access, db: usize, key: &[u8], part: Part<'_>) {
        if self.is_off {
            return;
        }
        let (start, end) = self.name(key);
        let part = match part {
            Part::Whole => StoredPart::Whole,
            Part::Member(member) => StoredPart::Member(self.name(member).1),
            Part::Places(from, to) => {
                let places = [from, to].map(|Place { score, member }| {
                    let member = member.map(|member| self.name(member));
                    StoredPlace { score, member }
                });
                self.places.push(places);
                StoredPart::Places(self.places.len() - 1)
            }
        };
        self.push(access, StoredResource::Key { db, start, end, part });
    }

    pub(crate) fn waiting(&mut self, db: usize, key: &[u8], deadline: Option<i64>) {
        let (start, end) = self.name(key);
        self.record(Entry {
            what: StoredResource::Waiting { db, start, end },
            access: Access::Write,
            deadline,
        });
    }

    pub(crate) fn database(&mut self, access: Access, db: usize) {
        self.push(access, StoredResource::Database(db));
    }

    pub(crate) fn clock(&mut self) {
        self.push(Access::Read, StoredResource::Clock);
    }

    pub(crate) fn script(&mut self, access: Access, sha: &[u8]) {
        let (start, end) = self.name(sha);
        self.names[start..end].make_ascii_lowercase();
        self.push(access, StoredResource::Script { start, end });
    }

    pub(crate) fn scripts(&mut self, access: Access) {
        self.push(access, StoredResource::Scripts);
    }

    pub(crate) fn random(&mut self) {
        self.push(Access::Write, StoredResource::Random);
    }

    pub(crate) fn channel(&mut self, access: Access, name: &[u8]) {
        let (start, end) = self.name(name);
        self.push(access, StoredResource::Channel { start, end });
    }

    /// Records that a client starts or ends a subscription.
    pub(crate) fn listening(&mut self, topic: Topic, name: &[u8]) {
        match topic {
            Topic::Pattern => self.channels(Access::Write),
            Topic::Channel | Topic::ShardChannel => {
                let (start, end) = self.name(name);
                self.push(Access::Write, StoredResource::Listening { start, end });
            }
        }
    }

    pub(crate) fn listeners(&mut self, channel: &[u8]) {
        let (start, end) = self.name(channel);
        self.push(Access::Read, StoredResource::Listeners { start, end });
    }

    pub(crate) fn channels(&mut self, access: Access) {
        self.push(access, StoredResource::Channels);
    }

    pub(crate) fn connections(&mut self, access: Access) {
        self.push(access, StoredResource::Connections);
    }

    pub(crate) fn settings(&mut self, access: Access) {
        self.push(access, StoredResource::Settings);
    }

    /// Records an entry without a deadline.
    fn push(&mut self, access: Access, what: StoredResource) {
        self.record(Entry { what, access, deadline: None });
    }

    fn record(&mut self, entry: Entry) {
        if !self.is_off {
            self.entries.push(entry);
        }
    }

    fn name(&mut self, name: &[u8]) -> (usize, usize) {
        let start = self.names.len();
        if self.is_off {
            return (start, start);
        }
        self.names.extend_from_slice(name);
        (start, self.names.len())
    }

    fn resource(&self, entry: &Entry) -> Resource<'_> {
        match entry.what {
            StoredResource::Key { db, start, end, part } => {
                let part = match part {
                    StoredPart::Whole => Part::Whole,
                    StoredPart::Member(member_end) => Part::Member(&self.names[end..member_end]),
                    StoredPart::Places(idx) => {
                        let [from, to] = self.places[idx].map(|StoredPlace { score, member }| {
                            let member = member.map(|(start, end)| &self.names[start..end]);
                            Place { score, member }
                        });
                        Part::Places(from, to)
                    }
                };
                Resource::Key { db, key: &self.names[start..end], part }
            }
            StoredResource::Waiting { db, start, end } => {
                Resource::Waiting { db, key: &self.names[start..end] }
            }
            StoredResource::Database(db) => Resource::Database(db),
            StoredResource::Clock => Resource::Clock,
            StoredResource::Script { start, end } => Resource::Script(&self.names[start..end]),
            StoredResource::Scripts => Resource::Scripts,
            StoredResource::Random => Resource::Random,
            StoredResource::Channel { start, end } => Resource::Channel(&self.names[start..end]),
            StoredResource::Listening { start, end } => Resource::Listening(&self.names[start..end]),
            StoredResource::Listeners { start, end } => Resource::Listeners(&self.names[start..end]),
            StoredResource::Channels => Resource::Channels,
            StoredResource::Connections => Resource::Connections,
            StoredResource::Settings => Resource::Settings,
        }
    }
}

fn overlap(a: Resource<'_>, b: Resource<'_>) -> bool {
    match (a, b) {
        (
            Resource::Key { db, key, part },
            Resource::Key { db: other_db, key: other_key, part: other_part },
        ) => db == other_db && key == other_key && part.overlaps(other_part),
        (Resource::Key { db, .. }, Resource::Database(whole))
        | (Resource::Database(whole), Resource::Key { db, .. }) => db == whole,
        (Resource::Listening(channel), Resource::Listeners(other))
        | (Resource::Listeners(other), Resource::Listening(channel)) => channel == other,
        (Resource::Listening(_), Resource::Listening(_)) => false,
        (Resource::Channel(_) | Resource::Listening(_) | Resource::Listeners(_), Resource::Channels)
        | (Resource::Channels, Resource::Channel(_) | Resource::Listening(_) | Resource::Listeners(_))
        | (Resource::Script(_), Resource::Scripts)
        | (Resource::Scripts, Resource::Script(_)) => true,
        _ => a == b,
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
            None => write!(f, "behind {}", self.score),
        }
    }
}

/// Writes one entry per line: `read 0 lock:a until 1700000010000`.
impl fmt::Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (resource, access, deadline) in self.iter() {
            let access = if access == Access::Read { "read" } else { "write" };
            match resource {
                Resource::Key { db, key, part } => write!(f, "{access} {db} {}{part}", key.escape_ascii())?,
                Resource::Waiting { db, key } => write!(f, "{access} waiting {db} {}", key.escape_ascii())?,
                Resource::Database(db) => write!(f, "{access} {db}")?,
                Resource::Clock => write!(f, "{access} clock")?,
                Resource::Script(sha) => write!(f, "{access} script {}", sha.escape_ascii())?,
                Resource::Scripts => write!(f, "{access} scripts")?,
                Resource::Random => write!(f, "{access} random")?,
                Resource::Channel(name) => write!(f, "{access} channel {}", name.escape_ascii())?,
                Resource::Listening(name) => write!(f, "{access} listening to {}", name.escape_ascii())?,
                Resource::Listeners(name) => write!(f, "{access} listeners of {}", name.escape_ascii())?,
                Resource::Channels => write!(f, "{access} channels")?,
                Resource::Connections => write!(f, "{access} connections")?,
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
