//! `setnx`: set the value only if there is none.
//!
//! 1. `SETNX k 1`: the reply 1 means that the client holds the lock.
//! 2. Release: `DEL k`.
//!
//! Source: Huyan Shi, "Redis series 13: distributed locks" (2020-01, in Chinese);
//! <https://redis.io/docs/latest/commands/setnx/>.
//!
//! How it breaks: if a holder crashes after the `SETNX`, the key stays for ever. While nobody
//! crashes, every order of commands is safe.
//!
//! A lost reply breaks it in two ways:
//! - If the reply to the `SETNX` is lost, no client knows that it holds the lock, and the lock
//!   stays taken.
//! - If the reply to the `DEL` is lost, the client's library sends the `DEL` again. If B has taken
//!   the lock in between, the second `DEL` frees B's lock.

use redis::RedisResult;
use redis::aio::ConnectionLike;

use crate::lock::{Lock, Record, Release, Terms};
use crate::spec::{Ability, Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "setnx",
    spec: &Spec {
        kind: AlgorithmKind::Mutex,
        abilities: &[Ability::Persists],
        guarantees: "one holder at a time, however slow it is",
        assumes: "that no holder ever crashes, and that no message is ever lost",
        objection: "without a time to live a crashed holder keeps the lock for ever",
        breaks: &[
            (Property::ExclusiveFact, FaultClass::Lost),
            (Property::ExclusiveBelief, FaultClass::Lost),
            (Property::OwnerSafe, FaultClass::Lost),
            (Property::Recovers, FaultClass::Crash),
            (Property::Recovers, FaultClass::Lost),
            (Property::ExclusiveFact, FaultClass::Server),
            (Property::ExclusiveBelief, FaultClass::Server),
            (Property::OwnerSafe, FaultClass::Server),
            (Property::NoLeak, FaultClass::Server),
            (Property::Recovers, FaultClass::Server),
            (Property::Recovers, FaultClass::Cancel),
            (Property::ExclusiveFact, FaultClass::Failover),
            (Property::ExclusiveBelief, FaultClass::Failover),
            (Property::OwnerSafe, FaultClass::Failover),
            (Property::Recovers, FaultClass::Failover),
            (Property::NoLeak, FaultClass::Failover),
        ],
    },
    scripts: &[],
    open: Open::One(|connection, _, terms| Box::new(SetNx::new(connection, terms))),
};

/// One client's side of the lock.
#[derive(Debug)]
pub struct SetNx<C> {
    connection: C,
    key: String,
}

impl<C: ConnectionLike + Send> SetNx<C> {
    /// A client that holds nothing.
    pub fn new(connection: C, terms: &Terms) -> SetNx<C> {
        SetNx { connection, key: terms.key.clone() }
    }
}

impl<C: ConnectionLike + Send> Lock for SetNx<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        redis::cmd("SETNX").arg(&self.key).arg(1).query_async(&mut self.connection).await
    }

    async fn release(&mut self) -> RedisResult<Release> {
        redis::cmd("DEL").arg(&self.key).query_async(&mut self.connection).await.map(Release::from_count)
    }

    fn record(&self) -> Record {
        Record::Key(self.key.clone())
    }
}
