//! The results of probes of the code of clients, which no server knows. tokio does not list its
//! timers, so a probe finds them once for each local state of a client's code. Other probes find
//! the spans of time that the code distinguishes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Memo;
use crate::actor::Actor;
use crate::trace::LocalState;

/// Identifies the code and the lease of a client. Clients with equal numbers run the same code.
pub(crate) type CodeId = usize;

/// The code of a client, its name and its local state.
pub(crate) type Key = (CodeId, Actor, LocalState);

/// A client for which it was not known whether it has a timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnknownTimer {
    /// The number of steps before.
    pub(crate) steps: usize,
    pub(crate) actor: Actor,
    pub(crate) local_state: LocalState,
}

/// Whether a client has a timer.
type Known = Memo<Key, bool>;

/// Which clients have timers in which local states, as far as it is known. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct TimerCache(Arc<Mutex<Known>>);

/// The spans of time that code distinguishes, by the codes of the actors of a scenario.
type KnownThresholds = BTreeMap<BTreeSet<CodeId>, Arc<[Duration]>>;

/// The thresholds of scenarios, as far as they are known. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Thresholds(Arc<Mutex<KnownThresholds>>);

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
            self.cache.known().learn((code, actor, local_state), has_timer);
        }
    }
}

impl Thresholds {
    /// The thresholds of the code of these actors; `None` if nobody has searched for them.
    pub(crate) fn get(&self, codes: &[CodeId]) -> Option<Arc<[Duration]>> {
        self.known().get(&codes.iter().copied().collect()).cloned()
    }

    /// Records the thresholds of the code of these actors.
    pub(crate) fn insert(&self, codes: &[CodeId], thresholds: Vec<Duration>) {
        self.known().insert(codes.iter().copied().collect(), thresholds.into());
    }

    fn known(&self) -> MutexGuard<'_, KnownThresholds> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TimerCache {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
