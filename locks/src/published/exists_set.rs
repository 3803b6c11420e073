//! `exists_set`: check first, then take.
//!
//! 1. `EXISTS k`: the reply 1 means that the lock is taken.
//! 2. `SET k 1`: the client holds the lock. There is no time to live.
//! 3. Release: `DEL k`.
//!
//! Source: Huyan Shi, "Redis series 13: distributed locks" (2020-01, in Chinese), as the most
//! obvious attempt.
//!
//! How it breaks: A and B both send `EXISTS` before either sends `SET`, and both hold the lock.
//! Then the release of one deletes the key that the other also uses. If a holder crashes, nobody
//! ever deletes the key. If the reply to the `SET` is lost, nobody deletes it either.

use redis::RedisResult;
use redis::aio::ConnectionLike;

use crate::lock::{Lock, Record, Release, Terms};
use crate::spec::{Ability, Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "exists_set",
    spec: &Spec {
        kind: AlgorithmKind::Mutex,
        abilities: &[Ability::Persists],
        guarantees: "nothing",
        assumes: "that no other client acquires at the same time",
        objection: "EXISTS and SET are two commands, and another client can run between them",
        breaks: &[
            (Property::ExclusiveFact, FaultClass::Order),
            (Property::ExclusiveBelief, FaultClass::Order),
            (Property::OwnerSafe, FaultClass::Order),
            (Property::Recovers, FaultClass::Crash),
            (Property::Recovers, FaultClass::Lost),
            (Property::NoLeak, FaultClass::Server),
            (Property::Recovers, FaultClass::Server),
            (Property::Recovers, FaultClass::Cancel),
            (Property::Recovers, FaultClass::Failover),
            (Property::NoLeak, FaultClass::Failover),
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
