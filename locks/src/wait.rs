//! The time for which a client waits.

use std::time::Duration;

use crate::error::Error;
use crate::request::Remote;

/// A client that tries again and again, as long as it has time.
pub(crate) struct Wait<'a> {
    remote: &'a Remote,
    began_at: Duration,
    within: Option<Duration>,
    attempts: u32,
}

impl Wait<'_> {
    /// Begins now. Without a limit, it waits for ever.
    pub(crate) fn begin(remote: &Remote, within: Option<Duration>) -> Wait<'_> {
        Wait { remote, began_at: remote.env.elapsed(), within, attempts: 0 }
    }

    /// Counts an attempt.
    pub(crate) fn attempt(&mut self) {
        self.attempts += 1;
    }

    /// The time that is left at `now`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]: none is left, or less than is needed.
    pub(crate) fn left(&self, now: Duration, needed: Duration) -> Result<Duration, Error> {
        let waited = now - self.began_at;
        let left = self.within.map_or(Duration::MAX, |within| within.saturating_sub(waited));
        if left.is_zero() || left < needed {
            return Err(Error::TimedOut { lock: self.remote.name.clone(), waited, attempts: self.attempts });
        }
        Ok(left)
    }
}
