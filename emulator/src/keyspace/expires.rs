//! The deadlines in order, for active expiry: an expired key is removed even if no command reads
//! it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{Hash as _, Hasher};

use super::dict::Dict;
use super::table::shrunk;
use super::text::Text;

/// Below this length, the removal of outdated entries is not worth its time.
const COMPACT_LEN_MIN: usize = 64;

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
            *place = if *place == a {
                b
            } else if *place == b {
                a
            } else {
                *place
            };
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
        self.shrink();
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
            self.shrink();
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
        self.shrink();
    }

    fn shrink(&mut self) {
        if let Some(capacity) = shrunk(self.heap.len(), self.heap.capacity()) {
            self.heap.shrink_to(capacity);
        }
    }
}

/// The database and the index of a key that still has this deadline.
fn find(dicts: &[Dict], places: &[usize], (deadline, id, key): (i64, Id, &Text)) -> Option<(usize, usize)> {
    let db = places.get(id).copied().unwrap_or(id);
    let (idx, _, entry) = dicts[db].get_full(key)?;
    (entry.deadline() == Some(deadline)).then_some((db, idx))
}

#[cfg(test)]
mod tests {
    use std::hash::{DefaultHasher, Hasher as _};

    use super::super::{EXPIRED_AT_ONCE_MAX, Expiry, Keyspace, Text};
    use super::Expires;
    use crate::clock::Timestamp;

    const KEYS: usize = 3 * EXPIRED_AT_ONCE_MAX;

    /// Databases with keys that have all expired now. Nothing has removed them yet.
    fn due(is_recording: bool) -> Keyspace {
        let mut keyspace = Keyspace::new(2);
        keyspace.footprint_mut().set_recording(is_recording);
        for nth in 0..KEYS {
            let key = format!("key:{nth}");
            keyspace.db(nth % 2).insert(key.as_bytes(), Text::default().into(), Expiry::At(0));
        }
        keyspace.begin(Timestamp::from_millis(1));
        keyspace
    }

    #[test]
    fn keys_that_end_at_once_are_removed_in_parts_that_nobody_notices() {
        let mut keyspace = due(false);
        keyspace.expire_due();
        assert_eq!(keyspace.db(0).len() + keyspace.db(1).len(), KEYS - EXPIRED_AT_ONCE_MAX);
        assert!(keyspace.next_expiry().is_some_and(|at| at <= keyspace.instant()), "it goes on at once");
        assert_eq!(keyspace.db(0).lookup(format!("key:{}", KEYS - 2).as_bytes()).map(|_| ()), None);
        assert_eq!(keyspace.stats()[0].keys, 0);
        assert_eq!(keyspace.events.counts.expired, KEYS as u64);

        let mut keyspace = due(true);
        keyspace.expire_due();
        assert_eq!(keyspace.db(0).len() + keyspace.db(1).len(), 0, "a footprint has all of them");
    }

    /// Otherwise snapshots that differ in them would count as one.
    #[test]
    fn settings_that_a_later_command_can_notice_are_hashed() {
        let hash = |expires: &Expires| {
            let mut state = DefaultHasher::new();
            expires.hash_settings(&mut state);
            state.finish()
        };
        let plain = Expires::default();
        assert_ne!(hash(&plain), hash(&Expires { is_active: false, ..Expires::default() }));
        let mut swapped = Expires::default();
        swapped.swap(0, 1, 3);
        assert_eq!(swapped.places, [1, 0, 2]);
        assert_ne!(hash(&plain), hash(&swapped));
        swapped.swap(0, 1, 3);
        assert_eq!(hash(&plain), hash(&swapped));
    }

    #[test]
    fn deadlines_stay_with_their_keys_when_databases_are_exchanged() {
        let mut keyspace = Keyspace::new(3);
        keyspace.db(0).insert(b"key", Text::default().into(), Expiry::At(0));
        keyspace.swap(0, 1);
        keyspace.swap(1, 2);
        keyspace.db(0).insert(b"other", Text::default().into(), Expiry::At(5));
        keyspace.begin(Timestamp::from_millis(1));
        keyspace.expire_due();
        let lens = [0, 1, 2].map(|db| keyspace.db(db).len());
        assert_eq!(lens, [1, 0, 0]);
        keyspace.begin(Timestamp::from_millis(6));
        keyspace.expire_due();
        assert_eq!(keyspace.db(0).len(), 0);
    }
}
