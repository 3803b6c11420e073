//! Notices quiescence: no task can run. That is the moment at which a step is chosen.
//!
//! tokio calls `on_thread_park` at that moment. If the hook wakes the driver, the runtime does not
//! park, and its paused clock stands still. If the hook does not, the clock moves to the next
//! timer.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::actor::Actor;

/// Wakes the driver at quiescence.
#[derive(Default)]
pub(crate) struct Quiescence {
    waiting: Mutex<Option<Waiting>>,
    /// A turn of a client has begun, and nobody has taken what it did.
    has_news: AtomicBool,
    /// Counts how often the runtime parked.
    parks: AtomicU64,
    /// The execution has taken too much real time. Nobody waits for quiescence any more.
    is_expired: AtomicBool,
    /// No execution is to go on.
    is_stopped: AtomicBool,
    /// The number of the actor whose code runs now, plus one; zero if none does.
    running: AtomicUsize,
}

struct Waiting {
    waker: Waker,
    until: Until,
}

/// A further condition at quiescence.
#[derive(Clone, Copy)]
enum Until {
    Nothing,
    /// There is news, or the runtime has parked `parks_max` times in all.
    News {
        parks_max: u64,
    },
}

impl Quiescence {
    /// To be called by the runtime before it parks.
    pub(crate) fn on_park(&self) {
        let parks = self.parks.fetch_add(1, Ordering::Relaxed) + 1;
        let is_due = |waiting: &mut Waiting| match waiting.until {
            Until::Nothing => true,
            Until::News { parks_max } => self.has_news.load(Ordering::Relaxed) || parks >= parks_max,
        };
        if let Some(waiting) = self.waiting().take_if(is_due) {
            waiting.waker.wake();
        }
    }

    /// Whether a turn of a client has begun, and nobody has taken what it did.
    pub(crate) fn set_news(&self, has_news: bool) {
        self.has_news.store(has_news, Ordering::Relaxed);
    }

    /// How often the runtime has parked so far.
    pub(crate) fn parks(&self) -> u64 {
        self.parks.load(Ordering::Relaxed)
    }

    /// An execution begins.
    pub(crate) fn begin(&self) {
        self.is_expired.store(false, Ordering::Relaxed);
    }

    /// The execution has taken too much real time. Another thread calls this.
    pub(crate) fn expire(&self) {
        self.is_expired.store(true, Ordering::SeqCst);
        if let Some(waiting) = self.waiting().take() {
            waiting.waker.wake();
        }
    }

    /// Ends this execution and all later ones. Another thread calls this.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.expire();
    }

    /// Whether the execution is to end, for one of these reasons.
    pub(crate) fn is_expired(&self) -> bool {
        self.is_expired.load(Ordering::SeqCst) || self.is_stopped()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    /// Runs code of an actor.
    pub(crate) fn running<R>(&self, actor: Actor, act: impl FnOnce() -> R) -> R {
        self.running.store(actor.0 + 1, Ordering::Relaxed);
        let result = act();
        self.running.store(0, Ordering::Relaxed);
        result
    }

    /// The actor whose code runs now. `None` if none does, or a task that an actor spawned.
    pub(crate) fn runs_now(&self) -> Option<Actor> {
        self.running.load(Ordering::Relaxed).checked_sub(1).map(Actor)
    }

    /// Resolves at quiescence.
    pub(crate) async fn wait(&self) {
        self.wait_until(Until::Nothing).await;
    }

    /// Resolves at quiescence if there is news, or if the runtime has parked `parks_max` times in
    /// all. Timers fire meanwhile.
    pub(crate) async fn wait_for_news(&self, parks_max: u64) {
        self.wait_until(Until::News { parks_max }).await;
    }

    async fn wait_until(&self, until: Until) {
        let mut is_registered = false;
        std::future::poll_fn(|cx| {
            let mut waiting = self.waiting();
            if is_registered && waiting.is_none() || self.is_expired() {
                return Poll::Ready(());
            }
            is_registered = true;
            *waiting = Some(Waiting { waker: cx.waker().clone(), until });
            Poll::Pending
        })
        .await;
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A limit ends one execution. A stop ends all that come.
    #[test]
    fn a_stop_lasts_longer_than_an_execution() {
        let quiescence = Quiescence::default();
        quiescence.expire();
        assert!(quiescence.is_expired());
        quiescence.begin();
        assert!(!quiescence.is_expired() && !quiescence.is_stopped());
        quiescence.stop();
        quiescence.begin();
        assert!(quiescence.is_expired() && quiescence.is_stopped());
    }

    /// The limit of an execution counts from how often the runtime had parked before it.
    #[test]
    fn parks_are_counted() {
        let quiescence = Quiescence::default();
        quiescence.on_park();
        quiescence.on_park();
        assert_eq!(quiescence.parks(), 2);
    }
}
