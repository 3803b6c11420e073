//! Sets: a few integers are kept in ascending order, all other members in a hash table.

use bytes::Bytes;
use indexmap::IndexSet;

use super::encoding::{Encoding, Limits};
use super::table::{Hasher, ITEM_BYTES, shrunk};
use super::text::Text;

/// A set.
///
/// If its members are few and all integers, they are in ascending order. Otherwise the order has no
/// meaning, but it is deterministic.
#[derive(Clone, Debug)]
pub struct Set {
    members: Members,
    /// The largest number of integers that are kept in order.
    integers_max: usize,
    /// The bytes of all members in a hash table.
    content_bytes: usize,
}

#[derive(Clone, Debug)]
enum Members {
    /// In ascending order. After a set has become hashed, it never returns to this form.
    Integers(Vec<i64>),
    Hashed(IndexSet<Text, Hasher>),
}

/// A member as a set stores it, so that another set finds it without a copy.
#[derive(Clone, Copy)]
pub enum Member<'a> {
    /// One of a few integers.
    Integer(i64),
    /// A member in a hash table.
    Text(&'a Text),
}

impl Member<'_> {
    /// The member as the text that clients send.
    pub fn to_text(self) -> Text {
        match self {
            Member::Integer(integer) => digits(integer),
            Member::Text(text) => text.clone(),
        }
    }

    /// The member as a part of a reply.
    pub fn to_bytes(self) -> Bytes {
        match self {
            Member::Integer(integer) => Bytes::from(integer.to_string()),
            Member::Text(text) => text.to_bytes(),
        }
    }
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
    pub fn from_members<'a>(members: impl IntoIterator<Item = Member<'a>>, limits: &Limits) -> Set {
        let mut set = Set::default();
        set.limit(limits);
        for member in members {
            set.insert_text(member.to_text());
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

    /// About how many bytes the members take.
    pub(super) fn memory(&self) -> usize {
        match &self.members {
            Members::Integers(integers) => size_of_val(&integers[..]),
            Members::Hashed(members) => members.len() * ITEM_BYTES + self.content_bytes,
        }
    }

    /// Whether the set contains a member.
    pub fn contains(&self, member: &[u8]) -> bool {
        match &self.members {
            Members::Integers(integers) => position(integers, member).is_some_and(|found| found.is_ok()),
            Members::Hashed(members) => members.contains(member),
        }
    }

    /// Whether the set contains a member of another set.
    pub fn contains_member(&self, member: Member<'_>) -> bool {
        match (member, &self.members) {
            (Member::Integer(integer), Members::Integers(integers)) => {
                integers.binary_search(&integer).is_ok()
            }
            (Member::Integer(integer), Members::Hashed(members)) => members.contains(&*digits(integer)),
            (Member::Text(text), _) => self.contains(text),
        }
    }

    /// The member at an index below the length.
    pub fn get(&self, idx: usize) -> Member<'_> {
        match &self.members {
            Members::Integers(integers) => Member::Integer(integers[idx]),
            Members::Hashed(members) => Member::Text(&members[idx]),
        }
    }

    /// The members in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Member<'_>> {
        (0..self.len()).map(|idx| self.get(idx))
    }

    /// Adds a member, and returns whether it is new.
    pub fn insert(&mut self, member: &[u8]) -> bool {
        self.insert_text(member.into())
    }

    /// Adds a member that is ready to be stored, and returns whether it is new.
    fn insert_text(&mut self, member: Text) -> bool {
        if let Members::Integers(integers) = &mut self.members {
            match position(integers, &member) {
                Some(Ok(_)) => return false,
                Some(Err((idx, integer))) if integers.len() < self.integers_max => {
                    integers.insert(idx, integer);
                    return true;
                }
                Some(Err(_)) | None => {}
            }
        }
        let bytes = member.len();
        let is_new = self.hashed().insert(member);
        self.content_bytes += if is_new { bytes } else { 0 };
        is_new
    }

    /// Removes a member, and returns whether it existed.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.members {
            Members::Integers(integers) => {
                let found = position(integers, member).and_then(Result::ok);
                found.map(|idx| integers.remove(idx)).is_some()
            }
            Members::Hashed(members) => {
                let was_there = members.swap_remove(member);
                self.content_bytes -= if was_there { member.len() } else { 0 };
                shrink(members);
                was_there
            }
        }
    }

    /// Removes the member at an index below the length, and returns it.
    pub fn remove_at(&mut self, idx: usize) -> Bytes {
        match &mut self.members {
            Members::Integers(integers) => Member::Integer(integers.remove(idx)).to_bytes(),
            Members::Hashed(members) => {
                let member = members.swap_remove_index(idx).expect("the caller knows the length");
                self.content_bytes -= member.len();
                shrink(members);
                member.into()
            }
        }
    }

    /// Converts the members to a hash table if they are not in one, and returns it.
    fn hashed(&mut self) -> &mut IndexSet<Text, Hasher> {
        if let Members::Integers(integers) = &self.members {
            let members: IndexSet<Text, Hasher> = integers.iter().copied().map(digits).collect();
            self.content_bytes = members.iter().map(|member| member.len()).sum();
            self.members = Members::Hashed(members);
        }
        match &mut self.members {
            Members::Hashed(members) => members,
            Members::Integers(_) => unreachable!("they have just become hashed"),
        }
    }
}

impl Default for Set {
    fn default() -> Set {
        let integers_max = Limits::default().intset_len_max;
        Set { members: Members::Integers(Vec::new()), integers_max, content_bytes: 0 }
    }
}

fn shrink(members: &mut IndexSet<Text, Hasher>) {
    if let Some(capacity) = shrunk(members.len(), members.capacity()) {
        members.shrink_to(capacity);
    }
}

/// The index of an integer, or the index for its insertion with its value. `None` if `member` is
/// not an integer.
fn position(integers: &[i64], member: &[u8]) -> Option<Result<usize, (usize, i64)>> {
    let integer = crate::parse::parse_integer(member)?;
    Some(integers.binary_search(&integer).map_err(|idx| (idx, integer)))
}

fn digits(integer: i64) -> Text {
    Text::from(integer.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_integers_are_in_order_and_what_outgrew_that_stays_hashed() {
        let limits = Limits::default();
        let mut set = Set::from_members([10, 9, -1, 9].map(Member::Integer), &limits);
        assert_eq!(set.iter().map(Member::to_bytes).collect::<Vec<_>>(), ["-1", "9", "10"]);

        assert!(set.insert(b"01"), "which is text");
        assert_eq!((set.encoding(), set.len()), (Encoding::HashTable, 4));
        assert!(set.remove(b"01") && !set.remove(b"01"));
        assert_eq!((set.encoding(), set.len()), (Encoding::HashTable, 3));
        assert!(set.contains(b"-1") && !set.contains(b"1"));

        let mut set = Set::from_members((0..512).map(Member::Integer), &limits);
        assert!(!set.insert(b"511"));
        assert_eq!(set.encoding(), Encoding::IntSet);
        assert!(set.insert(b"512"));
        assert_eq!((set.encoding(), set.len()), (Encoding::HashTable, 513));
    }
}
