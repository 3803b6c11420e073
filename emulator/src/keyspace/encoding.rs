//! In which form Redis 7.0 would keep a value. Nothing here is kept that way; but clients can ask, and a compact value is scanned
//! in one go. <https://redis.io/docs/latest/commands/object-encoding/>

use super::Value;

/// Longest string that is kept next to its object.
const EMBSTR_BYTES_MAX: usize = 44;
/// Integers below this are shared.
const SHARED_INTEGERS: i64 = 10_000;
/// Longest string that can be an integer.
const INTEGER_BYTES_MAX: usize = 20;

/// Up to where collections are kept in their compact forms. One that has outgrown these when something was put into it stays so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `hash-max-listpack-entries`, `hash-max-listpack-value`
    pub hash: ListPack,
    /// `zset-max-listpack-entries`, `zset-max-listpack-value`
    pub zset: ListPack,
    /// `set-max-intset-entries`
    pub intset_len_max: usize,
}

/// What a listpack holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListPack {
    /// Most fields or members.
    pub len_max: usize,
    /// Longest item, in bytes.
    pub item_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        let listpack = |len_max| ListPack { len_max, item_bytes_max: 64 };
        Limits { hash: listpack(512), zset: listpack(128), intset_len_max: 512 }
    }
}

impl ListPack {
    /// Whether this may be in it.
    pub(super) fn takes(self, item: &[u8]) -> bool {
        item.len() <= self.item_bytes_max
    }
}

/// The form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// That of a value which has just been made.
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

    /// Whether a value is one of the integers that every Redis makes when it starts.
    pub(super) fn is_shared(value: &Value) -> bool {
        let Value::String(digits) = value else { return false };
        crate::parse_integer(digits).is_some_and(|integer| (0..SHARED_INTEGERS).contains(&integer))
    }

    /// That of a string which Redis does not look at for a number.
    pub fn of_text(text: &[u8]) -> Encoding {
        if text.len() <= EMBSTR_BYTES_MAX { Encoding::EmbStr } else { Encoding::Raw }
    }

    /// What does not follow from the value any more, once it has been changed: a string stays raw. Collections remember by
    /// themselves what they have outgrown.
    pub(super) fn after_edit(value: &Value) -> Option<Encoding> {
        matches!(value, Value::String(_)).then_some(Encoding::Raw)
    }

    /// Whether a collection is one block of memory, which is scanned in one go.
    pub fn is_compact(self) -> bool {
        matches!(self, Encoding::IntSet | Encoding::ListPack)
    }

    /// The word that `OBJECT ENCODING` answers.
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
    text.len() <= INTEGER_BYTES_MAX && crate::parse_integer(text).is_some()
}
