//! Client-side caching: who is told when a key that it has read changes.
//! <https://redis.io/docs/latest/develop/reference/client-side-caching/>

use std::collections::BTreeMap;

use bytes::Bytes;
use indexmap::{IndexMap, IndexSet};

use crate::client::Slot;
use crate::keyspace::Hasher;

type Slots = IndexSet<Slot, Hasher>;

/// Who has read what, and who wants to know of what with some prefix. As in Redis, the database plays no part.
#[derive(Debug, Default)]
pub struct Tracker {
    /// Everybody who tracks.
    clients: Slots,
    readers: IndexMap<Bytes, Slots, Hasher>,
    prefixes: IndexMap<Bytes, Slots, Hasher>,
    /// What has changed in this execution, by prefix, and who has changed it first.
    changed: BTreeMap<Bytes, BTreeMap<Bytes, Slot>>,
    /// How much of the footprint of this execution has been looked at.
    pub seen: usize,
}

impl Tracker {
    /// Whether nobody wants to know of anything.
    pub fn is_idle(&self) -> bool {
        self.clients.is_empty()
    }

    /// How many keys have been read, and how many prefixes are wanted.
    pub fn counts(&self) -> (usize, usize) {
        (self.readers.len(), self.prefixes.len())
    }

    /// A client begins to track.
    pub fn enrol(&mut self, slot: Slot) {
        self.clients.insert(slot);
    }

    /// A client has read a key.
    pub fn remember(&mut self, slot: Slot, key: &[u8]) {
        self.readers.entry(Bytes::copy_from_slice(key)).or_default().insert(slot);
    }

    /// A client wants to know of every key with this prefix.
    pub fn want(&mut self, slot: Slot, prefix: &Bytes) {
        self.prefixes.entry(prefix.clone()).or_default().insert(slot);
    }

    /// Who has read a key, and is not told again until it reads it again.
    pub fn take_readers(&mut self, key: &[u8]) -> Slots {
        self.readers.swap_remove(key).unwrap_or_default()
    }

    /// A key has been changed by this client.
    pub fn note(&mut self, key: &Bytes, changer: Slot) {
        for prefix in self.prefixes.keys().filter(|prefix| key.starts_with(prefix)) {
            self.changed.entry(prefix.clone()).or_default().entry(key.clone()).or_insert(changer);
        }
    }

    /// What has been noted.
    pub fn take_changed(&mut self) -> BTreeMap<Bytes, BTreeMap<Bytes, Slot>> {
        std::mem::take(&mut self.changed)
    }

    /// Who wants to know of all keys with this prefix.
    pub fn by_prefix(&self, prefix: &[u8]) -> Vec<Slot> {
        self.prefixes.get(prefix).into_iter().flatten().copied().collect()
    }

    /// Every key is gone: who has read any.
    pub fn take_all(&mut self) -> Slots {
        self.readers.clear();
        self.clients.clone()
    }

    /// A client wants to know of nothing any more.
    pub fn forget(&mut self, slot: Slot) {
        self.clients.shift_remove(&slot);
        for table in [&mut self.readers, &mut self.prefixes] {
            table.retain(|_, slots| {
                slots.shift_remove(&slot);
                !slots.is_empty()
            });
        }
    }
}
