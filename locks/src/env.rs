//! The inputs of an algorithm besides Redis: the client's wall clock, and unique names.

use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The client's clock and its source of unique names. A test passes its own implementation and
/// controls both.
#[derive(Clone)]
pub struct Env(Arc<dyn Source>);

/// The implementation behind an [`Env`].
pub trait Source: Send + Sync + 'static {
    /// The client's wall clock, as time since the Unix epoch. It may be wrong, and may jump.
    fn now(&self) -> Duration;

    /// A name that no other call returns, neither on this client nor on any other.
    fn unique(&self) -> String;
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

impl Source for System {
    #[expect(clippy::disallowed_methods, reason = "this is the place where the machine's time comes in")]
    fn now(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    /// 128 random bits.
    ///
    /// Each `RandomState` gets its keys from the operating system's random numbers. Uniqueness
    /// needs no more, because a token is a name and not a secret.
    fn unique(&self) -> String {
        let bits = || RandomState::new().build_hasher().finish();
        format!("{:016x}{:016x}", bits(), bits())
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
