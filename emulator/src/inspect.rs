//! Reads the data of an emulator for tests. These reads leave no footprint and expire no key.

use std::time::Duration;

use bytes::Bytes;

use crate::Emulator;
use crate::glob;
use crate::keyspace::{Text, Value};

impl Emulator {
    /// Returns the string at a key of database 0. This read leaves no footprint and expires no key.
    pub fn get(&self, key: &str) -> Option<Bytes> {
        self.peek(key, |value| if let Value::String(bytes) = value { Some(bytes.to_bytes()) } else { None })
            .flatten()
    }

    /// Whether database 0 has this key.
    pub fn exists(&self, key: &str) -> bool {
        self.peek(key, |_| ()).is_some()
    }

    /// Returns the time that is left to a key of database 0, by this server's clock. `None` if the
    /// key does not exist or has no deadline.
    pub fn ttl(&self, key: &str) -> Option<Duration> {
        let engine = self.shared.engine();
        let now = engine.now();
        let deadline = engine.keyspace.peek_deadline(0, key.as_bytes(), now)?;
        // In milliseconds, as Redis counts: a deadline may be later than any instant in
        // microseconds.
        let left_ms = deadline.saturating_sub(now.millis());
        Some(Duration::from_millis(left_ms.try_into().unwrap_or_default()))
    }

    /// Returns the keys of database 0 that match a pattern of `KEYS`, in order.
    pub fn keys(&self, pattern: &str) -> Vec<Bytes> {
        let engine = self.shared.engine();
        let keys = engine.keyspace.peek_keys(0, engine.now());
        let matching = keys.filter(|key| glob::selects(pattern.as_bytes(), key));
        let mut keys: Vec<Bytes> = matching.map(Text::to_bytes).collect();
        keys.sort_unstable();
        keys
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
        let engine = self.shared.engine();
        engine.keyspace.peek_deadline(db, key, engine.now()).is_some()
    }

    /// Describes a key of a database as one line of readable text: `lock = "A1" (10000 ms left)`.
    pub fn describe(&self, db: usize, key: &[u8]) -> Option<String> {
        let engine = self.shared.engine();
        engine.keyspace.describe(db, key, engine.now())
    }

    /// Describes a database as readable text: one line for each key, sorted by key.
    pub fn dump(&self, db: usize) -> String {
        let engine = self.shared.engine();
        engine.keyspace.dump(db, engine.now())
    }

    fn peek<R>(&self, key: &str, look: impl FnOnce(&Value) -> R) -> Option<R> {
        let engine = self.shared.engine();
        engine.keyspace.peek(0, key.as_bytes(), engine.now()).map(look)
    }
}
