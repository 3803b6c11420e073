//! Which clients have timers. tokio does not list its timers, so a probe finds out once for each
//! local state of a client's code. The answers are kept here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::actor::Actor;
use crate::trace::LocalState;

/// Identifies the code and the lease of a client. Clients with equal numbers run the same code.
pub(crate) type CodeId = usize;

/// A client for which it was not known whether it has a timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnknownTimer {
    /// The number of steps before.
    pub(crate) steps: usize,
    pub(crate) actor: Actor,
    pub(crate) local_state: LocalState,
}

/// Whether a client has a timer, by its code, its name and its local state.
type Known = BTreeMap<(CodeId, Actor, LocalState), bool>;

/// Which clients have timers in which local states, as far as it is known. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct TimerCache(Arc<Mutex<Known>>);

/// The timer cache, as the clients of one scenario use it.
#[derive(Clone)]
pub(crate) struct ScenarioTimers {
    pub(crate) cache: TimerCache,
    /// The code of each actor.
    pub(crate) codes: Vec<CodeId>,
}

impl ScenarioTimers {
    /// Whether the actor has a timer in this state. `None` if that is not known.
    pub(crate) fn get(&self, actor: Actor, local_state: LocalState) -> Option<bool> {
        self.cache.known().get(&(*self.codes.get(actor.0)?, actor, local_state)).copied()
    }

    /// Records whether the actor has a timer in this state.
    pub(crate) fn insert(&self, actor: Actor, local_state: LocalState, has_timer: bool) {
        if let Some(&code) = self.codes.get(actor.0) {
            self.cache.known().insert((code, actor, local_state), has_timer);
        }
    }
}

impl TimerCache {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
