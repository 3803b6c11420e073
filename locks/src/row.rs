//! The locks for use as rows of the registry.

use redis::RedisResult;

use crate::error::Error;
use crate::lease::{Guard, Lease};
use crate::lock::{Lock, Record, Release};

/// One client's side of a lock for use. It has one grant at most.
pub(crate) struct Row {
    own: Side,
    /// The side of the readers, if the lock has some.
    readers: Option<Side>,
    guard: Option<Guard>,
    /// The record and the fencing token of the last grant.
    last: (Record, Option<i64>),
}

/// A kind of grants that a lock gives.
struct Side {
    lease: Lease,
    /// The arguments of each grant.
    more: &'static [u32],
    /// How the server keeps a grant, by the main key and the token.
    record: fn(String, String) -> Record,
}

impl Row {
    /// A client that holds nothing. `record` says how the server keeps a grant, by the main key and
    /// the token.
    pub(crate) fn new(lease: Lease, more: &'static [u32], record: fn(String, String) -> Record) -> Row {
        let last = (record(lease.key().to_owned(), String::new()), None);
        Row { own: Side { lease, more, record }, readers: None, guard: None, last }
    }

    /// Grants to read are on this lease, and have these records.
    pub(crate) fn reading(self, lease: Lease, record: fn(String, String) -> Record) -> Row {
        Row { readers: Some(Side { lease, more: &[], record }), ..self }
    }

    fn readers(&self) -> &Side {
        self.readers.as_ref().unwrap_or(&self.own)
    }

    fn keep(&mut self, granted: Result<Option<(Guard, Record)>, Error>) -> RedisResult<bool> {
        let granted = match granted {
            // For a client that does not look at errors of time, the attempt was in vain.
            Err(Error::TooLate { .. }) => None,
            other => other?,
        };
        self.guard = granted.map(|(guard, record)| {
            self.last = (record, guard.fencing_token());
            guard
        });
        Ok(self.guard.is_some())
    }
}

impl Side {
    async fn try_acquire(&self) -> Result<Option<(Guard, Record)>, Error> {
        let guard = self.lease.try_acquire(self.more).await?;
        Ok(guard.map(|guard| self.with_record(guard)))
    }

    async fn acquire(&self) -> Result<Option<(Guard, Record)>, Error> {
        let guard = self.lease.acquire(self.more).await?;
        Ok(Some(self.with_record(guard)))
    }

    fn with_record(&self, guard: Guard) -> (Guard, Record) {
        let record = (self.record)(self.lease.key().to_owned(), guard.token().to_owned());
        (guard, record)
    }
}

impl Lock for Row {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        let granted = self.own.try_acquire().await;
        self.keep(granted)
    }

    async fn try_read(&mut self) -> RedisResult<bool> {
        let granted = self.readers().try_acquire().await;
        self.keep(granted)
    }

    async fn acquire(&mut self) -> RedisResult<bool> {
        let granted = self.own.acquire().await;
        self.keep(granted)
    }

    async fn acquire_read(&mut self) -> RedisResult<bool> {
        let granted = self.readers().acquire().await;
        self.keep(granted)
    }

    async fn release(&mut self) -> RedisResult<Release> {
        match self.guard.take() {
            Some(guard) => Ok(guard.release().await?),
            None => Ok(Release::NotHeld),
        }
    }

    fn record(&self) -> Record {
        self.last.0.clone()
    }

    fn fencing_token(&self) -> Option<i64> {
        self.last.1
    }
}
