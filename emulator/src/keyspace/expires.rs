//! Deadlines in their order, for active expiry: a key that nobody looks at goes away all the same.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Dict, Text};

/// Below this, nothing is gained by throwing out what is out of date.
const COMPACT_LEN_MIN: usize = 64;

/// When which key is to go. A key whose deadline has changed is in it more than once; only the dictionary knows which holds.
#[derive(Clone, Debug)]
pub(super) struct Expires {
    heap: BinaryHeap<Reverse<(i64, usize, Text)>>,
    compact_at: usize,
    /// Switched off by `DEBUG SET-ACTIVE-EXPIRE 0`.
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
    }

    /// The first deadline, which may be out of date.
    pub(super) fn first(&self) -> Option<i64> {
        self.heap.peek().map(|Reverse((deadline, ..))| *deadline).filter(|_| self.is_active)
    }

    /// Takes out a key whose deadline is before `now` and still holds.
    pub(super) fn pop_due(&mut self, now: i64, dicts: &[Dict]) -> Option<(usize, Text)> {
        while self.first().is_some_and(|deadline| deadline < now) {
            let Reverse((deadline, db, key)) = self.heap.pop()?;
            if holds(dicts, deadline, db, &key) {
                return Some((db, key));
            }
        }
        None
    }

    /// Now and then throws out what is out of date: at most as much is kept again as holds.
    pub(super) fn compact(&mut self, dicts: &[Dict]) {
        if self.heap.len() < self.compact_at {
            return;
        }
        self.heap.retain(|Reverse((deadline, db, key))| holds(dicts, *deadline, *db, key));
        self.compact_at = (2 * self.heap.len()).max(COMPACT_LEN_MIN);
    }

    /// Starts anew from what the dictionaries hold.
    pub(super) fn rebuild(&mut self, dicts: &[Dict]) {
        self.heap.clear();
        for (db, dict) in dicts.iter().enumerate() {
            for (key, entry) in dict {
                self.heap.extend(entry.deadline().map(|deadline| Reverse((deadline, db, key.clone()))));
            }
        }
    }
}

fn holds(dicts: &[Dict], deadline: i64, db: usize, key: &Text) -> bool {
    dicts[db].get(key).is_some_and(|entry| entry.deadline() == Some(deadline))
}
