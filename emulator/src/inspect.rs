//! Reads the data and the scripts of a server for tests. These reads leave no footprint and expire
//! no key.

use std::time::Duration;

use bytes::Bytes;

use crate::clock::Timestamp;
use crate::emulator::Emulator;
use crate::engine::Snapshot;
use crate::glob;
use crate::keyspace::{Keyspace, Member, Text, Value};
use crate::script::ScriptCall;

/// The data of a server at an instant. Its reads leave no footprint and expire no key.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    keyspace: &'a Keyspace,
    now: Timestamp,
}

impl Data<'_> {
    /// Returns the string at a key of database 0.
    pub fn get(&self, key: &str) -> Option<Bytes> {
        self.peek(key, |value| if let Value::String(bytes) = value { Some(bytes.to_bytes()) } else { None })
            .flatten()
    }

    /// Whether database 0 has this key.
    pub fn exists(&self, key: &str) -> bool {
        self.peek(key, |_| ()).is_some()
    }

    /// Returns the time that is left to a key of database 0. `None` if the key does not exist or
    /// has no deadline.
    pub fn ttl(&self, key: &str) -> Option<Duration> {
        let deadline = self.keyspace.peek_deadline(0, key.as_bytes(), self.now)?;
        // In milliseconds, as Redis counts: a deadline may be later than any instant in
        // microseconds.
        let left_ms = deadline.saturating_sub(self.now.millis());
        Some(Duration::from_millis(left_ms.try_into().unwrap_or_default()))
    }

    /// Returns the keys of database 0 that match a pattern of `KEYS`, in order.
    pub fn keys(&self, pattern: &str) -> Vec<Bytes> {
        let keys = self.keyspace.peek_keys(0, self.now);
        let matching = keys.filter(|key| glob::selects(pattern.as_bytes(), key));
        let mut keys: Vec<Bytes> = matching.map(Text::to_bytes).collect();
        keys.sort_unstable();
        keys
    }

    /// Returns the list at a key of database 0, from its head on. It is empty if there is none.
    pub fn elements(&self, key: &str) -> Vec<Bytes> {
        self.peek(key, |value| {
            if let Value::List(list) = value {
                list.iter().map(Bytes::copy_from_slice).collect()
            } else {
                vec![]
            }
        })
        .unwrap_or_default()
    }

    /// Returns the members of the set at a key of database 0, in order. There are none if there is
    /// no set.
    pub fn members(&self, key: &str) -> Vec<Bytes> {
        let members = self.peek(key, |value| {
            if let Value::Set(set) = value { set.iter().map(Member::to_bytes).collect() } else { vec![] }
        });
        let mut members: Vec<Bytes> = members.unwrap_or_default();
        members.sort_unstable();
        members
    }

    /// Returns the score of a member of the sorted set at a key of database 0.
    pub fn score(&self, key: &str, member: &str) -> Option<f64> {
        self.peek(
            key,
            |value| if let Value::ZSet(zset) = value { zset.score(member.as_bytes()) } else { None },
        )
        .flatten()
    }

    /// Returns the value of a field of the hash at a key of database 0.
    pub fn field(&self, key: &str, field: &str) -> Option<Bytes> {
        self.peek(key, |value| {
            if let Value::Hash(hash) = value { hash.get(field.as_bytes()).map(Text::to_bytes) } else { None }
        })
        .flatten()
    }

    /// Whether a key of a database exists and has a deadline.
    pub fn expires(&self, db: usize, key: &[u8]) -> bool {
        self.keyspace.peek_deadline(db, key, self.now).is_some()
    }

    /// Describes a key of a database as one line of readable text: `lock = "A1" (10000 ms left)`.
    pub fn describe(&self, db: usize, key: &[u8]) -> Option<String> {
        self.keyspace.describe(db, key, self.now)
    }

    /// Describes the value at a key of a database as readable text, with at most so many bytes of
    /// each string. Returns also the milliseconds that are left to it, if it has a deadline.
    pub fn describe_value(&self, db: usize, key: &[u8], bytes_max: usize) -> Option<(String, Option<i64>)> {
        let (value, left_ms) = self.keyspace.peek_with_time(db, key, self.now)?;
        Some((format!("{value:.bytes_max$}"), left_ms))
    }

    /// Describes a database as readable text: one line for each key, sorted by key.
    pub fn dump(&self, db: usize) -> String {
        self.keyspace.dump(db, self.now)
    }

    /// Returns the nearest deadline of a key after `after`, in any database.
    pub fn next_deadline(&self, after: Timestamp) -> Option<Timestamp> {
        self.keyspace.next_deadline(after.millis()).map(Timestamp::from_millis)
    }

    fn peek<R>(&self, key: &str, look: impl FnOnce(&Value) -> R) -> Option<R> {
        self.keyspace.peek(0, key.as_bytes(), self.now).map(look)
    }
}

impl Snapshot {
    /// The data at an instant.
    pub fn at(&self, now: Timestamp) -> Data<'_> {
        Data { keyspace: &self.keyspace, now }
    }
}

impl Emulator {
    /// Reads the data as it is now. The server waits while `read` runs, so `read` must not call the
    /// emulator.
    pub fn read<R>(&self, read: impl FnOnce(Data<'_>) -> R) -> R {
        let engine = self.shared.engine();
        read(Data { keyspace: &engine.keyspace, now: engine.now() })
    }

    /// Returns the string at a key of database 0. This read leaves no footprint and expires no key.
    pub fn get(&self, key: &str) -> Option<Bytes> {
        self.read(|data| data.get(key))
    }

    /// Whether database 0 has this key.
    pub fn exists(&self, key: &str) -> bool {
        self.read(|data| data.exists(key))
    }

    /// Returns the time that is left to a key of database 0, by this server's clock. `None` if the
    /// key does not exist or has no deadline.
    pub fn ttl(&self, key: &str) -> Option<Duration> {
        self.read(|data| data.ttl(key))
    }

    /// Returns the keys of database 0 that match a pattern of `KEYS`, in order.
    pub fn keys(&self, pattern: &str) -> Vec<Bytes> {
        self.read(|data| data.keys(pattern))
    }

    /// Returns the list at a key of database 0, from its head on. It is empty if there is none.
    pub fn elements(&self, key: &str) -> Vec<Bytes> {
        self.read(|data| data.elements(key))
    }

    /// Returns the members of the set at a key of database 0, in order. There are none if there is
    /// no set.
    pub fn members(&self, key: &str) -> Vec<Bytes> {
        self.read(|data| data.members(key))
    }

    /// Returns the score of a member of the sorted set at a key of database 0.
    pub fn score(&self, key: &str, member: &str) -> Option<f64> {
        self.read(|data| data.score(key, member))
    }

    /// Returns the value of a field of the hash at a key of database 0.
    pub fn field(&self, key: &str, field: &str) -> Option<Bytes> {
        self.read(|data| data.field(key, field))
    }

    /// Whether a key of a database exists and has a deadline.
    pub fn expires(&self, db: usize, key: &[u8]) -> bool {
        self.read(|data| data.expires(db, key))
    }

    /// Describes a key of a database as one line of readable text: `lock = "A1" (10000 ms left)`.
    pub fn describe(&self, db: usize, key: &[u8]) -> Option<String> {
        self.read(|data| data.describe(db, key))
    }

    /// Describes a database as readable text: one line for each key, sorted by key.
    pub fn dump(&self, db: usize) -> String {
        self.read(|data| data.dump(db))
    }

    /// Returns the nearest deadline of a key after `after`, in any database.
    pub fn next_deadline(&self, after: Timestamp) -> Option<Timestamp> {
        self.read(|data| data.next_deadline(after))
    }
}

/// Reads scripts, and the commands that they call.
impl Emulator {
    /// Keeps the commands that scripts and functions call from then on, until
    /// [`Emulator::take_script_calls`].
    pub fn keep_script_calls(&self) {
        self.shared.engine().script_calls = Some(Vec::new());
    }

    /// Returns the kept commands in their order, and keeps no more.
    pub fn take_script_calls(&self) -> Vec<ScriptCall> {
        self.shared.engine().script_calls.take().unwrap_or_default()
    }

    /// Returns the source of a script in the cache, by its SHA1 in hexadecimal digits of any case.
    /// This read leaves no footprint.
    pub fn script(&self, sha: &str) -> Option<Bytes> {
        self.shared.engine().script_source(sha.as_bytes())
    }
}
