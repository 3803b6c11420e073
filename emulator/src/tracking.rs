//! Client-side caching: which clients get a message when a key changes that they have read.
//! <https://redis.io/docs/latest/develop/reference/client-side-caching/>

use std::collections::BTreeMap;

use bytes::Bytes;
use indexmap::{IndexMap, IndexSet};

use crate::client::Slot;
use crate::keyspace::Hasher;

type Slots = IndexSet<Slot, Hasher>;

/// The keys that clients have read, and the prefixes that they track. As in Redis, the database
/// does not matter.
#[derive(Debug, Default)]
pub struct Tracker {
    /// All clients with tracking.
    clients: Slots,
    readers: IndexMap<Bytes, Slots, Hasher>,
    prefixes: IndexMap<Bytes, Slots, Hasher>,
    /// The keys changed in this execution, by prefix, each with the client that changed it first.
    changed: BTreeMap<Bytes, BTreeMap<Bytes, Slot>>,
    /// How many entries of this execution's footprint have been processed.
    pub seen: usize,
}

impl Tracker {
    /// Whether no client tracks anything.
    pub fn is_idle(&self) -> bool {
        self.clients.is_empty()
    }

    /// The number of tracked keys and the number of tracked prefixes.
    pub fn counts(&self) -> (usize, usize) {
        (self.readers.len(), self.prefixes.len())
    }

    /// Notes that a client begins to track.
    pub fn enrol(&mut self, slot: Slot) {
        self.clients.insert(slot);
    }

    /// Notes that a client has read a key.
    pub fn remember(&mut self, slot: Slot, key: &[u8]) {
        self.readers.entry(Bytes::copy_from_slice(key)).or_default().insert(slot);
    }

    /// Notes that a client tracks every key with this prefix.
    pub fn want(&mut self, slot: Slot, prefix: &Bytes) {
        self.prefixes.entry(prefix.clone()).or_default().insert(slot);
    }

    /// Returns the keys that a client has read, for whose next changes it gets messages.
    pub fn read_by(&self, slot: Slot) -> impl Iterator<Item = &Bytes> {
        self.readers.iter().filter(move |(_, slots)| slots.contains(&slot)).map(|(key, _)| key)
    }

    /// Whether a client tracks all keys with some prefix.
    pub fn has_prefixes(&self, slot: Slot) -> bool {
        self.prefixes.values().any(|slots| slots.contains(&slot))
    }

    /// Takes the clients that have read a key. They get no further message for it until they read
    /// it again.
    pub fn take_readers(&mut self, key: &[u8]) -> Slots {
        self.readers.swap_remove(key).unwrap_or_default()
    }

    /// Notes that this client has changed a key.
    pub fn note(&mut self, key: &Bytes, changer: Slot) {
        for prefix in self.prefixes.keys().filter(|prefix| key.starts_with(prefix)) {
            self.changed.entry(prefix.clone()).or_default().entry(key.clone()).or_insert(changer);
        }
    }

    /// Whether changes are noted.
    pub fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Takes the noted changes of the next prefix.
    pub fn pop_changed(&mut self) -> Option<(Bytes, BTreeMap<Bytes, Slot>)> {
        self.changed.pop_first()
    }

    /// Returns the clients that track all keys with this prefix.
    pub fn by_prefix(&self, prefix: &[u8]) -> Vec<Slot> {
        self.prefixes.get(prefix).into_iter().flatten().copied().collect()
    }

    /// Returns all clients with tracking, because every key is gone, and removes their read keys.
    pub fn take_all(&mut self) -> Slots {
        self.readers.clear();
        self.clients.clone()
    }

    /// Ends the tracking of a client.
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
