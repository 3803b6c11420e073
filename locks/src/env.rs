//! The inputs of an algorithm besides Redis: the client's clocks, unique names, and chance.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// The client's clocks, and its source of unique names and of chance. A test passes its own
/// implementation and controls all of them.
#[derive(Clone)]
pub struct Env(Arc<dyn Source>);

/// The implementation behind an [`Env`].
pub trait Source: Send + Sync + 'static {
    /// The client's wall clock, as time since the Unix epoch. It may be wrong, and may jump.
    fn now(&self) -> Duration;

    /// The client's monotonic clock, as time since any fixed point. It never goes back or jumps,
    /// but may be too fast or too slow.
    fn elapsed(&self) -> Duration;

    /// A name that no other call returns, neither on this client nor on any other.
    fn unique(&self) -> String;

    /// A span of time by chance: at least zero, and at most `max`.
    fn jitter(&self, max: Duration) -> Duration;
}

impl Env {
    /// The machine's clock and random names.
    pub fn system() -> Env {
        Env::new(System)
    }

    /// An environment from any other source.
    pub fn new(source: impl Source) -> Env {
        Env(Arc::new(source))
    }

    /// The client's wall clock in milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        i64::try_from(self.0.now().as_millis()).unwrap_or(i64::MAX)
    }

    /// The client's monotonic clock, as time since any fixed point.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// At least half of `span`, and at most all of it. Clients that would all act after the same
    /// span then act one after another.
    pub fn jittered(&self, span: Duration) -> Duration {
        span / 2 + self.0.jitter(span - span / 2)
    }

    /// A name that no other call returns.
    pub fn unique(&self) -> String {
        self.0.unique()
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").finish_non_exhaustive()
    }
}

struct System;

/// 64 random bits of the operating system. A generator in this process would give a forked process
/// the numbers of its parent.
fn random_bits() -> u64 {
    getrandom::u64().expect("the operating system has random numbers")
}

impl Source for System {
    #[expect(clippy::disallowed_methods, reason = "this is the place where the machine's time comes in")]
    fn now(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    /// Tokio's clock, by which the timers of the locks run, too.
    #[expect(clippy::disallowed_methods, reason = "this is the place where the machine's time comes in")]
    fn elapsed(&self) -> Duration {
        static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
        Instant::now().duration_since(*ORIGIN)
    }

    /// 128 random bits. Uniqueness needs no more, because a token is a name and not a secret.
    fn unique(&self) -> String {
        format!("{:016x}{:016x}", random_bits(), random_bits())
    }

    fn jitter(&self, max: Duration) -> Duration {
        max.mul_f64(random_bits() as f64 / u64::MAX as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let env = Env::system();
        let names: std::collections::BTreeSet<_> = (0..1000).map(|_| env.unique()).collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| name.len() == 32));
    }
}
