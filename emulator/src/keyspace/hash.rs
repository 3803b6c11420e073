//! Hashes. While its fields are few and short, a hash keeps them in the order of their first
//! insertion, as Redis's listpacks do.

use indexmap::IndexMap;

use super::encoding::{Encoding, Limits, ListPack};
use super::table::{Hasher, ITEM_BYTES, shrunk};
use super::text::Text;

/// Fields with values. If a hash has outgrown a listpack, a removal moves the last field into the
/// gap.
#[derive(Clone, Debug)]
pub struct Hash {
    fields: IndexMap<Text, Text, Hasher>,
    encoding: Encoding,
    limits: ListPack,
    /// The bytes of all fields and values.
    content_bytes: usize,
}

impl Default for Hash {
    fn default() -> Hash {
        let limits = Limits::default().hash;
        Hash { fields: IndexMap::default(), encoding: Encoding::ListPack, limits, content_bytes: 0 }
    }
}

/// Hashes are equal for this if their fields come in the same order.
impl std::hash::Hash for Hash {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.iter().for_each(|field| field.hash(state));
        (self.len(), self.encoding, self.limits).hash(state);
    }
}

impl Hash {
    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The encoding that Redis would use.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// About how many bytes the fields and values take.
    pub(super) fn memory(&self) -> usize {
        2 * self.len() * ITEM_BYTES + self.content_bytes
    }

    /// Sets the limits that apply from now on.
    pub(super) fn limit(&mut self, limits: &Limits) {
        self.limits = limits.hash;
    }

    /// Whether the hash contains a field.
    pub fn contains(&self, field: &[u8]) -> bool {
        self.fields.contains_key(field)
    }

    /// The value of a field.
    pub fn get(&self, field: &[u8]) -> Option<&Text> {
        self.fields.get(field)
    }

    /// The field at an index below the length, with its value.
    pub fn at(&self, place: usize) -> Option<(&Text, &Text)> {
        self.fields.get_index(place)
    }

    /// The fields in their order, with their values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Text, &Text)> {
        self.fields.iter()
    }

    /// Sets a field, and returns whether it is new.
    pub fn insert(&mut self, field: &[u8], value: &[u8]) -> bool {
        let before = self.fields.len();
        let is_short = self.limits.takes(field) && self.limits.takes(value);
        self.content_bytes += value.len();
        match self.fields.get_mut(field) {
            Some(old) => {
                self.content_bytes -= old.len();
                *old = value.into();
            }
            None => {
                self.content_bytes += field.len();
                self.fields.insert(field.into(), value.into());
            }
        }
        if !is_short || self.fields.len() > self.limits.len_max {
            self.encoding = Encoding::HashTable;
        }
        self.fields.len() > before
    }

    /// Removes a field, and returns whether it existed.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        let removed = match self.encoding {
            Encoding::ListPack => self.fields.shift_remove(field),
            _ => self.fields.swap_remove(field),
        };
        if let Some(capacity) = shrunk(self.fields.len(), self.fields.capacity()) {
            self.fields.shrink_to(capacity);
        }
        self.content_bytes -= removed.as_ref().map_or(0, |value| field.len() + value.len());
        removed.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_never_becomes_a_listpack_again() {
        let mut hash = Hash::default();
        assert!((0..512).all(|n| hash.insert(n.to_string().as_bytes(), b"")));
        assert_eq!(hash.encoding(), Encoding::ListPack);
        assert!(hash.insert(b"512", b"") && !hash.insert(b"512", b"again"));
        assert_eq!(hash.encoding(), Encoding::HashTable);
        assert!(hash.remove(b"512") && !hash.remove(b"512"));
        assert_eq!((hash.encoding(), hash.len()), (Encoding::HashTable, 512));

        for (field, value, encoding) in
            [(64, 64, Encoding::ListPack), (65, 0, Encoding::HashTable), (0, 65, Encoding::HashTable)]
        {
            let mut hash = Hash::default();
            hash.insert(&vec![b'f'; field], &vec![b'v'; value]);
            assert_eq!(hash.encoding(), encoding);
        }
    }
}
