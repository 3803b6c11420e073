//! The encoding that Redis 7.0 would use for a value.
//!
//! The emulator does not store values in these encodings. But clients can read the encoding, and a
//! scan returns a compact value at once.
//! <https://redis.io/docs/latest/commands/object-encoding/>

use super::Value;

/// The longest string that Redis keeps next to its object, in bytes.
const EMBSTR_BYTES_MAX: usize = 44;
/// Redis shares the integers from 0 up to, but not including, this one.
const SHARED_INTEGERS: i64 = 10_000;
/// The longest string that can be an integer, in bytes.
const INTEGER_BYTES_MAX: usize = 20;

/// The limits of the compact encodings of collections. If an insertion exceeds a limit, the
/// collection never becomes compact again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// `hash-max-listpack-entries`, `hash-max-listpack-value`
    pub hash: ListPack,
    /// `zset-max-listpack-entries`, `zset-max-listpack-value`
    pub zset: ListPack,
    /// `set-max-intset-entries`
    pub intset_len_max: usize,
}

/// The limits of a listpack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListPack {
    /// The largest number of fields or members.
    pub len_max: usize,
    /// The largest length of an item, in bytes.
    pub item_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        let listpack = |len_max| ListPack { len_max, item_bytes_max: 64 };
        Limits { hash: listpack(512), zset: listpack(128), intset_len_max: 512 }
    }
}

impl ListPack {
    /// Whether an item is short enough for the listpack.
    pub(super) fn takes(self, item: &[u8]) -> bool {
        item.len() <= self.item_bytes_max
    }
}

/// The encoding of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    Int,
    EmbStr,
    Raw,
    QuickList,
    IntSet,
    ListPack,
    HashTable,
    SkipList,
}

impl Encoding {
    /// The encoding of a value that was just created.
    pub fn of(value: &Value) -> Encoding {
        match value {
            Value::String(text) if is_integer(text) => Encoding::Int,
            Value::String(text) => Encoding::of_text(text),
            Value::List(_) => Encoding::QuickList,
            Value::Set(set) => set.encoding(),
            Value::Hash(hash) => hash.encoding(),
            Value::ZSet(zset) => zset.encoding(),
        }
    }

    /// Whether a value is one of the integers that every Redis server creates when it starts.
    pub(super) fn is_shared(value: &Value) -> bool {
        let Value::String(digits) = value else { return false };
        crate::parse::parse_integer(digits).is_some_and(|integer| (0..SHARED_INTEGERS).contains(&integer))
    }

    /// The encoding of a string that Redis does not parse as a number.
    pub fn of_text(text: &[u8]) -> Encoding {
        if text.len() <= EMBSTR_BYTES_MAX { Encoding::EmbStr } else { Encoding::Raw }
    }

    /// The encoding that no longer follows from the value after an edit: a string stays raw.
    /// Collections store their own encoding.
    pub(super) fn after_edit(value: &Value) -> Option<Encoding> {
        matches!(value, Value::String(_)).then_some(Encoding::Raw)
    }

    /// Whether a collection is one block of memory. A scan returns such a collection at once.
    pub fn is_compact(self) -> bool {
        matches!(self, Encoding::IntSet | Encoding::ListPack)
    }

    /// The word that `OBJECT ENCODING` replies.
    pub fn word(self) -> &'static str {
        match self {
            Encoding::Int => "int",
            Encoding::EmbStr => "embstr",
            Encoding::Raw => "raw",
            Encoding::QuickList => "quicklist",
            Encoding::IntSet => "intset",
            Encoding::ListPack => "listpack",
            Encoding::HashTable => "hashtable",
            Encoding::SkipList => "skiplist",
        }
    }
}

fn is_integer(text: &[u8]) -> bool {
    text.len() <= INTEGER_BYTES_MAX && crate::parse::parse_integer(text).is_some()
}
