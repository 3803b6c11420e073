//! The keys of one database, with running totals: no command walks all keys to know their number,
//! their memory or their deadlines.

use std::ops::Deref;

use indexmap::IndexMap;

use super::entry::Entry;
use super::table::{Hasher, shrunk};
use super::text::Text;
use crate::clock::Timestamp;

/// Keys with their entries, in the order of insertion. A removal moves the last key into the gap.
#[derive(Debug, Default)]
pub(super) struct Dict {
    entries: IndexMap<Text, Entry, Hasher>,
    totals: Totals,
}

/// Sums over all keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// The approximate memory, in bytes.
    pub(super) bytes: usize,
    /// The keys with a deadline.
    pub(super) expires: usize,
    /// The sum of all deadlines, in milliseconds since the Unix epoch.
    pub(super) deadlines: i128,
}

impl Totals {
    fn add(&mut self, key: &Text, entry: &Entry) {
        self.bytes += entry.memory(key.len());
        if let Some(deadline) = entry.deadline() {
            self.expires += 1;
            self.deadlines += i128::from(deadline);
        }
    }

    fn subtract(&mut self, key: &Text, entry: &Entry) {
        self.bytes -= entry.memory(key.len());
        if let Some(deadline) = entry.deadline() {
            self.expires -= 1;
            self.deadlines -= i128::from(deadline);
        }
    }
}

/// Reading needs no care of the totals.
impl Deref for Dict {
    type Target = IndexMap<Text, Entry, Hasher>;
    fn deref(&self) -> &IndexMap<Text, Entry, Hasher> {
        &self.entries
    }
}

impl Clone for Dict {
    fn clone(&self) -> Dict {
        Dict { entries: self.entries.clone(), totals: self.totals }
    }

    /// Reuses the memory of `self`.
    fn clone_from(&mut self, source: &Dict) {
        self.entries.clone_from(&source.entries);
        self.totals = source.totals;
    }
}

impl Dict {
    /// The sums over all keys.
    pub(super) fn totals(&self) -> Totals {
        self.totals
    }

    /// Adds a key that is not there, and returns its index.
    pub(super) fn insert(&mut self, key: &[u8], entry: Entry) -> usize {
        let key = Text::from(key);
        self.totals.add(&key, &entry);
        self.entries.insert_full(key, entry).0
    }

    /// Removes the key at an index.
    pub(super) fn remove(&mut self, idx: usize) -> Entry {
        let (key, entry) = self.entries.swap_remove_index(idx).expect("the caller has just found it");
        self.totals.subtract(&key, &entry);
        if let Some(capacity) = shrunk(self.entries.len(), self.entries.capacity()) {
            self.entries.shrink_to(capacity);
        }
        entry
    }

    /// Removes all keys.
    pub(super) fn clear(&mut self) {
        self.totals = Totals::default();
        self.entries.clear();
        if let Some(capacity) = shrunk(0, self.entries.capacity()) {
            self.entries.shrink_to(capacity);
        }
    }

    /// Changes the entry at an index.
    pub(super) fn change<R>(&mut self, idx: usize, change: impl FnOnce(&mut Entry) -> R) -> R {
        let outcome = change(self.open(idx).1);
        self.close(idx);
        outcome
    }

    /// The key and the entry at an index. The totals leave the key out until [`Dict::close`].
    pub(super) fn open(&mut self, idx: usize) -> (&Text, &mut Entry) {
        let (key, entry) = self.entries.get_index_mut(idx).expect("the caller has just found it");
        self.totals.subtract(key, entry);
        (key, entry)
    }

    /// Counts the key at an index again.
    pub(super) fn close(&mut self, idx: usize) {
        let (key, entry) = self.entries.get_index(idx).expect("nobody has removed it meanwhile");
        self.totals.add(key, entry);
    }

    /// The key and the entry at an index that is open.
    pub(super) fn opened(&mut self, idx: usize) -> (&Text, &mut Entry) {
        let (key, entry) = self.entries.get_index_mut(idx).expect("nobody has removed it meanwhile");
        (key, entry)
    }

    /// Records that a command reads the value at an index.
    pub(super) fn touch(&mut self, idx: usize, now: Timestamp) {
        self.entries[idx].accessed = now;
    }
}
