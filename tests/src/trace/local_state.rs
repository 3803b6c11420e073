//! In what state an actor's code is, and whether it has a timer then. tokio tells nobody which timers there are; what is armed is
//! tried out once for each state, and remembered.

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::quality::FixedState;

use crate::actor::Actor;

/// What an actor's code has seen so far, and when, as one number: where that is the same, the code does the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LocalState(u64);

impl LocalState {
    /// It was run at this time, and what it was handed was this.
    pub(crate) fn observe(&mut self, at: Duration, what: &str) {
        self.0 = FixedState::default().hash_one((self.0, at, what));
    }
}

/// Whether the actors of a scenario have timers, as far as it is known.
#[derive(Clone, Default)]
pub(crate) struct TimerCache(Arc<Mutex<BTreeMap<(Actor, LocalState), bool>>>);

impl TimerCache {
    /// Whether the actor has a timer in this state; `None` if nobody knows.
    pub(crate) fn get(&self, actor: Actor, local_state: LocalState) -> Option<bool> {
        self.known().get(&(actor, local_state)).copied()
    }

    /// That is known from now on.
    pub(crate) fn insert(&self, actor: Actor, local_state: LocalState, has_timer: bool) {
        self.known().insert((actor, local_state), has_timer);
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<(Actor, LocalState), bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
