//! The locks for use as rows of the registry.

use redis::RedisResult;

use crate::error::Error;
use crate::lease::{Guard, Lease};
use crate::lock::{Lock, Record, Release};

/// One client's side of a lock for use. It has one grant at most.
pub(crate) struct Row {
    lease: Lease,
    /// The arguments of each grant.
    more: &'static [u32],
    record: fn(String, String) -> Record,
    guard: Option<Guard>,
    /// The token and the fencing token of the last grant.
    last: (String, Option<i64>),
}

impl Row {
    /// A client that holds nothing. `record` says how the server keeps a grant with a key and a
    /// token.
    pub(crate) fn new(lease: Lease, more: &'static [u32], record: fn(String, String) -> Record) -> Row {
        Row { lease, more, record, guard: None, last: (String::new(), None) }
    }

    fn keep(&mut self, granted: Result<Option<Guard>, Error>) -> RedisResult<bool> {
        let guard = match granted {
            // For a client that does not look at errors of time, the attempt was in vain.
            Err(Error::TooLate { .. }) => None,
            other => other?,
        };
        if let Some(guard) = &guard {
            self.last = (guard.token().to_owned(), guard.fencing_token());
        }
        self.guard = guard;
        Ok(self.guard.is_some())
    }
}

impl Lock for Row {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        let granted = self.lease.try_acquire(self.more).await;
        self.keep(granted)
    }

    async fn acquire(&mut self) -> RedisResult<bool> {
        let granted = self.lease.acquire(self.more).await;
        self.keep(granted.map(Some))
    }

    async fn release(&mut self) -> RedisResult<Release> {
        match self.guard.take() {
            Some(guard) => Ok(guard.release().await?),
            None => Ok(Release::NotHeld),
        }
    }

    fn record(&self) -> Record {
        (self.record)(self.lease.key().to_owned(), self.last.0.clone())
    }

    fn fencing_token(&self) -> Option<i64> {
        self.last.1
    }
}
