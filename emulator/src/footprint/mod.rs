//! The footprint of one command, transaction or script: what it really touched. Schedule
//! exploration is built on it.
//!
//! A footprint is recorded where the keyspace is touched and nowhere else. It says what was *read*
//! and what was *changed*, not what a command might do. For example, if `SET k v NX` finds the key,
//! it is a read of `k`.
//!
//! The deadlines that a command read or set are part of its footprint. A step of the clock across
//! such a deadline does not commute with the command.

mod resource;

use std::fmt;

use foldhash::fast::FixedState as Hasher;
use indexmap::IndexSet;

pub use resource::{Access, Part, Place, Resource};

use crate::topic::Topic;

/// From this many entries on, a footprint is checked for duplicates.
const LONG: usize = 1024;
/// How much memory is kept for the next execution: entries, and bytes of names.
const KEPT_ENTRIES_MAX: usize = 4 * LONG;
const KEPT_NAMES_BYTES_MAX: usize = 256 * 1024;

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
    /// The number of changes of data, recorded or not.
    n_changes: usize,
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
    Functions,
    Random,
    Channel { start: usize, end: usize },
    Subscription { start: usize, end: usize },
    Subscribers { start: usize, end: usize },
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
        self.entries.iter().any(|mine| {
            // Two reads are common, and cheap to tell.
            let changes = |theirs: &&Entry| mine.access == Access::Write || theirs.access == Access::Write;
            let mut others = other.entries.iter().filter(changes);
            others.any(|theirs| self.resource(mine).overlaps(other.resource(theirs)))
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
        (self.n_distinct, self.n_changes) = (0, 0);
        self.entries.shrink_to(KEPT_ENTRIES_MAX);
        self.places.shrink_to(KEPT_ENTRIES_MAX);
        self.names.shrink_to(KEPT_NAMES_BYTES_MAX);
    }

    /// The number of changes of data so far. Recording need not be on.
    pub(crate) fn changes(&self) -> usize {
        self.n_changes
    }

    /// Whether recording is on.
    pub(crate) fn is_recording(&self) -> bool {
        !self.is_off
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
        (self.n_distinct, self.n_changes) = (self.entries.len(), long.n_changes);
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
            Resource::Functions => self.functions(access),
            Resource::Random => self.random(),
            Resource::Channel(name) => self.channel(access, name),
            Resource::Subscription(name) => self.subscription(Topic::Channel, name),
            Resource::Subscribers(name) => self.subscribers(name),
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
            return self.count_change(access);
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

    pub(crate) fn functions(&mut self, access: Access) {
        self.push(access, StoredResource::Functions);
    }

    pub(crate) fn random(&mut self) {
        self.push(Access::Write, StoredResource::Random);
    }

    pub(crate) fn channel(&mut self, access: Access, name: &[u8]) {
        let (start, end) = self.name(name);
        self.push(access, StoredResource::Channel { start, end });
    }

    /// Records that a client starts or ends a subscription.
    pub(crate) fn subscription(&mut self, topic: Topic, name: &[u8]) {
        match topic {
            Topic::Pattern => self.channels(Access::Write),
            Topic::Channel | Topic::ShardChannel => {
                let (start, end) = self.name(name);
                self.push(Access::Write, StoredResource::Subscription { start, end });
            }
        }
    }

    pub(crate) fn subscribers(&mut self, channel: &[u8]) {
        let (start, end) = self.name(channel);
        self.push(Access::Read, StoredResource::Subscribers { start, end });
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
        if matches!(entry.what, StoredResource::Key { .. } | StoredResource::Database(_)) {
            self.count_change(entry.access);
        }
        if !self.is_off {
            self.entries.push(entry);
        }
    }

    fn count_change(&mut self, access: Access) {
        self.n_changes += usize::from(access == Access::Write);
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
            StoredResource::Functions => Resource::Functions,
            StoredResource::Random => Resource::Random,
            StoredResource::Channel { start, end } => Resource::Channel(&self.names[start..end]),
            StoredResource::Subscription { start, end } => Resource::Subscription(&self.names[start..end]),
            StoredResource::Subscribers { start, end } => Resource::Subscribers(&self.names[start..end]),
            StoredResource::Channels => Resource::Channels,
            StoredResource::Connections => Resource::Connections,
            StoredResource::Settings => Resource::Settings,
        }
    }
}

/// Writes one entry per line: `read 0 lock:a until 1700000010000`.
impl fmt::Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (resource, access, deadline) in self.iter() {
            let access = if access == Access::Read { "read" } else { "write" };
            write!(f, "{access} {resource}")?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A command that has changed data is sent to replicas, whether its footprint is recorded or
    /// not.
    #[test]
    fn changes_of_data_are_counted_in_any_case() {
        for is_recording in [true, false] {
            let mut footprint = Footprint::default();
            footprint.set_recording(is_recording);
            assert_eq!(footprint.is_recording(), is_recording);
            footprint.key(Access::Read, 0, b"k", None);
            footprint.part(Access::Read, 0, b"k", Part::Member(b"m"));
            footprint.script(Access::Write, b"sha");
            assert_eq!(footprint.changes(), 0);
            footprint.key(Access::Write, 0, b"k", None);
            footprint.part(Access::Write, 0, b"k", Part::Member(b"m"));
            footprint.database(Access::Write, 0);
            assert_eq!(footprint.changes(), 3);
            assert_eq!(footprint.len(), if is_recording { 6 } else { 0 });
            assert_eq!(footprint.is_empty(), !is_recording);
            footprint.drop_duplicates();
            assert_eq!(footprint.changes(), 3);
            footprint.clear();
            assert_eq!((footprint.changes(), footprint.len()), (0, 0));
        }
    }

    /// To drop duplicates takes time, so it is done again when there are twice as many entries.
    #[test]
    fn a_footprint_is_long_again_when_it_has_doubled() {
        let mut footprint = Footprint::default();
        let mut long = Vec::new();
        for nth in 0..4 * LONG {
            footprint.key(Access::Read, 0, nth.to_string().as_bytes(), None);
            if footprint.is_long() {
                footprint.drop_duplicates();
                long.push(footprint.len());
            }
        }
        assert_eq!(long, [LONG, 2 * LONG, 4 * LONG]);
    }
}
