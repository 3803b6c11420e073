//! The time for which a client waits.

use std::time::Duration;

use crate::error::Error;
use crate::request::Context;

/// A client that tries again and again, as long as it has time.
pub(crate) struct Wait<'a> {
    context: &'a Context,
    began_at: Duration,
    within: Option<Duration>,
    attempts: u32,
}

impl Wait<'_> {
    /// Begins now. Without a limit, it waits for ever.
    pub(crate) fn begin(context: &Context, within: Option<Duration>) -> Wait<'_> {
        Wait { context, began_at: context.env.elapsed(), within, attempts: 0 }
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
            return Err(Error::TimedOut { lock: self.context.name.clone(), waited, attempts: self.attempts });
        }
        Ok(left)
    }
}
