//! The tables of keys and of collections: how they hash, and how they return memory.

/// A hasher with a fixed seed. The iteration order depends only on the operations before.
pub(crate) type Hasher = foldhash::fast::FixedState;

/// The memory of an item of a collection apart from its content, in bytes.
pub(super) const ITEM_BYTES: usize = size_of::<bytes::Bytes>();

/// From this capacity on, a table returns the memory that it does not need.
const SHRINK_CAPACITY_MIN: usize = 4096;
/// Memory is returned if fewer than one in this many places is in use.
const SHRINK_RATIO: usize = 8;

/// The capacity to which a table with this many items shrinks, if most of it is unused.
pub(super) fn shrunk(len: usize, capacity: usize) -> Option<usize> {
    (capacity >= SHRINK_CAPACITY_MIN && len < capacity / SHRINK_RATIO).then_some(2 * len)
}
