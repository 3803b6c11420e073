//! The locks for use as rows of the registry.

use redis::{ErrorKind, RedisResult};

use crate::error::Error;
use crate::lease::{Guard, Lease};
use crate::lock::{Lock, Record, Release, Terms};
use crate::spec::DynLock;

/// Opens a lock for use, if its terms make sense. Otherwise every attempt returns the error.
pub(crate) fn open<L>(
    terms: &Terms,
    built: Result<L, Error>,
    open: impl FnOnce(L) -> Box<dyn DynLock>,
) -> Box<dyn DynLock> {
    match built {
        Ok(lock) => open(lock),
        Err(error) => Box::new(Unusable { key: terms.key.clone(), reason: error.to_string() }),
    }
}

/// A lock whose terms make no sense.
struct Unusable {
    key: String,
    reason: String,
}

impl Lock for Unusable {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        Err((ErrorKind::Client, "the lock cannot be used", self.reason.clone()).into())
    }

    async fn release(&mut self) -> RedisResult<Release> {
        Ok(Release::NotHeld)
    }

    fn record(&self) -> Record {
        Record::Key(self.key.clone())
    }
}

/// One client's side of a lock for use. It has one grant at most.
pub(crate) struct ClientSide {
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
    more: &'static [&'static [u8]],
    /// How the server keeps a grant, by the main key and the token.
    record: fn(String, String) -> Record,
}

impl ClientSide {
    /// A client that holds nothing. `record` says how the server keeps a grant, by the main key and
    /// the token.
    pub(crate) fn new(
        lease: Lease,
        more: &'static [&'static [u8]],
        record: fn(String, String) -> Record,
    ) -> ClientSide {
        let last = (record(lease.key().to_owned(), String::new()), None);
        ClientSide { own: Side { lease, more, record }, readers: None, guard: None, last }
    }

    /// Grants to read are on this lease, and have these records.
    pub(crate) fn reading(self, lease: Lease, record: fn(String, String) -> Record) -> ClientSide {
        ClientSide { readers: Some(Side { lease, more: &[], record }), ..self }
    }

    fn readers(&self) -> &Side {
        self.readers.as_ref().unwrap_or(&self.own)
    }

    fn keep(&mut self, granted: Result<Option<(Guard, Record)>, Error>) -> RedisResult<bool> {
        let granted = match granted {
            // For a client that does not look at these errors, the attempt was in vain.
            Err(Error::TooLate { .. } | Error::NoQuorum { .. }) => None,
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

impl Lock for ClientSide {
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
            Some(guard) => match guard.release().await {
                Err(Error::NoQuorum { .. }) => Ok(Release::Unknown),
                released => Ok(released?),
            },
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
