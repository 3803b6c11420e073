//! The deadlines in order, for active expiry: an expired key is removed even if no command reads
//! it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Dict, Text};

/// Below this length, the removal of outdated entries is not worth its time.
const COMPACT_LEN_MIN: usize = 64;
/// How much memory is kept when all entries are removed, in entries.
const KEPT_LEN_MAX: usize = 4096;

/// The deadlines of keys. If a deadline has changed, its key has several entries, and only the
/// dictionary has the valid one.
#[derive(Clone, Debug)]
pub(super) struct Expires {
    heap: BinaryHeap<Reverse<(i64, usize, Text)>>,
    compact_at: usize,
    /// Whether active expiry is on. `DEBUG SET-ACTIVE-EXPIRE 0` switches it off.
    pub(super) is_active: bool,
}

impl Default for Expires {
    fn default() -> Expires {
        Expires { heap: BinaryHeap::new(), compact_at: COMPACT_LEN_MIN, is_active: true }
    }
}

impl Expires {
    pub(super) fn push(&mut self, db: usize, key: &Text, deadline: i64) {
        self.heap.push(Reverse((deadline, db, key.clone())));
    }

    pub(super) fn clear(&mut self) {
        self.heap.clear();
        self.heap.shrink_to(KEPT_LEN_MAX);
    }

    /// The first deadline, which may be outdated.
    pub(super) fn first(&self) -> Option<i64> {
        self.heap.peek().map(|Reverse((deadline, ..))| *deadline).filter(|_| self.is_active)
    }

    /// Removes and returns a key whose deadline is valid and before `now`: its database, its index
    /// there, and its name.
    pub(super) fn pop_due(&mut self, now: i64, dicts: &[Dict]) -> Option<(usize, usize, Text)> {
        while self.first().is_some_and(|deadline| deadline < now) {
            let Reverse((deadline, db, key)) = self.heap.pop()?;
            if let Some(idx) = find(dicts, deadline, db, &key) {
                return Some((db, idx, key));
            }
        }
        None
    }

    /// Removes outdated entries, once the heap has reached twice its last compacted length.
    pub(super) fn compact(&mut self, dicts: &[Dict]) {
        if self.heap.len() < self.compact_at {
            return;
        }
        self.heap.retain(|Reverse((deadline, db, key))| find(dicts, *deadline, *db, key).is_some());
        self.compact_at = (2 * self.heap.len()).max(COMPACT_LEN_MIN);
        self.heap.shrink_to(self.compact_at.max(KEPT_LEN_MAX));
    }

    /// Builds the heap again from the dictionaries.
    pub(super) fn rebuild(&mut self, dicts: &[Dict]) {
        self.heap.clear();
        for (db, dict) in dicts.iter().enumerate() {
            for (key, entry) in &**dict {
                self.heap.extend(entry.deadline().map(|deadline| Reverse((deadline, db, key.clone()))));
            }
        }
    }
}

/// The index of a key that still has this deadline.
fn find(dicts: &[Dict], deadline: i64, db: usize, key: &Text) -> Option<usize> {
    let (idx, _, entry) = dicts[db].get_full(key)?;
    (entry.deadline() == Some(deadline)).then_some(idx)
}
