//! The entry of a database at a key: a value, its deadline, and its encoding.

use super::encoding::Encoding;
use super::text::Text;
use super::value::Value;
use crate::clock::Timestamp;

#[derive(Clone, Debug, Hash)]
pub(super) struct Entry {
    pub(super) value: Value,
    /// The deadline in milliseconds since the Unix epoch, or [`NEVER`].
    pub(super) until: i64,
    /// The encoding, if it does not follow from the value: Redis never returns to a more compact
    /// one.
    pub(super) encoding: Option<Encoding>,
    /// When a command last read the value.
    pub(super) accessed: Timestamp,
}

impl Entry {
    pub(super) fn new(value: Value, deadline: Option<i64>, now: Timestamp) -> Entry {
        Entry { value, until: deadline.unwrap_or(NEVER), encoding: None, accessed: now }
    }

    pub(super) fn deadline(&self) -> Option<i64> {
        (self.until != NEVER).then_some(self.until)
    }

    pub(super) fn encoding(&self) -> Encoding {
        self.encoding.unwrap_or_else(|| Encoding::of(&self.value))
    }

    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        self.until != NEVER && now.millis() > self.until
    }

    /// About how many bytes a key with a name of this length takes. It is known without a walk
    /// through the value.
    pub(super) fn memory(&self, name_bytes: usize) -> usize {
        let value = match &self.value {
            Value::String(text) => text.len(),
            Value::List(list) => list.memory(),
            Value::Set(set) => set.memory(),
            Value::Hash(hash) => hash.memory(),
            Value::ZSet(zset) => zset.memory(),
        };
        KEY_BYTES + name_bytes + value
    }
}

/// A value with its deadline and encoding, on its way to another key.
#[derive(Clone, Debug)]
pub struct Content(pub(super) Entry);

impl Content {
    /// The same with a deadline so many milliseconds later, if it has one.
    pub fn later(self, by_ms: i64) -> Content {
        let Content(mut entry) = self;
        entry.until = entry.deadline().map_or(NEVER, |deadline| deadline.saturating_add(by_ms));
        Content(entry)
    }
}

/// Marks a key without a deadline. It cannot be a deadline, because it would have removed the key
/// at once.
pub(super) const NEVER: i64 = i64::MIN;

/// The memory of a key apart from its name and its value, in bytes.
pub(super) const KEY_BYTES: usize = size_of::<Entry>() + size_of::<Text>();
