//! The local state of an actor's code, as a hash.

use crate::fingerprint::fingerprint;
use std::hash::Hash;
use std::time::Duration;

/// A hash of all that an actor's code has received so far, and when. In equal states the code does
/// the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LocalState(u64);

impl LocalState {
    /// The state of a client that was told this before it started.
    pub(crate) fn told_of(what: impl Hash) -> LocalState {
        LocalState::default().after(Duration::ZERO, what)
    }

    /// The state after a turn of the code began at this time.
    pub(crate) fn in_turn(self, at: Duration) -> LocalState {
        self.after(at, ())
    }

    /// The state after the code received this at this time.
    pub(crate) fn after(self, at: Duration, what: impl Hash) -> LocalState {
        LocalState(fingerprint((self.0, at, what)))
    }
}
