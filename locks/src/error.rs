//! The errors of the locks for use. No error contains a token.

use std::fmt::{self, Write as _};
use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Why a lock could not be made, acquired, extended or released.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings of a lock, or the arguments of a call, make no sense.
    #[error("lock {lock:?}: {reason}")]
    Invalid {
        /// The name of the lock.
        lock: String,
        /// The mistake, and a right way.
        reason: String,
    },
    /// The lock was taken, or the latch closed, for as long as the client was ready to wait.
    #[error("lock {lock:?}: timed out after {waited:?} and {attempts} attempts")]
    TimedOut {
        /// The name of the lock.
        lock: String,
        /// How long the client waited.
        waited: Duration,
        /// How often it tried.
        attempts: u32,
    },
    /// The server granted the lock, but its reply came too late: nothing of the lease was left. The
    /// grant was given back.
    #[error("lock {lock:?}: the reply took {took:?}, which leaves nothing of the lease of {lease:?}")]
    TooLate {
        /// The name of the lock.
        lock: String,
        /// The time from before the request to after the reply.
        took: Duration,
        /// The lease.
        lease: Duration,
    },
    /// The grant has ended: its lease is over, or the server no longer has it. If a client waits
    /// for a latch, its count has ended like that. If it was the claim of an idempotency key,
    /// another caller may have begun the operation since.
    #[error("lock {lock:?}: lost: its time is over, or the server no longer has it")]
    Lost {
        /// The name of the lock.
        lock: String,
    },
    /// A server did not do what it was asked.
    #[error("lock {lock:?}: cannot {operation}: {source}{}", hint(source))]
    Server {
        /// The name of the lock.
        lock: String,
        /// The request.
        operation: Operation,
        /// The error of the server, or of the connection to it.
        source: RedisError,
    },
    /// Too few of several servers did what they were asked. If that was [`Operation::Acquire`],
    /// the grants of the others are given back.
    #[error("lock {lock:?}: cannot {operation}: needs {needed} servers, and has {agreed}{}", list(causes))]
    NoQuorum {
        /// The name of the lock.
        lock: String,
        /// The request.
        operation: Operation,
        /// How many servers have to do it: more than half of all.
        needed: usize,
        /// How many did.
        agreed: usize,
        /// The error of each server that failed, or of the connection to it. The number of a server
        /// is its place in the list of connections, from 0.
        causes: Vec<(usize, RedisError)>,
    },
}

impl Error {
    /// Whether the same call may succeed later, without a change of its settings: the lock was
    /// taken, or a server could not be reached or was busy.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::TimedOut { .. } | Error::TooLate { .. } => true,
            Error::Invalid { .. } | Error::Lost { .. } => false,
            Error::Server { source, .. } => is_transient(source),
            Error::NoQuorum { causes, .. } => causes.iter().all(|(_, cause)| is_transient(cause)),
        }
    }
}

/// A request of a client to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// To grant the lock.
    Acquire,
    /// To let the grant last longer.
    Extend,
    /// To end the grant.
    Release,
    /// To keep the result of an operation with an idempotency key.
    Complete,
    /// To set the count of a latch.
    SetCount,
    /// To count down a latch.
    CountDown,
    /// To read the count of a latch, who leads, or a result.
    Look,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Acquire => "acquire",
            Operation::Extend => "extend",
            Operation::Release => "release",
            Operation::Complete => "complete",
            Operation::SetCount => "set the count",
            Operation::CountDown => "count down",
            Operation::Look => "read",
        })
    }
}

/// A remedy for an error of a server, if one is known.
fn hint(error: &RedisError) -> &'static str {
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::ReadOnly) => " (connect to the master, not to a replica)",
        ErrorKind::Server(ServerErrorKind::ResponseError) if error.to_string().contains("nknown") => {
            " (the locks need Redis 5 or later)"
        }
        _ => "",
    }
}

/// The causes of an error, one for each server that failed.
fn list(causes: &[(usize, RedisError)]) -> String {
    causes.iter().fold(String::new(), |mut list, (server, cause)| {
        _ = write!(list, "; server {server}: {cause}{}", hint(cause));
        list
    })
}

/// Whether the same request may succeed when it is sent once more.
pub(crate) fn is_transient(error: &RedisError) -> bool {
    use ServerErrorKind::{BusyLoading, ClusterDown, MasterDown, TryAgain};
    match error.kind() {
        ErrorKind::Io => true,
        ErrorKind::Server(kind) => matches!(kind, BusyLoading | ClusterDown | MasterDown | TryAgain),
        _ => false,
    }
}

/// A lock whose callers know only redis-rs's errors.
impl From<Error> for RedisError {
    fn from(error: Error) -> RedisError {
        match error {
            Error::Server { source, .. } => source,
            Error::NoQuorum { mut causes, .. } if !causes.is_empty() => causes.swap_remove(0).1,
            other => (ErrorKind::Client, "the lock was not granted", other.to_string()).into(),
        }
    }
}
