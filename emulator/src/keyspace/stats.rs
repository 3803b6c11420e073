//! The statistics of the databases: keys, deadlines, and approximate bytes.

use super::Keyspace;
use super::db::Db;
use crate::footprint::Access;

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
        self.expire_rest();
        (0..self.databases()).map(|index| self.db(index).stats()).collect()
    }

    /// The approximate memory of all databases, in bytes.
    pub fn bytes(&mut self) -> usize {
        (0..self.databases()).for_each(|index| self.footprint.database(Access::Read, index));
        self.total_bytes()
    }

    /// The approximate memory of all databases, in bytes. This read leaves no footprint.
    pub(crate) fn total_bytes(&self) -> usize {
        self.dicts.iter().map(|dict| dict.totals().bytes).sum()
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::entry::{Entry, KEY_BYTES};
    use super::super::table::ITEM_BYTES;
    use super::super::value::Value;
    use crate::clock::Clock;
    use crate::{Emulator, keyspace};

    /// Commands on a few keys and members, which change the memory of every type.
    const COMMANDS: &[&str] = &[
        "SET K M",
        "SET K M PX 5",
        "APPEND K M",
        "GETDEL K",
        "RPUSH K M a",
        "LPUSH K M",
        "LREM K 0 M",
        "LREM K -1 a",
        "LSET K 0 longer",
        "LTRIM K 1 -2",
        "LINSERT K AFTER M b",
        "RPOPLPUSH K other",
        "RPOP K",
        "SADD K M 7",
        "SREM K M",
        "SPOP K",
        "SUNIONSTORE other K other",
        "HSET K M 1",
        "HSET K a M",
        "HDEL K M",
        "ZADD K 1 M 2 a",
        "ZREM K M",
        "ZPOPMIN K",
        "ZREMRANGEBYRANK K 0 0",
        "ZUNIONSTORE other 2 K other",
        "PEXPIRE K 3",
        "PERSIST K",
        "RENAME K other",
        "COPY other K REPLACE",
        "MOVE K 1",
        "SWAPDB 0 1",
        "DEL K",
        "FLUSHDB",
    ];

    /// The memory of an entry by a walk through its value.
    fn walk(key: &[u8], entry: &Entry) -> usize {
        let items = |lengths: Vec<usize>| lengths.iter().map(|length| ITEM_BYTES + length).sum::<usize>();
        let value = match &entry.value {
            Value::String(text) => text.len(),
            Value::List(list) => items(list.iter().map(<[u8]>::len).collect()),
            Value::Set(set) if set.encoding() == keyspace::Encoding::IntSet => set.len() * size_of::<i64>(),
            Value::Set(set) => items(set.iter().map(|member| member.to_text().len()).collect()),
            Value::Hash(hash) => {
                items(hash.iter().flat_map(|(field, value)| [field.len(), value.len()]).collect())
            }
            Value::ZSet(zset) => {
                items(zset.range(0..zset.len()).map(|(member, _)| size_of::<f64>() + member.len()).collect())
            }
        };
        KEY_BYTES + key.len() + value
    }

    proptest! {
        /// Random commands; after each, the totals must be the sums over all keys.
        #[test]
        fn totals_are_the_sums_over_all_keys(
            picks in prop::collection::vec((0..COMMANDS.len(), 0..3u8, 0..12u8), 1..150),
        ) {
            let clock = Clock::manual();
            let emulator = Emulator::with_clock(clock.clone());
            let mut connection = emulator.connection();
            for (command, key, member) in picks {
                let (key, member) = (format!("key{key}"), format!("{}", i32::from(member) * 10_007 - 40_000));
                let words = COMMANDS[command].split(' ').map(|word| match word {
                    "K" => &key,
                    "M" => &member,
                    word => word,
                });
                let argv: Vec<&[u8]> = words.map(str::as_bytes).collect();
                connection.execute(&argv);
                clock.advance(std::time::Duration::from_millis(1));
                for dict in &emulator.shared.engine().keyspace.dicts {
                    let deadlines: Vec<i64> = dict.values().filter_map(Entry::deadline).collect();
                    let totals = dict.totals();
                    prop_assert_eq!(totals.bytes, dict.iter().map(|(key, entry)| walk(key, entry)).sum::<usize>());
                    prop_assert_eq!(totals.expires, deadlines.len());
                    prop_assert_eq!(totals.deadlines, deadlines.into_iter().map(i128::from).sum::<i128>());
                }
            }
        }
    }
}
