//! The watched keys and the clients that watch them. They make `EXEC` conditional.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::client::Slot;
use crate::footprint::{Access, Resource};
use crate::keyspace::Keyspace;

/// The clients that watch a key, each with the deadline that the key had when the watch began. The
/// outer `None` means that there was no key, the inner `None` that there was no deadline.
type Watchers = BTreeMap<Slot, Option<Option<i64>>>;

/// The watched keys of one server.
#[derive(Debug, Default)]
pub struct Watches {
    /// The clients that watch each key.
    watched: BTreeMap<(usize, Bytes), Watchers>,
    /// The clients that watch a key which has changed since.
    dirty: BTreeSet<Slot>,
    /// How many entries of the footprint of this execution have been processed.
    pub seen: usize,
}

impl Watches {
    /// Whether no client watches a key.
    pub fn is_empty(&self) -> bool {
        self.watched.is_empty() && self.dirty.is_empty()
    }

    /// Whether a client watches a key.
    pub fn is_watching(&self, slot: Slot) -> bool {
        self.watched.values().any(|watchers| watchers.contains_key(&slot))
    }

    /// Starts to watch a key for a client.
    pub fn watch(&mut self, slot: Slot, keyspace: &mut Keyspace, db: usize, key: &[u8]) {
        let deadline = keyspace.db(db).deadline(key);
        let watchers = self.watched.entry((db, Bytes::copy_from_slice(key))).or_default();
        watchers.entry(slot).or_insert(deadline);
    }

    /// Marks the clients that watch a key which an execution changed.
    pub fn notice(&mut self, keyspace: &mut Keyspace) {
        let seen = std::mem::replace(&mut self.seen, keyspace.footprint().len());
        if self.watched.is_empty() {
            return;
        }
        let mut changed_whole = Vec::new();
        for (resource, access, _) in keyspace.footprint().iter().skip(seen) {
            if access == Access::Read {
                continue;
            }
            match resource {
                Resource::Key { db, key, .. } => {
                    if let Some(watchers) = self.watched.get(&(db, Bytes::copy_from_slice(key))) {
                        self.dirty.extend(watchers.keys());
                    }
                }
                Resource::Database(db) => changed_whole.push(db),
                Resource::Clock
                | Resource::Waiting { .. }
                | Resource::Script(_)
                | Resource::Scripts
                | Resource::Functions
                | Resource::Random
                | Resource::Channel(_)
                | Resource::Subscription(_)
                | Resource::Subscribers(_)
                | Resource::Channels
                | Resource::Connections
                | Resource::Settings => {}
            }
        }
        changed_whole.into_iter().for_each(|db| self.notice_whole(db, keyspace));
    }

    /// All keys of a database may have changed. One that is missing before and after has not: it
    /// does not exist, or its deadline has passed.
    fn notice_whole(&mut self, changed: usize, keyspace: &mut Keyspace) {
        for ((_, key), watchers) in self.watched.iter().filter(|((db, _), _)| *db == changed) {
            let now = keyspace.now();
            let is_there = keyspace.peek(changed, key, now).is_some();
            let changed = watchers.iter().filter(|(_, before)| is_there || before.is_some());
            self.dirty.extend(changed.map(|(slot, _)| slot));
        }
    }

    /// Marks all clients that watch a key, as if every key had changed.
    pub fn notice_all(&mut self) {
        self.dirty.extend(self.watched.values().flat_map(BTreeMap::keys));
    }

    /// Whether a key that a client watches has expired since the watch began.
    ///
    /// It reads the watched keys, because the result of `EXEC` depends on them. The expiry counts
    /// even if no command has noticed it. A key that had expired before the watch does not count.
    pub fn look(&self, slot: Slot, keyspace: &mut Keyspace) -> bool {
        let mut has_expired = false;
        for ((db, key), watchers) in &self.watched {
            let Some(deadline) = watchers.get(&slot).copied() else { continue };
            let mut db = keyspace.db(*db);
            db.contains(key);
            has_expired |= deadline.flatten().is_some_and(|deadline| db.now().millis() > deadline);
        }
        has_expired
    }

    /// Stops all watches of a client, and returns whether a watched key had changed.
    pub fn unwatch(&mut self, slot: Slot) -> bool {
        if !self.watched.is_empty() {
            self.watched.retain(|_, watchers| {
                watchers.remove(&slot);
                !watchers.is_empty()
            });
        }
        self.dirty.remove(&slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_changes_of_an_execution_are_not_noticed() {
        let (mut watches, mut keyspace) = (Watches::default(), Keyspace::new(1));
        for (slot, key) in [(1, "early"), (2, "late")] {
            keyspace.footprint_mut().key(Access::Write, 0, b"early", None);
            watches.notice(&mut keyspace);
            watches.watch(slot, &mut keyspace, 0, key.as_bytes());
        }
        keyspace.footprint_mut().key(Access::Write, 0, b"late", None);
        watches.notice(&mut keyspace);
        assert_eq!([watches.unwatch(1), watches.unwatch(2)], [true, true]);

        watches.watch(1, &mut keyspace, 0, b"late");
        watches.notice(&mut keyspace);
        assert!(!watches.unwatch(1));
    }
}
