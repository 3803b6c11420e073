//! The events of locks, for people who operate them: counters, and events for `tracing`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::Error;
use crate::lock::Release;

/// Something that happens to a lock.
#[derive(Debug)]
#[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "only events of `tracing` have fields"))]
pub(crate) enum Event<'a> {
    /// The servers are asked for the lock.
    Attempted,
    Acquired {
        waited: Duration,
    },
    /// The lock was tried once, and was taken.
    Refused,
    /// It could not be acquired.
    Failed(&'a Error),
    Renewed,
    Lost,
    Released(Release),
}

/// Counts the events of the locks that are made with it ([`Builder::counters`]). Clones share the
/// numbers. They only rise, so a metrics exporter can read them at any time.
///
/// [`Builder::counters`]: crate::Builder::counters
#[derive(Clone, Debug, Default)]
pub struct Counters(Arc<Numbers>);

/// Declares the numbers, and how each is read.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Debug, Default)]
        struct Numbers { $($name: AtomicU64,)* }

        impl Counters {
            $($(#[$doc])* pub fn $name(&self) -> u64 {
                self.0.$name.load(Ordering::Relaxed)
            })*
        }
    };
}

numbers! {
    /// How often servers were asked for a lock. A client that waits asks more than once.
    attempts,
    /// How often a lock was granted.
    acquired,
    /// How often a lock was tried once, and was taken.
    refused,
    /// How often a call ended with an error in place of a lock. Waiting in vain is one, too.
    failed,
    /// How often a lease began anew.
    renewed,
    /// How many grants were found to be lost: by a renewal, by [`Guard::lost`], or by the release.
    ///
    /// [`Guard::lost`]: crate::Guard::lost
    lost,
    /// How many grants were given back before they were lost.
    released,
}

impl Counters {
    /// Counts an event of the lock with this name. With the feature `tracing`, it also is an event
    /// there.
    pub(crate) fn note(&self, lock: &str, event: &Event<'_>) {
        let Numbers { attempts, acquired, refused, failed, renewed, lost, released } = &*self.0;
        let number = match event {
            Event::Attempted => Some(attempts),
            Event::Acquired { .. } => Some(acquired),
            Event::Refused => Some(refused),
            Event::Failed(_) => Some(failed),
            Event::Renewed => Some(renewed),
            Event::Lost => Some(lost),
            Event::Released(Release::Released) => Some(released),
            Event::Released(_) => None,
        };
        if let Some(number) = number {
            number.fetch_add(1, Ordering::Relaxed);
        }
        trace(lock, event);
    }
}

#[cfg(feature = "tracing")]
fn trace(lock: &str, event: &Event<'_>) {
    match event {
        Event::Attempted => tracing::trace!(lock, "attempted"),
        Event::Acquired { waited } => tracing::debug!(lock, ?waited, "acquired"),
        Event::Refused => tracing::debug!(lock, "refused"),
        Event::Failed(error) => tracing::warn!(lock, %error, "not acquired"),
        Event::Renewed => tracing::trace!(lock, "renewed"),
        Event::Lost => tracing::warn!(lock, "lost"),
        Event::Released(outcome) => tracing::debug!(lock, ?outcome, "released"),
    }
}

#[cfg(not(feature = "tracing"))]
fn trace(_: &str, _: &Event<'_>) {}
