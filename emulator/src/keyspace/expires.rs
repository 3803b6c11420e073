//! The deadlines in order, for active expiry: an expired key is removed even if no command reads
//! it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{Hash as _, Hasher};

use super::{Dict, Text};

/// Below this length, the removal of outdated entries is not worth its time.
const COMPACT_LEN_MIN: usize = 64;
/// How much memory is kept when all entries are removed, in entries.
const KEPT_LEN_MAX: usize = 4096;

/// The index that a database had at the start. `SWAPDB` moves a database, but not its id.
type Id = usize;

/// The deadlines of keys. If a deadline has changed, its key has several entries, and only the
/// dictionary has the valid one.
#[derive(Clone, Debug)]
pub(super) struct Expires {
    heap: BinaryHeap<Reverse<(i64, Id, Text)>>,
    compact_at: usize,
    /// The databases by their ids, so that no entry changes when two are exchanged. It is empty
    /// while each database is in its own place.
    places: Vec<usize>,
    /// Whether active expiry is on. `DEBUG SET-ACTIVE-EXPIRE 0` switches it off.
    pub(super) is_active: bool,
}

impl Default for Expires {
    fn default() -> Expires {
        Expires { heap: BinaryHeap::new(), compact_at: COMPACT_LEN_MIN, places: Vec::new(), is_active: true }
    }
}

impl Expires {
    pub(super) fn push(&mut self, db: usize, key: &Text, deadline: i64) {
        let id = self.places.iter().position(|place| *place == db).unwrap_or(db);
        self.heap.push(Reverse((deadline, id, key.clone())));
    }

    /// Exchanges two of so many databases.
    pub(super) fn swap(&mut self, a: usize, b: usize, databases: usize) {
        if self.places.is_empty() {
            self.places = (0..databases).collect();
        }
        for place in &mut self.places {
            *place = if *place == a { b } else if *place == b { a } else { *place };
        }
        if self.places.is_sorted() {
            self.places.clear();
        }
    }

    /// Hashes what a later command can notice, apart from the deadlines.
    pub(super) fn hash_settings<H: Hasher>(&self, state: &mut H) {
        (self.is_active, &self.places).hash(state);
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
            let Reverse((deadline, id, key)) = self.heap.pop()?;
            if let Some((db, idx)) = find(dicts, &self.places, (deadline, id, &key)) {
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
        let places = &self.places;
        self.heap.retain(|Reverse((deadline, id, key))| find(dicts, places, (*deadline, *id, key)).is_some());
        self.compact_at = (2 * self.heap.len()).max(COMPACT_LEN_MIN);
        self.heap.shrink_to(self.compact_at.max(KEPT_LEN_MAX));
    }
}

/// The database and the index of a key that still has this deadline.
fn find(dicts: &[Dict], places: &[usize], (deadline, id, key): (i64, Id, &Text)) -> Option<(usize, usize)> {
    let db = places.get(id).copied().unwrap_or(id);
    let (idx, _, entry) = dicts[db].get_full(key)?;
    (entry.deadline() == Some(deadline)).then_some((db, idx))
}
