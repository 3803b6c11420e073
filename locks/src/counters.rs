//! The events of locks, for people who operate them: counters, and events and spans for `tracing`.

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
    /// A latch was counted down, and this count is left.
    CountedDown {
        left: u32,
    },
}

/// An operation on a lock, for as long as it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Span {
    Acquire,
    Extend,
    Release,
    SetCount,
    CountDown,
    Wait,
}

/// Counts the events of the locks, latches and limiters that are made with it, for example by
/// [`Builder::counters`]. Clones share the numbers. They only rise, so a metrics exporter can read
/// them at any time.
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
    /// How often servers were asked for a lock, for permits, or whether a latch is open. A client
    /// that waits asks more than once.
    attempts,
    /// How often a lock or permits were granted, or a latch on which a client waited was open.
    acquired,
    /// How often a lock was tried once and was taken, or there were too few permits.
    refused,
    /// How often a call to acquire or to wait ended with an error, for example because it waited in
    /// vain.
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
            Event::Released(_) | Event::CountedDown { .. } => None,
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
        Event::CountedDown { left } => tracing::debug!(lock, left, "counted down"),
    }
}

#[cfg(not(feature = "tracing"))]
fn trace(_: &str, _: &Event<'_>) {}

/// Runs an operation on the lock with this name. With the feature `tracing`, it is a span there.
#[cfg(feature = "tracing")]
pub(crate) async fn in_span<F: Future>(span: Span, lock: &str, operation: F) -> F::Output {
    let span = match span {
        Span::Acquire => tracing::debug_span!("acquire", lock),
        Span::Extend => tracing::debug_span!("extend", lock),
        Span::Release => tracing::debug_span!("release", lock),
        Span::SetCount => tracing::debug_span!("set_count", lock),
        Span::CountDown => tracing::debug_span!("count_down", lock),
        Span::Wait => tracing::debug_span!("wait", lock),
    };
    tracing::Instrument::instrument(operation, span).await
}

#[cfg(not(feature = "tracing"))]
pub(crate) async fn in_span<F: Future>(_: Span, _: &str, operation: F) -> F::Output {
    operation.await
}
