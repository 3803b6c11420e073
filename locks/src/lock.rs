//! The trait of all locks, and its values.

use std::future::Future;
use std::time::Duration;

use redis::RedisResult;

/// One client's side of a lock, a semaphore or a read-write lock.
///
/// It holds nothing or one grant. If the lock is reentrant, it can hold several nested grants.
pub trait Lock: Send {
    /// Tries once to get the grant, without waiting. For a read-write lock, this is the grant to
    /// write.
    fn try_acquire(&mut self) -> impl Future<Output = RedisResult<bool>> + Send;

    /// Tries once to get a grant to read, which several clients can hold at once. A lock without
    /// readers has only one kind of grant.
    fn try_read(&mut self) -> impl Future<Output = RedisResult<bool>> + Send {
        self.try_acquire()
    }

    /// Waits until it has the grant. An algorithm that cannot wait tries once.
    fn acquire(&mut self) -> impl Future<Output = RedisResult<bool>> + Send {
        self.try_acquire()
    }

    /// Waits until it has a grant to read. An algorithm that cannot wait tries once.
    fn acquire_read(&mut self) -> impl Future<Output = RedisResult<bool>> + Send {
        self.try_read()
    }

    /// Gives the grant back.
    fn release(&mut self) -> impl Future<Output = RedisResult<Release>> + Send;

    /// Where the server keeps the grant of the last successful attempt.
    fn record(&self) -> Record;

    /// The fencing token of the last successful attempt. `None` if the lock gives none.
    fn fencing_token(&self) -> Option<i64> {
        None
    }
}

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The server had the grant, and ended it.
    Released,
    /// One of several nested grants was given back. The outer ones still hold.
    Inner,
    /// The server no longer had the grant: its lease ended, or another client ended it.
    NotHeld,
    /// The server no longer has the grant, although its lease should still run. An earlier request
    /// may have ended it whose reply was lost, or the server lost its data.
    Unknown,
}

impl Release {
    /// The result for the number of keys or members that a command removed.
    pub(crate) fn from_count(n: i64) -> Release {
        if n > 0 { Release::Released } else { Release::NotHeld }
    }
}

/// Where a server keeps one holder's grant. While the record exists, the client counts as a holder
/// on that server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Record {
    /// The key exists.
    Key(String),
    /// The key is a string with this value.
    Value(String, String),
    /// The sorted set has this member.
    Member(String, String),
    /// The hash has this field.
    Field(String, String),
    /// On more than half of several servers, the key is a string with this value.
    Majority(String, String),
    /// On more than half of several servers, the sorted set has this member.
    MajorityMember(String, String),
}

impl Record {
    /// The key of the record.
    pub fn key(&self) -> &str {
        match self {
            Record::Key(key)
            | Record::Value(key, _)
            | Record::Member(key, _)
            | Record::Field(key, _)
            | Record::Majority(key, _)
            | Record::MajorityMember(key, _) => key,
        }
    }

    /// Whether more than half of several servers keep the grant, and not one server.
    pub fn is_of_majority(&self) -> bool {
        matches!(self, Record::Majority(..) | Record::MajorityMember(..))
    }
}

/// The parameters that all clients of one lock share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The key, and the prefix of all further keys.
    pub key: String,
    /// How long a grant lasts if nobody releases it. Algorithms that count in seconds use whole
    /// seconds.
    pub lease: Duration,
    /// How many clients may hold at once; 1 for a lock.
    pub permits: u32,
}

impl Terms {
    /// The lease in milliseconds.
    pub fn lease_ms(&self) -> i64 {
        i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX)
    }

    /// The lease in whole seconds, for `EXPIRE` and `SET … EX`.
    pub fn lease_seconds(&self) -> u64 {
        self.lease.as_secs()
    }
}
