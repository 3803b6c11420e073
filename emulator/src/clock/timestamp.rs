//! Instants.

use std::time::Duration;

/// A point in time, in microseconds since the Unix epoch, as `TIME` returns it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub(super) i64);

impl Timestamp {
    /// The start of every clock but the system's: 2023-11-14T22:13:20Z.
    pub const EPOCH: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    /// Converts milliseconds since the Unix epoch.
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

    /// Returns how long after `earlier` this is; zero if it is before.
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
