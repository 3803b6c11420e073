//! The one source of time: TTLs, `TIME` and time inside scripts all ask a [`Clock`], and nothing else does.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// A point in time: microseconds since the Unix epoch, as `TIME` tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Where every clock that is not the system's starts: 2023-11-14T22:13:20Z.
    pub const EPOCH: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    /// From milliseconds since the Unix epoch.
    pub const fn from_millis(millis: i64) -> Timestamp {
        Timestamp(millis.saturating_mul(1000))
    }

    /// Whole milliseconds since the Unix epoch: the unit of every deadline.
    pub const fn millis(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Microseconds since the Unix epoch.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0).max(0) as u64)
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Timestamp;
    fn add(self, span: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }
}

/// A clock that a server reads. Clones share one time.
#[derive(Clone, Debug)]
pub struct Clock(Kind);

#[derive(Clone, Debug)]
enum Kind {
    System,
    Manual(Arc<Manual>),
    Tokio(tokio::time::Instant),
}

#[derive(Debug)]
struct Manual {
    micros: AtomicI64,
    moved: Notify,
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Clock {
        Clock(Kind::System)
    }

    /// A clock that stands at [`Timestamp::EPOCH`] and moves only by [`Clock::advance`] and [`Clock::set`].
    pub fn manual() -> Clock {
        let micros = AtomicI64::new(Timestamp::EPOCH.micros());
        Clock(Kind::Manual(Arc::new(Manual { micros, moved: Notify::new() })))
    }

    /// Follows tokio's clock from [`Timestamp::EPOCH`] on: under `#[tokio::test(start_paused = true)]` it moves by
    /// `tokio::time::advance` and by auto-advance alone.
    #[expect(clippy::disallowed_methods, reason = "this is the place where tokio's time comes in")]
    pub fn tokio() -> Clock {
        Clock(Kind::Tokio(tokio::time::Instant::now()))
    }

    /// The time.
    #[expect(clippy::disallowed_methods, reason = "this is the place where time comes in")]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Kind::System => {
                let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
                Timestamp::default() + since_epoch.unwrap_or_default()
            }
            Kind::Manual(manual) => Timestamp(manual.micros.load(Ordering::SeqCst)),
            Kind::Tokio(start) => Timestamp::EPOCH + tokio::time::Instant::now().duration_since(*start),
        }
    }

    /// Waits until the time has come. The system's clock and tokio's need a tokio runtime with time for that; a manual clock
    /// needs somebody to move it.
    pub async fn sleep_until(&self, time: Timestamp) {
        match &self.0 {
            Kind::Manual(manual) => loop {
                let mut moved = pin!(manual.moved.notified());
                moved.as_mut().enable();
                if self.now() >= time {
                    return;
                }
                moved.await;
            },
            Kind::System | Kind::Tokio(_) => {
                // The machine's clock may be set back while we sleep.
                while self.now() < time {
                    tokio::time::sleep(time.since(self.now())).await;
                }
            }
        }
    }

    /// Moves a manual clock forward.
    ///
    /// # Panics
    /// The system's clock and tokio's do not move by our hand.
    pub fn advance(&self, span: Duration) {
        self.set(self.now() + span);
    }

    /// Sets a manual clock; backwards too, as an administrator might.
    ///
    /// # Panics
    /// The system's clock and tokio's do not move by our hand.
    pub fn set(&self, time: Timestamp) {
        match &self.0 {
            Kind::Manual(manual) => {
                manual.micros.store(time.micros(), Ordering::SeqCst);
                manual.moved.notify_waiters();
            }
            Kind::System => panic!("a system clock moves by itself: make the emulator with Clock::manual()"),
            Kind::Tokio(_) => {
                panic!("this clock follows tokio's: use tokio::time::advance, or Clock::manual()")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_when_told() {
        let clock = Clock::manual();
        assert_eq!(clock.now(), Timestamp::EPOCH);
        clock.clone().advance(Duration::from_millis(5));
        assert_eq!(clock.now().millis(), 1_700_000_000_005);
        clock.set(Timestamp::from_millis(7));
        assert_eq!(clock.now().micros(), 7_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_tokio_clock_follows_advance_and_auto_advance() {
        let clock = Clock::tokio();
        tokio::time::advance(Duration::from_millis(5)).await;
        assert_eq!(clock.now().since(Timestamp::EPOCH), Duration::from_millis(5));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(clock.now().since(Timestamp::EPOCH) >= Duration::from_secs(60));
    }
}
