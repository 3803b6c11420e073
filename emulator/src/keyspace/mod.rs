//! The databases: keys, values and deadlines. Knows no client and reads no clock: it is told the time.
//!
//! This is the one place where data is touched, so it is also the one place where the footprint is recorded and where keys
//! expire. A key is expired when `now > deadline`, and the time stands still while one command, transaction or script runs.

mod census;
mod encoding;
mod event;
mod expires;
mod hash;
mod random;
mod set;
mod text;
mod value;
mod zset;

pub use encoding::Encoding;
pub use event::{Class, Classes, Event, Events};
pub use hash::Hash;
pub use random::Random;
pub use set::Set;
pub use text::Text;
pub use value::{Kind, List, Value};
pub use zset::ZSet;

use bytes::Bytes;
use indexmap::IndexMap;

use crate::clock::Timestamp;
use crate::error::{self, Error};
use crate::footprint::{Access, Footprint};

use expires::Expires;

/// A hasher with a fixed seed: iteration order depends on nothing but what was done.
pub(crate) type Hasher = foldhash::fast::FixedState;

type Dict = IndexMap<Text, Entry, Hasher>;

#[derive(Clone, Debug)]
struct Entry {
    value: Value,
    /// Absolute, in milliseconds since the Unix epoch; [`NEVER`] if there is none.
    until: i64,
    /// Where it does not follow from the value: Redis never goes back to a more compact one.
    encoding: Option<Encoding>,
    /// When a command last asked for the value.
    accessed: Timestamp,
}

/// No deadline of a key: one that has always been over would have removed it.
const NEVER: i64 = i64::MIN;

/// A value with all that belongs to it, on its way to another key.
pub struct Content(Entry);

/// All databases of one server.
#[derive(Debug, Default)]
pub struct Keyspace {
    dicts: Vec<Dict>,
    now: Timestamp,
    footprint: Footprint,
    expires: Expires,
    /// What happened to keys that somebody wants to know of.
    pub events: Events,
    random: Random,
}

impl Keyspace {
    /// Empty databases, this many.
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

    /// Removes the keys whose time is over.
    pub fn expire_due(&mut self) {
        while let Some((db, key)) = self.expires.pop_due(self.now.millis(), &self.dicts) {
            self.dicts[db].swap_remove(&key);
            self.events.expire(db, &key);
        }
    }

    /// When [`Keyspace::expire_due`] has something to do next, or a little earlier.
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.expires.first().map(|deadline| Timestamp::from_millis(deadline.saturating_add(1)))
    }

    /// Switches the removal of keys that nobody looks at on or off.
    pub fn set_active_expiry(&mut self, is_active: bool) {
        self.expires.is_active = is_active;
    }

    /// Exchanges two databases.
    pub fn swap(&mut self, a: usize, b: usize) {
        if a != b {
            self.footprint.database(Access::Write, a);
            self.footprint.database(Access::Write, b);
            self.dicts.swap(a, b);
            self.expires.rebuild(&self.dicts);
        }
    }

    /// The instant of this execution, for what is no part of it: nothing is recorded.
    pub(crate) fn instant(&self) -> Timestamp {
        self.now
    }

    /// What the execution has touched so far.
    pub fn footprint(&self) -> &Footprint {
        &self.footprint
    }

    pub(crate) fn footprint_mut(&mut self) -> &mut Footprint {
        &mut self.footprint
    }

    /// The instant of this execution; asking for it is a read of the clock.
    pub fn now(&mut self) -> Timestamp {
        self.footprint.clock();
        self.now
    }

    /// The nearest deadline after `after` (milliseconds since the Unix epoch), in any database.
    pub fn next_deadline(&self, after: i64) -> Option<i64> {
        let deadlines = self.dicts.iter().flat_map(Dict::values).filter_map(Entry::deadline);
        deadlines.filter(|&deadline| deadline > after).min()
    }

    /// The value of a key that is live at `now`, for a look from outside of any execution: nothing is recorded or expired.
    pub fn peek(&self, db: usize, key: &[u8], now: Timestamp) -> Option<&Value> {
        self.dicts[db].get(key).filter(|entry| !entry.is_expired(now)).map(|entry| &entry.value)
    }

    /// The deadline of a key that is live at `now`, looked at in the same way.
    pub fn peek_deadline(&self, db: usize, key: &[u8], now: Timestamp) -> Option<i64> {
        self.dicts[db].get(key).filter(|entry| !entry.is_expired(now))?.deadline()
    }

    /// The keys of a database that are live at `now`, looked at in the same way.
    pub fn peek_keys(&self, db: usize, now: Timestamp) -> impl Iterator<Item = &Text> {
        self.dicts[db].iter().filter(move |(_, entry)| !entry.is_expired(now)).map(|(key, _)| key)
    }

    /// A live key as one line of readable text, with what is left of its time.
    pub fn describe(&self, db: usize, key: &[u8], now: Timestamp) -> Option<String> {
        let entry = self.dicts[db].get(key).filter(|entry| !entry.is_expired(now))?;
        let left = entry.deadline().map(|deadline| format!(" ({} ms left)", deadline - now.millis()));
        Some(format!("{} = {}{}", key.escape_ascii(), entry.value, left.unwrap_or_default()))
    }

    /// A database as readable text: one line a key, sorted by key.
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
            is_reading: false,
        }
    }

    /// Empties every database, and chance begins anew.
    pub fn reset(&mut self) {
        self.flush_all();
        self.expires.is_active = true;
        self.events = Events::default();
        self.random = Random::default();
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

    /// Keeps the memory that it has: a harness restores the same small state a million times.
    fn clone_from(&mut self, source: &Keyspace) {
        self.dicts.clone_from(&source.dicts);
        self.expires.clone_from(&source.expires);
        self.now = source.now;
        self.random.clone_from(&source.random);
        self.footprint.clear();
    }
}

/// One database during one execution.
pub struct Db<'a> {
    dict: &'a mut Dict,
    index: usize,
    now: Timestamp,
    footprint: &'a mut Footprint,
    expires: &'a mut Expires,
    events: &'a mut Events,
    random: &'a mut Random,
    is_reading: bool,
}

/// What a new value does with the deadline that the key had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The key lives for ever.
    Never,
    /// The key lives until then (milliseconds since the Unix epoch).
    At(i64),
    /// The key keeps the deadline it had, if any.
    Keep,
}

impl<'a> Db<'a> {
    /// The instant of this execution, for a caller that has put it into a deadline and is a reader of the clock already.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// The same for a command that reads: that it does not find a key is an event of its own.
    pub(crate) fn reading(mut self) -> Db<'a> {
        self.is_reading = true;
        self
    }

    /// Chance. Who asks for it changes what the next one gets.
    pub fn random(&mut self) -> &mut Random {
        self.footprint.random();
        self.random
    }

    /// The value of a live key.
    pub fn lookup(&mut self, key: &[u8]) -> Option<&Value> {
        let idx = self.access(key)?;
        Some(&self.dict[idx].value)
    }

    /// The value of a live key as one kind.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another kind.
    pub fn lookup_as<T: Kind>(&mut self, key: &[u8]) -> Result<Option<&T>, Error> {
        self.lookup(key).map(|value| T::of(value).ok_or(error::WRONG_TYPE)).transpose()
    }

    /// Whether there is such a live key. This, like the questions after it, does not count as access to the value.
    pub fn contains(&mut self, key: &[u8]) -> bool {
        self.ask(key, |_| ()).is_some()
    }

    /// The deadline of a live key: outer `None` without the key, inner `None` without a deadline.
    pub fn deadline(&mut self, key: &[u8]) -> Option<Option<i64>> {
        self.ask(key, Entry::deadline)
    }

    /// The kind of a live key's value, as `TYPE` tells it.
    pub fn type_name(&mut self, key: &[u8]) -> Option<&'static str> {
        self.ask(key, |entry| entry.value.type_name())
    }

    /// Whether Redis would keep a live key's value once for all keys: small integers.
    pub(crate) fn is_shared(&mut self, key: &[u8]) -> Option<bool> {
        self.ask(key, |entry| entry.encoding.is_none() && Encoding::is_shared(&entry.value))
    }

    /// How Redis would keep a live key's value.
    pub fn encoding(&mut self, key: &[u8]) -> Option<Encoding> {
        self.ask(key, Entry::encoding)
    }

    /// When a live key's value was last accessed.
    pub(crate) fn accessed(&mut self, key: &[u8]) -> Option<Timestamp> {
        self.ask(key, |entry| entry.accessed)
    }

    fn ask<R>(&mut self, key: &[u8], question: impl Fn(&Entry) -> R) -> Option<R> {
        let idx = self.find_or_miss(key)?;
        Some(question(&self.dict[idx]))
    }

    /// A live key's value of one kind, to be changed in place.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another kind.
    pub fn edit<T: Kind>(self, key: &[u8]) -> Result<Option<Edit<'a, T>>, Error> {
        self.edit_with(key, None)
    }

    /// The same, and an empty value if there is no such key.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another kind.
    pub fn edit_or_create<T: Kind>(self, key: &[u8]) -> Result<Edit<'a, T>, Error> {
        let edit = self.edit_with(key, Some(|| T::default().into()))?;
        Ok(edit.expect("what is missing was created"))
    }

    fn edit_with<T: Kind>(
        mut self,
        key: &[u8],
        create: Option<fn() -> Value>,
    ) -> Result<Option<Edit<'a, T>>, Error> {
        let idx = match (self.access(key), create) {
            (Some(idx), _) => idx,
            (None, Some(empty)) => {
                let entry = Entry::new(empty(), None, self.now);
                self.events.appear(self.index, key);
                self.dict.insert_full(key.into(), entry).0
            }
            (None, None) => return Ok(None),
        };
        if T::of(&self.dict[idx].value).is_none() {
            return Err(error::WRONG_TYPE);
        }
        Ok(Some(Edit { db: self, idx, has_written: false, kind: std::marker::PhantomData }))
    }

    /// Tells those who listen what happened to a key, in Redis's words: `db.notify(Class::String, "set", key)`.
    pub fn notify(&mut self, class: Class, event: &'static str, key: &[u8]) {
        self.events.record(class, event, self.index, key);
    }

    /// Sets a key to a value, whatever it held.
    pub fn insert(&mut self, key: &[u8], value: Value, expiry: Expiry) {
        let deadline = match expiry {
            Expiry::Never => None,
            Expiry::At(deadline) => Some(deadline),
            Expiry::Keep => self.find(key).and_then(|idx| self.dict[idx].deadline()),
        };
        self.footprint.key(Access::Write, self.index, key, deadline);
        let entry = Entry::new(value, deadline, self.now);
        let idx = match self.dict.get_full_mut(key) {
            Some((idx, _, old)) => {
                let has_expired = old.is_expired(self.now);
                *old = entry;
                if has_expired {
                    self.events.expire(self.index, key);
                    self.events.appear(self.index, key);
                }
                idx
            }
            None => {
                self.events.appear(self.index, key);
                self.dict.insert_full(key.into(), entry).0
            }
        };
        self.note_deadline(idx);
    }

    /// Removes a live key, and says whether there was one.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        match self.find(key) {
            Some(idx) => {
                self.footprint.key(Access::Write, self.index, key, None);
                self.dict.swap_remove_index(idx);
                true
            }
            None => false,
        }
    }

    /// Gives a live key this deadline, or none, and tells those who listen. A deadline in the past removes the key, as in Redis.
    pub fn set_deadline(&mut self, key: &[u8], deadline: Option<i64>) {
        let Some(idx) = self.access(key) else { return };
        let event = if deadline.is_some_and(|deadline| deadline <= self.now.millis()) {
            self.remove(key);
            "del"
        } else {
            self.footprint.key(Access::Write, self.index, key, deadline);
            self.dict[idx].until = deadline.unwrap_or(NEVER);
            self.note_deadline(idx);
            if deadline.is_some() { "expire" } else { "persist" }
        };
        self.notify(Class::Generic, event, key);
    }

    /// Takes a live key's value away, with all that belongs to it.
    pub fn take(&mut self, key: &[u8]) -> Option<Content> {
        let idx = self.access(key)?;
        self.footprint.key(Access::Write, self.index, key, None);
        self.dict.swap_remove_index(idx).map(|(_, entry)| Content(entry))
    }

    /// A copy of a live key's value, with all that belongs to it.
    pub fn copy(&mut self, key: &[u8]) -> Option<Content> {
        let idx = self.access(key)?;
        let mut entry = self.dict[idx].clone();
        // Redis shares small integers, but not with copies.
        entry.encoding =
            entry.encoding.or_else(|| Some(Encoding::of(&entry.value)).filter(|own| *own == Encoding::Int));
        Some(Content(entry))
    }

    /// Puts a value with all that belongs to it under a key, whatever the key held. It has not been there before.
    pub fn put(&mut self, key: &[u8], Content(entry): Content) {
        self.remove(key);
        self.footprint.key(Access::Write, self.index, key, entry.deadline());
        self.events.appear(self.index, key);
        let (idx, _) = self.dict.insert_full(key.into(), entry);
        self.note_deadline(idx);
    }

    /// Has a live key's value kept in this form, for ever.
    pub fn set_encoding(&mut self, key: &[u8], encoding: Encoding) {
        if let Some(idx) = self.find(key) {
            match (&mut self.dict[idx].value, encoding) {
                (Value::ZSet(zset), Encoding::SkipList) => zset.outgrow(),
                _ => self.dict[idx].encoding = Some(encoding),
            }
        }
    }

    /// Any live key.
    pub fn random_key(&mut self) -> Option<Bytes> {
        self.footprint.database(Access::Read, self.index);
        while !self.dict.is_empty() {
            let len = self.dict.len();
            let idx = self.random().index(len);
            let key = self.dict.get_index(idx).map(|(key, _)| key.to_bytes())?;
            if self.find(&key).is_some() {
                return Some(key);
            }
        }
        None
    }

    /// The keys, expired ones too, at these places of [`Db::keys`].
    pub fn keys_at(&mut self, places: std::ops::Range<usize>) -> Vec<Bytes> {
        self.footprint.database(Access::Read, self.index);
        self.dict.get_range(places).into_iter().flat_map(|keys| keys.keys()).map(Text::to_bytes).collect()
    }

    /// The live keys, in the order of insertion (but a removal moves the last key into the gap).
    pub fn keys(&mut self) -> impl Iterator<Item = &Text> {
        self.footprint.database(Access::Read, self.index);
        let now = self.now;
        self.dict.iter().filter(move |(_, entry)| !entry.is_expired(now)).map(|(key, _)| key)
    }

    /// How many keys there are; expired ones count until something looks at them, as in Redis.
    pub fn len(&mut self) -> usize {
        self.footprint.database(Access::Read, self.index);
        self.dict.len()
    }

    /// Removes every key.
    pub fn flush(&mut self) {
        if !self.dict.is_empty() {
            self.footprint.database(Access::Write, self.index);
            self.dict.clear();
        }
    }

    /// Where the live key is, for a command that wants its value.
    fn access(&mut self, key: &[u8]) -> Option<usize> {
        let idx = self.find_or_miss(key)?;
        self.dict[idx].accessed = self.now;
        Some(idx)
    }

    fn find_or_miss(&mut self, key: &[u8]) -> Option<usize> {
        let idx = self.find(key);
        if self.is_reading {
            match idx {
                Some(_) => self.events.counts.hits += 1,
                None => self.notify(Class::KeyMiss, "keymiss", key),
            }
        }
        idx
    }

    fn note_deadline(&mut self, idx: usize) {
        let (key, entry) = self.dict.get_index(idx).expect("the caller has just found it");
        if let Some(deadline) = entry.deadline() {
            self.expires.push(self.index, key, deadline);
        }
    }

    /// Where the live key is; an expired one is removed on the way. That removal is no write: to every client the key was
    /// gone already, and the deadline in the footprint says when.
    fn find(&mut self, key: &[u8]) -> Option<usize> {
        let idx = self.dict.get_index_of(key);
        let deadline = idx.and_then(|idx| self.dict[idx].deadline());
        self.footprint.key(Access::Read, self.index, key, deadline);
        let idx = idx?;
        if self.dict[idx].is_expired(self.now) {
            self.events.expire(self.index, key);
            self.dict.swap_remove_index(idx);
            return None;
        }
        Some(idx)
    }
}

impl Entry {
    fn new(value: Value, deadline: Option<i64>, now: Timestamp) -> Entry {
        Entry { value, until: deadline.unwrap_or(NEVER), encoding: None, accessed: now }
    }

    fn deadline(&self) -> Option<i64> {
        (self.until != NEVER).then_some(self.until)
    }

    fn encoding(&self) -> Encoding {
        self.encoding.unwrap_or_else(|| Encoding::of(&self.value))
    }

    fn is_expired(&self, now: Timestamp) -> bool {
        self.until != NEVER && now.millis() > self.until
    }
}

/// A value that may be changed in place. Reading goes through [`Edit::get`]; [`Edit::write`] is what makes the execution
/// a writer, so it is called only when something will change. A value left empty goes away with its key, and those who listen
/// are told so (`del`).
pub struct Edit<'a, T: Kind> {
    db: Db<'a>,
    idx: usize,
    has_written: bool,
    kind: std::marker::PhantomData<T>,
}

impl<T: Kind> Edit<'_, T> {
    /// The value as it is.
    pub fn get(&self) -> &T {
        T::of(&self.db.dict[self.idx].value).expect("the kind was checked when the edit began")
    }

    /// The value, to be changed.
    pub fn write(&mut self) -> &mut T {
        self.has_written = true;
        let (key, entry) = self.db.dict.get_index_mut(self.idx).expect("an edit holds the key in place");
        self.db.footprint.key(Access::Write, self.db.index, key, entry.deadline());
        T::of_mut(&mut entry.value).expect("the kind was checked when the edit began")
    }

    /// Chance, as of [`Db::random`].
    pub fn random(&mut self) -> &mut Random {
        self.db.random()
    }

    /// Tells those who listen what happened, in Redis's words: `list.notify(Class::List, "lpush")`.
    pub fn notify(&mut self, class: Class, event: &'static str) {
        let (key, _) = self.db.dict.get_index(self.idx).expect("an edit holds the key in place");
        self.db.events.record(class, event, self.db.index, key);
    }
}

impl<T: Kind> Drop for Edit<'_, T> {
    fn drop(&mut self) {
        if self.get().is_empty() {
            self.notify(Class::Generic, "del");
            self.db.dict.swap_remove_index(self.idx);
        } else if self.has_written {
            let entry = &mut self.db.dict[self.idx];
            entry.encoding = Encoding::after_edit(&entry.value);
        }
    }
}
