//! The local state of an actor's code, as a hash.

use std::hash::{BuildHasher as _, Hash};
use std::time::Duration;

use foldhash::quality::FixedState;

/// A hash of all that an actor's code has received so far, and when. In equal states the code does
/// the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LocalState(u64);

impl LocalState {
    /// The code ran at this time and received this.
    pub(crate) fn observe(&mut self, at: Duration, what: impl Hash) {
        self.0 = FixedState::default().hash_one((self.0, at, what));
    }
}
