//! `exists_set`: look, then take.
//!
//! 1. `EXISTS k`; if it answers 1, the lock is taken.
//! 2. `SET k 1`: the lock is ours. There is no time to live.
//! 3. Release: `DEL k`.
//!
//! Source: Huyan Shi, "Redis series 13: distributed locks" (2020-01, in Chinese), as the first thing one would try.
//!
//! Who breaks it: A and B both look before either takes, and both hold. Then the release of the one deletes the key that is
//! also the other's. A holder that crashes leaves a key that nobody will ever delete; so does one
//! that never hears the reply to its SET.

use redis::RedisResult;
use redis::aio::ConnectionLike;

use crate::lock::{Lock, Record, Release, Terms};
use crate::registry::{Algorithm, FaultClass, Kind, Open, Property, Spec};

/// The registry's row.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "exists_set",
    spec: &Spec {
        kind: Kind::Mutex,
        guarantees: "nothing",
        assumes: "that nobody else calls at the same time",
        objection: "looking and taking are two commands, and anybody can come between",
        breaks: &[
            (Property::ExclusiveFact, FaultClass::Order),
            (Property::ExclusiveBelief, FaultClass::Order),
            (Property::OwnerSafe, FaultClass::Order),
            (Property::Recovers, FaultClass::Crash),
            (Property::Recovers, FaultClass::Lost),
        ],
    },
    scripts: &[],
    open: Open::One(|connection, _, terms| Box::new(ExistsSet::new(connection, terms))),
};

/// One client's side of the lock.
#[derive(Debug)]
pub struct ExistsSet<C> {
    connection: C,
    key: String,
}

impl<C: ConnectionLike + Send> ExistsSet<C> {
    /// A client that holds nothing.
    pub fn new(connection: C, terms: &Terms) -> ExistsSet<C> {
        ExistsSet { connection, key: terms.key.clone() }
    }
}

impl<C: ConnectionLike + Send> Lock for ExistsSet<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        let is_taken: bool = redis::cmd("EXISTS").arg(&self.key).query_async(&mut self.connection).await?;
        if !is_taken {
            () = redis::cmd("SET").arg(&self.key).arg(1).query_async(&mut self.connection).await?;
        }
        Ok(!is_taken)
    }

    async fn release(&mut self) -> RedisResult<Release> {
        redis::cmd("DEL").arg(&self.key).query_async(&mut self.connection).await.map(Release::from_count)
    }

    fn record(&self) -> Record {
        Record::Key(self.key.clone())
    }
}
