//! The databases: keys, values and deadlines.
//!
//! The module knows no client and reads no clock: the caller passes the time.
//!
//! Data is read and changed only here. So the footprint is recorded here, and keys expire here. A
//! key has expired if `now > deadline`. The time does not move while a command, a transaction or a
//! script runs.

mod table;
mod text;
mod encoding;
mod node;
mod list;
mod order;
mod set;
mod hash;
mod zset;
mod value;
mod entry;
mod dict;
mod expires;
mod event;
mod random;
mod db;
mod edit;
mod members;
mod stats;

pub use db::{Db, DueKeys, Expiry};
pub use edit::Edit;
pub use encoding::{Encoding, Limits, ListPack};
pub use entry::Content;
pub use event::{Class, Classes, Event, Events};
pub use hash::Hash;
pub use list::List;
pub use random::Random;
pub use set::{Member, Set};
pub(crate) use table::Hasher;
pub use text::{Escaped, Text};
pub use value::{Value, ValueType};
pub use zset::ZSet;

use crate::clock::Timestamp;
use crate::footprint::{Access, Footprint};

use dict::Dict;
use entry::Entry;
use expires::Expires;

/// How many keys are removed at once if nobody can notice that others are left.
const EXPIRED_AT_ONCE_MAX: usize = 256;

/// All databases of one server.
#[derive(Debug, Default)]
pub struct Keyspace {
    dicts: Vec<Dict>,
    now: Timestamp,
    footprint: Footprint,
    expires: Expires,
    /// Whether keys are left whose deadline has passed.
    is_behind: bool,
    /// The events of keys that subscribers or blocked clients need.
    pub events: Events,
    random: Random,
    /// What happens to keys whose deadlines have passed.
    pub due_keys: DueKeys,
    /// The limits of compact collections.
    pub limits: Limits,
}

impl Keyspace {
    /// So many empty databases.
    pub fn new(databases: usize) -> Keyspace {
        Keyspace { dicts: vec![Dict::default(); databases], ..Keyspace::default() }
    }

    /// How many databases there are.
    pub fn databases(&self) -> usize {
        self.dicts.len()
    }

    /// Starts an execution at this instant, with an empty footprint.
    pub fn begin(&mut self, now: Timestamp) {
        self.now = now;
        self.footprint.clear();
        self.expires.compact(&self.dicts);
    }

    /// Removes keys whose deadline has passed. These are all such keys, unless nobody can notice
    /// that some are left: then their number is limited, so that the next command need not wait.
    pub fn expire_due(&mut self) {
        let is_noticed = self.footprint.is_recording()
            || self.events.wanted.wants(Class::Expired)
            || self.events.is_tracked;
        self.expire(if is_noticed { usize::MAX } else { EXPIRED_AT_ONCE_MAX });
        self.is_behind = self.next_expiry().is_some_and(|due_at| due_at <= self.now);
    }

    /// Removes the keys that [`Keyspace::expire_due`] has left, for a command that reads more than
    /// single keys.
    pub fn expire_rest(&mut self) {
        if self.is_behind {
            self.expire(usize::MAX);
            self.is_behind = false;
        }
    }

    fn expire(&mut self, count_max: usize) {
        if self.due_keys != DueKeys::Removed {
            return;
        }
        for _ in 0..count_max {
            let Some((db, idx, key)) = self.expires.pop_due(self.now.millis(), &self.dicts) else { return };
            self.footprint.key(Access::Write, db, &key, None);
            self.dicts[db].remove(idx);
            self.events.expire(db, &key);
        }
    }

    /// When [`Keyspace::expire_due`] has work to do next, or a little earlier.
    pub fn next_expiry(&self) -> Option<Timestamp> {
        let first = self.expires.first().filter(|_| self.due_keys == DueKeys::Removed);
        first.map(|deadline| Timestamp::from_millis(deadline.saturating_add(1)))
    }

    /// Switches active expiry on or off.
    pub fn set_active_expiry(&mut self, is_active: bool) {
        self.expires.is_active = is_active;
    }

    /// Exchanges two databases.
    pub fn swap(&mut self, a: usize, b: usize) {
        if a != b {
            self.footprint.database(Access::Write, a);
            self.footprint.database(Access::Write, b);
            self.dicts.swap(a, b);
            self.expires.swap(a, b, self.dicts.len());
        }
    }

    /// The instant of this execution, for code outside of the execution: no read is recorded.
    pub(crate) fn instant(&self) -> Timestamp {
        self.now
    }

    /// The footprint of the execution so far.
    pub fn footprint(&self) -> &Footprint {
        &self.footprint
    }

    pub(crate) fn footprint_mut(&mut self) -> &mut Footprint {
        &mut self.footprint
    }

    /// The instant of this execution. The call is recorded as a read of the clock.
    pub fn now(&mut self) -> Timestamp {
        self.footprint.clock();
        self.now
    }

    /// The first deadline after `after` (milliseconds since the Unix epoch), in any database.
    pub fn next_deadline(&self, after: i64) -> Option<i64> {
        let deadlines = self.dicts.iter().flat_map(|dict| dict.values()).filter_map(Entry::deadline);
        deadlines.filter(|&deadline| deadline > after).min()
    }

    /// The value of a key that is live at `now`, for readers outside of any execution. Nothing is
    /// recorded and nothing expires.
    pub fn peek(&self, db: usize, key: &[u8], now: Timestamp) -> Option<&Value> {
        self.dicts[db].get(key).filter(|entry| !entry.is_expired(now)).map(|entry| &entry.value)
    }

    /// The deadline of a key that is live at `now`. Nothing is recorded and nothing expires.
    pub fn peek_deadline(&self, db: usize, key: &[u8], now: Timestamp) -> Option<i64> {
        self.dicts[db].get(key).filter(|entry| !entry.is_expired(now))?.deadline()
    }

    /// The keys of a database that are live at `now`. Nothing is recorded and nothing expires.
    pub fn peek_keys(&self, db: usize, now: Timestamp) -> impl Iterator<Item = &Text> {
        self.dicts[db].iter().filter(move |(_, entry)| !entry.is_expired(now)).map(|(key, _)| key)
    }

    /// A live key as one line of readable text, with the time until its deadline.
    pub fn describe(&self, db: usize, key: &[u8], now: Timestamp) -> Option<String> {
        let (value, left_ms) = self.peek_with_time(db, key, now)?;
        let left = left_ms.map(|left_ms| format!(" ({left_ms} ms left)"));
        Some(format!("{} = {value}{}", key.escape_ascii(), left.unwrap_or_default()))
    }

    /// The value of a live key, and the milliseconds until its deadline.
    pub fn peek_with_time(&self, db: usize, key: &[u8], now: Timestamp) -> Option<(&Value, Option<i64>)> {
        let entry = self.dicts[db].get(key).filter(|entry| !entry.is_expired(now))?;
        let left_ms = entry.deadline().map(|deadline| deadline.saturating_sub(now.millis()));
        Some((&entry.value, left_ms))
    }

    /// A database as readable text: one line for each key, sorted by key.
    pub fn dump(&self, db: usize, now: Timestamp) -> String {
        let mut keys: Vec<&Text> = self.dicts[db].keys().collect();
        keys.sort_unstable();
        keys.into_iter().filter_map(|key| self.describe(db, key, now)).map(|line| line + "\n").collect()
    }

    /// A view of one database.
    pub fn db(&mut self, index: usize) -> Db<'_> {
        Db {
            dict: &mut self.dicts[index],
            index,
            now: self.now,
            footprint: &mut self.footprint,
            expires: &mut self.expires,
            events: &mut self.events,
            random: &mut self.random,
            limits: &self.limits,
            due_keys: self.due_keys,
            is_reading: false,
        }
    }

    /// Replaces all data with that of another keyspace. Keys that have expired by now are left out.
    pub fn replace(&mut self, source: &Keyspace) {
        for index in 0..self.dicts.len() {
            self.footprint.database(Access::Write, index);
        }
        self.dicts.clone_from(&source.dicts);
        self.expires.clone_from(&source.expires);
        self.expire(usize::MAX);
    }

    /// Empties every database, and resets the settings and the random generator.
    pub fn reset(&mut self) {
        self.flush_all();
        self.expires.is_active = true;
        self.events = Events { is_replicated: self.events.is_replicated, ..Events::default() };
        self.random = Random::default();
        self.limits = Limits::default();
    }

    /// Empties every database.
    pub fn flush_all(&mut self) {
        for index in 0..self.dicts.len() {
            self.db(index).flush();
        }
        self.expires.clear();
    }
}

impl Clone for Keyspace {
    fn clone(&self) -> Keyspace {
        Keyspace {
            dicts: self.dicts.clone(),
            expires: self.expires.clone(),
            now: self.now,
            random: self.random.clone(),
            ..Keyspace::default()
        }
    }

    /// Reuses the memory of `self`, because a test harness restores the same small state very
    /// often.
    fn clone_from(&mut self, source: &Keyspace) {
        self.dicts.clone_from(&source.dicts);
        self.expires.clone_from(&source.expires);
        self.now = source.now;
        self.random.clone_from(&source.random);
        self.footprint.clear();
    }
}

/// Everything that a later command can notice, but for the instant of the last execution.
impl std::hash::Hash for Keyspace {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        for (db, dict) in self.dicts.iter().enumerate().filter(|(_, dict)| !dict.is_empty()) {
            (db, dict.len()).hash(state);
            dict.iter().for_each(|entry| entry.hash(state));
        }
        (&self.random, self.limits).hash(state);
        self.expires.hash_settings(state);
    }
}
