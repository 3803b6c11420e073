//! The trait that all locks have in common, and its values.

use std::future::Future;
use std::time::Duration;

use redis::RedisResult;

/// One client's side of a lock, a semaphore or a read-write lock: it holds nothing, or one grant, or several nested ones of a lock
/// that is reentrant.
pub trait Lock: Send {
    /// Tries once to get the grant, without waiting for it; that of a read-write lock to write.
    fn try_acquire(&mut self) -> impl Future<Output = RedisResult<bool>> + Send;

    /// Tries once to get a grant to read, which others may have at the same time. Whatever knows no readers has one kind of grant.
    fn try_read(&mut self) -> impl Future<Output = RedisResult<bool>> + Send {
        self.try_acquire()
    }

    /// Waits until it has the grant. Whatever does not know how to wait tries once.
    fn acquire(&mut self) -> impl Future<Output = RedisResult<bool>> + Send {
        self.try_acquire()
    }

    /// Gives the grant back.
    fn release(&mut self) -> impl Future<Output = RedisResult<Release>> + Send;

    /// Where the server keeps the grant of the last attempt that was won.
    fn record(&self) -> Record;
}

/// What a release did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The server had the grant, and ended it.
    Released,
    /// One of several nested grants was given back; those around it still hold.
    Inner,
    /// The server had it no longer: the lease ran out, or somebody else ended it.
    NotHeld,
}

impl Release {
    /// From the number of keys or members that a command removed.
    pub(crate) fn from_count(n: i64) -> Release {
        if n > 0 { Release::Released } else { Release::NotHeld }
    }
}

/// Where a server keeps one holder's grant: while this is there, the server takes the holder for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The key exists.
    Key(String),
    /// The key is a string with this value.
    Value(String, String),
    /// The sorted set has this member.
    Member(String, String),
    /// The hash has this field.
    Field(String, String),
    /// On most of several servers, the key is a string with this value.
    Majority(String, String),
}

impl Record {
    /// The key that it is kept under.
    pub fn key(&self) -> &str {
        match self {
            Record::Key(key)
            | Record::Value(key, _)
            | Record::Member(key, _)
            | Record::Field(key, _)
            | Record::Majority(key, _) => key,
        }
    }
}

/// What all clients of one lock agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The key, and the prefix of all further keys.
    pub key: String,
    /// How long a grant lasts unless it is released; whole seconds for the algorithms that count in them.
    pub lease: Duration,
    /// How many may hold at once; 1 for a lock.
    pub permits: u32,
}

impl Terms {
    /// The lease in milliseconds.
    pub fn lease_ms(&self) -> i64 {
        i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX)
    }

    /// The lease in whole seconds, for EXPIRE and `SET … EX`.
    pub fn lease_seconds(&self) -> u64 {
        self.lease.as_secs()
    }
}
