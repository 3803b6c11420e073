//! The local state of an actor's code, and whether the code has a timer in that state. tokio does
//! not list its timers, so a probe finds out once for each state.

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::quality::FixedState;

use crate::actor::Actor;

/// A hash of all that an actor's code has received so far, and when. In equal states the code does
/// the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LocalState(u64);

impl LocalState {
    /// The code ran at this time and received this.
    pub(crate) fn observe(&mut self, at: Duration, what: &str) {
        self.0 = FixedState::default().hash_one((self.0, at, what));
    }
}

/// Which actors of a scenario have timers, as far as it is known.
#[derive(Clone, Default)]
pub(crate) struct TimerCache(Arc<Mutex<BTreeMap<(Actor, LocalState), bool>>>);

impl TimerCache {
    /// Whether the actor has a timer in this state. `None` if that is not known.
    pub(crate) fn get(&self, actor: Actor, local_state: LocalState) -> Option<bool> {
        self.known().get(&(actor, local_state)).copied()
    }

    /// Records whether the actor has a timer in this state.
    pub(crate) fn insert(&self, actor: Actor, local_state: LocalState, has_timer: bool) {
        self.known().insert((actor, local_state), has_timer);
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<(Actor, LocalState), bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
