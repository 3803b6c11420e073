//! One database during one execution. Each read and each change by a command is recorded.

use bytes::Bytes;
use smallvec::SmallVec;

use super::dict::Dict;
use super::encoding::{Encoding, Limits};
use super::entry::{Content, Entry, NEVER};
use super::event::{Class, Events};
use super::expires::Expires;
use super::random::Random;
use super::text::Text;
use super::value::{Value, ValueType};
use crate::clock::Timestamp;
use crate::error::{self, Error};
use crate::footprint::{Access, Footprint};

/// How often `RANDOMKEY` of a replica tries to find a key that has not expired.
const RANDOM_KEY_TRIES_MAX: u32 = 100;

/// One database during one execution.
pub struct Db<'a> {
    pub(super) dict: &'a mut Dict,
    pub(super) index: usize,
    pub(super) now: Timestamp,
    pub(super) footprint: &'a mut Footprint,
    pub(super) expires: &'a mut Expires,
    pub(super) events: &'a mut Events,
    pub(super) random: &'a mut Random,
    pub(super) limits: &'a Limits,
    pub(super) due_keys: DueKeys,
    pub(super) is_reading: bool,
}

/// What happens to a key whose deadline has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DueKeys {
    /// It is removed when a command finds it, or before.
    #[default]
    Removed,
    /// It stays until the primary removes it, but no command finds it.
    Hidden,
    /// It stays, and the commands of the primary find it.
    Alive,
}

/// The deadline that a key gets with a new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The key has no deadline.
    Never,
    /// The key has this deadline (milliseconds since the Unix epoch).
    At(i64),
    /// The key keeps the deadline that it had, if any.
    Keep,
}

impl<'a> Db<'a> {
    /// The instant of this execution.
    ///
    /// It is for callers that have already been recorded as readers of the clock, because they used
    /// it in a deadline.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// The database for a command that reads: a key that it does not find causes the event
    /// `keymiss`.
    pub(crate) fn reading(mut self) -> Db<'a> {
        self.is_reading = true;
        self
    }

    /// The random generator. Each call is recorded, because it changes the next random choice.
    pub fn random(&mut self) -> &mut Random {
        self.footprint.random();
        self.random
    }

    /// The value of a live key.
    pub fn lookup(&mut self, key: &[u8]) -> Option<&Value> {
        let idx = self.access(key)?;
        Some(&self.dict[idx].value)
    }

    /// The value of a live key as one type.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another type.
    pub fn lookup_as<T: ValueType>(&mut self, key: &[u8]) -> Result<Option<&T>, Error> {
        self.lookup(key).map(|value| T::of(value).ok_or(error::WRONG_TYPE)).transpose()
    }

    /// The values of several live keys, in the order of the keys. Every key is read, even if the
    /// caller may need only some of the values.
    ///
    /// # Errors
    /// `WRONGTYPE` for a value that is not accepted. Later keys are not read then.
    pub fn lookup_all(
        mut self,
        keys: &[&[u8]],
        accepts: fn(&Value) -> bool,
    ) -> Result<SmallVec<[Option<&'a Value>; 2]>, Error> {
        for key in keys {
            if self.lookup(key).is_some_and(|value| !accepts(value)) {
                return Err(error::WRONG_TYPE);
            }
        }
        let Db { dict, due_keys, now, .. } = self;
        let dict: &'a Dict = dict;
        let found = |key: &&[u8]| dict.get(*key).filter(|entry| !has_expired(entry, due_keys, now));
        Ok(keys.iter().map(|key| found(key).map(|entry| &entry.value)).collect())
    }

    /// Whether there is a live key of this name. This method and the next ones do not count as
    /// access to the value.
    pub fn contains(&mut self, key: &[u8]) -> bool {
        self.ask(key, |_| ()).is_some()
    }

    /// The deadline of a live key. The outer `None` means no key, the inner `None` no deadline.
    pub fn deadline(&mut self, key: &[u8]) -> Option<Option<i64>> {
        self.ask(key, Entry::deadline)
    }

    /// The name of the type of a live key's value, as `TYPE` replies it.
    pub fn type_name(&mut self, key: &[u8]) -> Option<&'static str> {
        self.ask(key, |entry| entry.value.type_name())
    }

    /// Whether Redis would share the value of a live key between keys, as it does with small
    /// integers.
    pub(crate) fn is_shared(&mut self, key: &[u8]) -> Option<bool> {
        self.ask(key, |entry| entry.encoding.is_none() && Encoding::is_shared(&entry.value))
    }

    /// The encoding that Redis would use for the value of a live key.
    pub fn encoding(&mut self, key: &[u8]) -> Option<Encoding> {
        self.ask(key, Entry::encoding)
    }

    /// When the value of a live key was last accessed.
    pub(crate) fn accessed(&mut self, key: &[u8]) -> Option<Timestamp> {
        self.ask(key, |entry| entry.accessed)
    }

    pub(super) fn ask<R>(&mut self, key: &[u8], question: impl Fn(&Entry) -> R) -> Option<R> {
        let idx = self.find_or_miss(key)?;
        Some(question(&self.dict[idx]))
    }

    /// Creates a missing key with an empty value, and returns its index.
    pub(super) fn create(&mut self, key: &[u8], empty: Value) -> usize {
        self.events.appear(self.index, key);
        self.dict.insert(key, Entry::new(empty, None, self.now))
    }

    /// Removes a key whose value has become empty, and records the event `del`.
    pub(super) fn discard(&mut self, idx: usize) {
        let (key, _) = self.dict.get_index(idx).expect("the caller has just found it");
        self.events.record(Class::Generic, "del", self.index, key);
        self.dict.remove(idx);
    }

    /// Records an event of a key under its Redis name: `db.notify(Class::String, "set", key)`.
    pub fn notify(&mut self, class: Class, event: &'static str, key: &[u8]) {
        self.events.record(class, event, self.index, key);
    }

    /// Records that Redis has written its reply by now. If the client subscribes to events of its
    /// own command, it receives the later ones after the reply.
    pub fn answer(&mut self) {
        self.events.answer();
    }

    /// Records that Redis has written so many parts of its reply by now ([`super::Event::place`]).
    pub fn answer_in_part(&mut self, parts: usize) {
        self.events.answered = parts;
    }

    /// Sets a key to a value, whatever it held.
    pub fn insert(&mut self, key: &[u8], value: Value, expiry: Expiry) {
        let idx = self.dict.get_index_of(key);
        let found = idx.map(|idx| &self.dict[idx]);
        let had = found.and_then(Entry::deadline);
        let has_expired = found.is_some_and(|old| self.has_expired(old));
        let is_new = found.is_none() || has_expired;
        let deadline = match expiry {
            Expiry::Never => None,
            Expiry::At(deadline) => Some(deadline),
            Expiry::Keep => had.filter(|_| !has_expired),
        };
        self.footprint.key(Access::Write, self.index, key, deadline);
        if had.is_some() {
            self.footprint.key(Access::Read, self.index, key, had);
        }
        if has_expired {
            self.events.expire(self.index, key);
        }
        if is_new {
            self.events.appear(self.index, key);
        }
        let entry = Entry::new(value, deadline, self.now);
        let idx = match idx {
            Some(idx) => {
                self.dict.change(idx, |old| *old = entry);
                idx
            }
            None => self.dict.insert(key, entry),
        };
        self.note_deadline(idx);
    }

    /// Removes a live key, and returns whether there was one.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        match self.find(key) {
            Some(idx) => {
                self.footprint.key(Access::Write, self.index, key, None);
                self.dict.remove(idx);
                true
            }
            None => false,
        }
    }

    /// Sets or removes the deadline of a live key, and records the event. A deadline in the past
    /// removes the key, as in Redis. Returns whether the key is still there.
    pub fn set_deadline(&mut self, key: &[u8], deadline: Option<i64>) -> bool {
        let Some(idx) = self.access(key) else { return false };
        let is_over = self.due_keys == DueKeys::Removed
            && deadline.is_some_and(|deadline| deadline <= self.now.millis());
        let event = if is_over {
            self.remove(key);
            "del"
        } else {
            self.footprint.key(Access::Write, self.index, key, deadline);
            self.dict.change(idx, |entry| entry.until = deadline.unwrap_or(NEVER));
            self.note_deadline(idx);
            if deadline.is_some() { "expire" } else { "persist" }
        };
        self.notify(Class::Generic, event, key);
        !is_over
    }

    /// Removes a live key, and returns its value with its deadline and encoding.
    pub fn take(&mut self, key: &[u8]) -> Option<Content> {
        let idx = self.access(key)?;
        self.footprint.key(Access::Write, self.index, key, None);
        Some(Content(self.dict.remove(idx)))
    }

    /// A copy of a live key's value, with its deadline and encoding.
    pub fn copy(&mut self, key: &[u8]) -> Option<Content> {
        let idx = self.access(key)?;
        let mut entry = self.dict[idx].clone();
        // Redis shares small integers, but not with copies.
        entry.encoding =
            entry.encoding.or_else(|| Some(Encoding::of(&entry.value)).filter(|own| *own == Encoding::Int));
        Some(Content(entry))
    }

    /// Sets a key to a value with its deadline and encoding, whatever the key held. The key counts
    /// as one that appeared.
    pub fn put(&mut self, key: &[u8], Content(entry): Content) {
        self.remove(key);
        self.footprint.key(Access::Write, self.index, key, entry.deadline());
        self.events.appear(self.index, key);
        let idx = self.dict.insert(key, entry);
        self.note_deadline(idx);
    }

    /// Fixes the encoding of a live key's value from now on.
    pub fn set_encoding(&mut self, key: &[u8], encoding: Encoding) {
        if let Some(idx) = self.find(key) {
            self.dict.change(idx, |entry| match (&mut entry.value, encoding) {
                (Value::ZSet(zset), Encoding::SkipList) => zset.outgrow(),
                _ => entry.encoding = Some(encoding),
            });
        }
    }

    /// A random live key.
    ///
    /// If footprints are recorded, the order in which keys came does not matter. Otherwise the
    /// order of two commands on different keys would.
    pub fn random_key(&mut self) -> Option<Bytes> {
        self.footprint.database(Access::Read, self.index);
        // Like Redis, a replica gives up and returns an expired key.
        let mut tries = RANDOM_KEY_TRIES_MAX;
        while !self.dict.is_empty() {
            let len = self.dict.len();
            let nth = self.random().index(len);
            let key = if self.footprint.is_recording() {
                let mut keys: Vec<&Text> = self.dict.keys().collect();
                keys.select_nth_unstable(nth).1.to_bytes()
            } else {
                self.dict.get_index(nth).map(|(key, _)| key.to_bytes())?
            };
            tries -= u32::from(self.due_keys == DueKeys::Hidden);
            if self.find(&key).is_some() || tries == 0 {
                return Some(key);
            }
        }
        None
    }

    /// The keys at these indexes of [`Db::keys`], including expired ones.
    pub fn keys_at(&mut self, places: std::ops::Range<usize>) -> Vec<Bytes> {
        self.footprint.database(Access::Read, self.index);
        self.dict.get_range(places).into_iter().flat_map(|keys| keys.keys()).map(Text::to_bytes).collect()
    }

    /// The live keys in the order of insertion, but a removal moves the last key into the gap.
    pub fn keys(&mut self) -> impl Iterator<Item = &Text> {
        self.footprint.database(Access::Read, self.index);
        let (due_keys, now) = (self.due_keys, self.now);
        self.dict.iter().filter(move |(_, entry)| !has_expired(entry, due_keys, now)).map(|(key, _)| key)
    }

    /// How many keys there are. Expired keys count until a command finds them, as in Redis.
    pub fn len(&mut self) -> usize {
        self.footprint.database(Access::Read, self.index);
        self.dict.len()
    }

    /// Removes every key.
    pub fn flush(&mut self) {
        self.events.is_flushed = true;
        let access = if self.dict.is_empty() { Access::Read } else { Access::Write };
        self.footprint.database(access, self.index);
        self.dict.clear();
    }

    /// The index of a live key, for a command that needs its value.
    pub(super) fn access(&mut self, key: &[u8]) -> Option<usize> {
        let idx = self.find_or_miss(key)?;
        self.dict.touch(idx, self.now);
        Some(idx)
    }

    fn find_or_miss(&mut self, key: &[u8]) -> Option<usize> {
        let idx = self.find(key);
        self.count(key, idx);
        idx
    }

    /// Records for a command that reads whether it has found the key.
    pub(super) fn count(&mut self, key: &[u8], idx: Option<usize>) {
        if self.is_reading {
            match idx {
                Some(_) => self.events.counts.hits += 1,
                None => self.notify(Class::KeyMiss, "keymiss", key),
            }
        }
    }

    fn note_deadline(&mut self, idx: usize) {
        let (key, entry) = self.dict.get_index(idx).expect("the caller has just found it");
        if let Some(deadline) = entry.deadline() {
            self.expires.push(self.index, key, deadline);
        }
    }

    /// The index of a live key. An expired key is removed, unless it is hidden.
    fn find(&mut self, key: &[u8]) -> Option<usize> {
        let idx = self.dict.get_index_of(key);
        self.look_at(key, idx);
        self.keep_alive(key, idx)
    }

    /// Records the read of a key.
    pub(super) fn look_at(&mut self, key: &[u8], idx: Option<usize>) {
        let deadline = idx.and_then(|idx| self.dict[idx].deadline());
        self.footprint.key(Access::Read, self.index, key, deadline);
    }

    /// The index of a live key. An expired key is removed, unless it is hidden.
    ///
    /// That removal is not recorded as a write. For every client the key was already gone, and the
    /// deadline in the footprint contains the time.
    pub(super) fn keep_alive(&mut self, key: &[u8], idx: Option<usize>) -> Option<usize> {
        let idx = idx?;
        if self.has_expired(&self.dict[idx]) {
            if self.due_keys == DueKeys::Removed {
                self.events.expire(self.index, key);
                self.dict.remove(idx);
            }
            return None;
        }
        Some(idx)
    }

    fn has_expired(&self, entry: &Entry) -> bool {
        has_expired(entry, self.due_keys, self.now)
    }
}

/// Whether a command finds the entry no longer.
fn has_expired(entry: &Entry, due_keys: DueKeys, now: Timestamp) -> bool {
    due_keys != DueKeys::Alive && entry.is_expired(now)
}
