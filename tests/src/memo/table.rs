//! One table of answers.

#![expect(clippy::disallowed_types, reason = "nothing iterates over the answers in an order that matters")]

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::FixedState;

/// The answers of machines of one kind, by state and input. A clone remembers by itself from then
/// on.
#[derive(Clone, Debug)]
pub(crate) struct Memo<K, V>(HashMap<K, V, FixedState>);

impl<K, V> Default for Memo<K, V> {
    fn default() -> Memo<K, V> {
        Memo(HashMap::default())
    }
}

impl<K: Eq + Hash, V> Memo<K, V> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key)
    }

    /// Learns an answer, or one that says more than the known one.
    pub(crate) fn learn(&mut self, key: K, answer: V) {
        self.0.insert(key, answer);
    }

    /// The answer. If it is not known, it is found out and learned.
    pub(crate) fn get_or_learn(&mut self, key: K, find_out: impl FnOnce(&K) -> V) -> &V {
        self.0.entry(key).or_insert_with_key(find_out)
    }

    /// Forgets all answers if there are this many.
    pub(crate) fn bound(&mut self, max: usize) {
        if self.0.len() >= max {
            self.0.clear();
        }
    }

    #[cfg(test)]
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.values_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_answers_as_the_bound_are_forgotten() {
        let mut memo = Memo::default();
        memo.learn(1, "one");
        memo.learn(2, "two");
        memo.bound(3);
        assert_eq!((memo.len(), memo.get(&1)), (2, Some(&"one")));
        memo.bound(2);
        assert_eq!((memo.len(), memo.get(&1)), (0, None));
    }
}
