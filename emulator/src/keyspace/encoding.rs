//! The encoding that Redis 7.0 would use for a value.
//!
//! The emulator does not store values in these encodings. But clients can read the encoding, and a
//! scan returns a compact value at once.
//! <https://redis.io/docs/latest/commands/object-encoding/>

/// The longest string that Redis keeps next to its object, in bytes.
const EMBSTR_BYTES_MAX: usize = 44;

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
    /// The encoding of a string that Redis does not parse as a number.
    pub fn of_text(text: &[u8]) -> Encoding {
        if text.len() <= EMBSTR_BYTES_MAX { Encoding::EmbStr } else { Encoding::Raw }
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
