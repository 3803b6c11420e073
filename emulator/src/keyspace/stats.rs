//! The statistics of the databases: keys, deadlines, and approximate bytes.

use super::{Db, Entry, Keyspace, Text, Value};
use crate::footprint::Access;

/// The memory of a key apart from its name and its value, in bytes.
const KEY_BYTES: usize = size_of::<Entry>() + size_of::<Text>();
/// The memory of an item of a collection apart from its content, in bytes.
const ITEM_BYTES: usize = size_of::<bytes::Bytes>();

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
        (0..self.databases()).map(|index| self.db(index).stats()).collect()
    }
}

impl Db<'_> {
    fn stats(&mut self) -> KeyspaceStats {
        self.footprint.database(Access::Read, self.index);
        let mut stats = KeyspaceStats { keys: self.dict.len(), ..KeyspaceStats::default() };
        let mut left_millis: i64 = 0;
        for (key, entry) in &*self.dict {
            stats.bytes += memory(key, &entry.value);
            if let Some(deadline) = entry.deadline() {
                stats.expires += 1;
                left_millis = left_millis.saturating_add(deadline.saturating_sub(self.now.millis()).max(0));
            }
        }
        stats.ttl_millis = left_millis.checked_div(stats.expires as i64).unwrap_or(0);
        stats
    }

    /// About how many bytes a live key takes.
    pub fn memory(&mut self, key: &[u8]) -> Option<usize> {
        self.ask(key, |entry| memory(&[], &entry.value)).map(|bytes| bytes + key.len())
    }
}

fn memory(key: &[u8], value: &Value) -> usize {
    let items = |lengths: &mut dyn Iterator<Item = usize>| lengths.map(|length| ITEM_BYTES + length).sum();
    let value: usize = match value {
        Value::String(text) => text.len(),
        Value::List(list) => items(&mut list.iter().map(bytes::Bytes::len)),
        Value::Set(set) => items(&mut set.iter().map(|member| member.len())),
        Value::Hash(hash) => {
            items(&mut hash.iter().map(|(field, value)| ITEM_BYTES + field.len() + value.len()))
        }
        Value::ZSet(zset) => items(&mut zset.members().map(|member| size_of::<f64>() + member.len())),
    };
    KEY_BYTES + key.len() + value
}
