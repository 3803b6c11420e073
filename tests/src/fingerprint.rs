//! Hashes that are equal in all processes.

use std::hash::{BuildHasher as _, Hash};

use foldhash::quality::FixedState;

/// A hash of 64 bits that depends on nothing but the value.
pub(crate) fn fingerprint(value: impl Hash) -> u64 {
    FixedState::default().hash_one(value)
}
