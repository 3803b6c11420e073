//! Sets: a few integers are kept in ascending order, all other members in a hash table.

use bytes::Bytes;
use indexmap::IndexSet;

use super::{Encoding, Hasher, Limits};

/// A set.
///
/// If its members are few and all integers, they are in ascending order. Otherwise the order has no
/// meaning, but it is deterministic.
#[derive(Clone, Debug)]
pub struct Set {
    members: Members,
    /// The largest number of integers that are kept in order.
    integers_max: usize,
}

#[derive(Clone, Debug)]
enum Members {
    /// In ascending order. After a set has become hashed, it never returns to this form.
    Integers(Vec<i64>),
    Hashed(IndexSet<Bytes, Hasher>),
}

/// Sets are equal for this if their members come in the same order.
impl std::hash::Hash for Set {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        match &self.members {
            Members::Integers(integers) => integers.hash(state),
            Members::Hashed(members) => members.iter().for_each(|member| member.hash(state)),
        }
        (self.len(), self.encoding(), self.integers_max).hash(state);
    }
}

impl Set {
    /// A set of these members.
    pub fn of<T: AsRef<[u8]>>(members: impl IntoIterator<Item = T>, limits: &Limits) -> Set {
        let mut set = Set::default();
        set.limit(limits);
        for member in members {
            set.insert(member.as_ref());
        }
        set
    }

    /// Sets the limits that apply from now on.
    pub(super) fn limit(&mut self, limits: &Limits) {
        self.integers_max = limits.intset_len_max;
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        match &self.members {
            Members::Integers(integers) => integers.len(),
            Members::Hashed(members) => members.len(),
        }
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The encoding that Redis would use.
    pub fn encoding(&self) -> Encoding {
        match &self.members {
            Members::Integers(_) => Encoding::IntSet,
            Members::Hashed(_) => Encoding::HashTable,
        }
    }

    /// Whether the set contains a member.
    pub fn contains(&self, member: &[u8]) -> bool {
        match &self.members {
            Members::Integers(integers) => position(integers, member).is_some_and(|found| found.is_ok()),
            Members::Hashed(members) => members.contains(member),
        }
    }

    /// The member at an index below the length.
    pub fn get(&self, idx: usize) -> Bytes {
        match &self.members {
            Members::Integers(integers) => digits(integers[idx]),
            Members::Hashed(members) => members[idx].clone(),
        }
    }

    /// The members in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Bytes> + '_ {
        (0..self.len()).map(|idx| self.get(idx))
    }

    /// Adds a member, and returns whether it is new.
    pub fn insert(&mut self, member: &[u8]) -> bool {
        if let Members::Integers(integers) = &mut self.members {
            match position(integers, member) {
                Some(Ok(_)) => return false,
                Some(Err((idx, integer))) if integers.len() < self.integers_max => {
                    integers.insert(idx, integer);
                    return true;
                }
                Some(Err(_)) | None => {}
            }
        }
        self.hashed().insert(Bytes::copy_from_slice(member))
    }

    /// Removes a member, and returns whether it existed.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.members {
            Members::Integers(integers) => {
                let found = position(integers, member).and_then(Result::ok);
                found.map(|idx| integers.remove(idx)).is_some()
            }
            Members::Hashed(members) => members.swap_remove(member),
        }
    }

    /// Removes the member at an index below the length, and returns it.
    pub fn remove_at(&mut self, idx: usize) -> Bytes {
        match &mut self.members {
            Members::Integers(integers) => digits(integers.remove(idx)),
            Members::Hashed(members) => members.swap_remove_index(idx).expect("the caller knows the length"),
        }
    }

    /// Converts the members to a hash table if they are not in one, and returns it.
    fn hashed(&mut self) -> &mut IndexSet<Bytes, Hasher> {
        if let Members::Integers(integers) = &self.members {
            self.members = Members::Hashed(integers.iter().copied().map(digits).collect());
        }
        match &mut self.members {
            Members::Hashed(members) => members,
            Members::Integers(_) => unreachable!("they have just become hashed"),
        }
    }
}

impl Default for Set {
    fn default() -> Set {
        Set { members: Members::Integers(Vec::new()), integers_max: Limits::default().intset_len_max }
    }
}

/// The index of an integer, or the index for its insertion with its value. `None` if `member` is
/// not an integer.
fn position(integers: &[i64], member: &[u8]) -> Option<Result<usize, (usize, i64)>> {
    let integer = crate::parse::parse_integer(member)?;
    Some(integers.binary_search(&integer).map_err(|idx| (idx, integer)))
}

fn digits(integer: i64) -> Bytes {
    Bytes::from(integer.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_integers_are_in_order_and_what_outgrew_that_stays_hashed() {
        let limits = Limits::default();
        let mut set = Set::of(["10", "9", "-1", "9"], &limits);
        assert_eq!(set.iter().collect::<Vec<_>>(), ["-1", "9", "10"]);

        assert!(set.insert(b"01"), "which is text");
        assert_eq!((set.encoding(), set.len()), (Encoding::HashTable, 4));
        assert!(set.remove(b"01") && !set.remove(b"01"));
        assert_eq!((set.encoding(), set.len()), (Encoding::HashTable, 3));
        assert!(set.contains(b"-1") && !set.contains(b"1"));

        let mut set = Set::of((0..512).map(|integer| integer.to_string()), &limits);
        assert!(!set.insert(b"511"));
        assert_eq!(set.encoding(), Encoding::IntSet);
        assert!(set.insert(b"512"));
        assert_eq!((set.encoding(), set.len()), (Encoding::HashTable, 513));
    }
}
