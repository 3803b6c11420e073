//! In what state an actor's code is, and whether it has a timer then. tokio tells nobody which timers there are; what is armed is
//! tried out once for each state, and remembered.

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::quality::FixedState;

use crate::schedule::Actor;

/// What an actor's code has seen so far, and when, as one number: where that is the same, the code does the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Trail(u64);

impl Trail {
    /// It was run at this time, and what it was handed was this.
    pub(crate) fn sees(&mut self, at: Duration, what: &str) {
        self.0 = FixedState::default().hash_one((self.0, at, what));
    }
}

/// Whether the actors of a scenario have timers, as far as it is known.
#[derive(Clone, Default)]
pub(crate) struct Timers(Arc<Mutex<BTreeMap<(Actor, Trail), bool>>>);

impl Timers {
    /// Whether the actor has a timer in this state; `None` if nobody knows.
    pub(crate) fn get(&self, actor: Actor, trail: Trail) -> Option<bool> {
        self.known().get(&(actor, trail)).copied()
    }

    /// That is known from now on.
    pub(crate) fn insert(&self, actor: Actor, trail: Trail, has_timer: bool) {
        self.known().insert((actor, trail), has_timer);
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<(Actor, Trail), bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
