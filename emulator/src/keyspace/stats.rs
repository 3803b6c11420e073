//! The statistics of the databases: keys, deadlines, and approximate bytes.

use super::{Db, Entry, Keyspace, Text, Value};
use crate::footprint::Access;

/// The memory of a key apart from its name and its value, in bytes.
const KEY_BYTES: usize = size_of::<Entry>() + size_of::<Text>();

/// The statistics of one database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceStats {
    /// Keys. Expired keys count until a command or the active expiry removes them.
    pub keys: usize,
    /// Keys with a deadline.
    pub expires: usize,
    /// The average time until the deadlines, in milliseconds.
    pub ttl_millis: i64,
    /// The approximate memory, in bytes.
    pub bytes: usize,
}

impl Keyspace {
    /// The statistics of every database.
    pub fn stats(&mut self) -> Vec<KeyspaceStats> {
        self.expire_all();
        (0..self.databases()).map(|index| self.db(index).stats()).collect()
    }

    /// The approximate memory of all databases, in bytes.
    pub fn bytes(&mut self) -> usize {
        (0..self.databases()).map(|index| self.db(index).stats().bytes).sum()
    }
}

impl Db<'_> {
    fn stats(&mut self) -> KeyspaceStats {
        self.footprint.database(Access::Read, self.index);
        let totals = self.dict.totals();
        let average = totals.deadlines.checked_div(totals.expires as i128);
        let left = average.map_or(0, |average| (average - i128::from(self.now.millis())).max(0));
        KeyspaceStats {
            keys: self.dict.len(),
            expires: totals.expires,
            ttl_millis: i64::try_from(left).unwrap_or(i64::MAX),
            bytes: totals.bytes,
        }
    }

    /// About how many bytes a live key takes.
    pub fn memory(&mut self, key: &[u8]) -> Option<usize> {
        self.ask(key, |entry| entry.memory(key.len()))
    }
}

impl Entry {
    /// About how many bytes a key with a name of this length takes. It is known without a walk
    /// through the value.
    pub(super) fn memory(&self, name_bytes: usize) -> usize {
        let value = match &self.value {
            Value::String(text) => text.len(),
            Value::List(list) => list.memory(),
            Value::Set(set) => set.memory(),
            Value::Hash(hash) => hash.memory(),
            Value::ZSet(zset) => zset.memory(),
        };
        KEY_BYTES + name_bytes + value
    }
}
