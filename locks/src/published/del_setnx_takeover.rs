//! `del_setnx_takeover`: the value is the end of the lease. A client that finds an ended lease
//! takes the lock over.
//!
//! With `now` from the client's clock and `L` the lease:
//!
//! 1. `SETNX k now+L`: the reply 1 means that the client holds the lock. There is no time to live.
//! 2. Otherwise `GET k`: if that time has passed, `DEL k`, and step 1 once more.
//! 3. Release: `DEL k`.
//!
//! Source: mzorro.me, "A distributed lock with Redis, and its optimisation" (2017-10-25, in
//! Chinese), as the repair of `setnx_expire`, with its objection.
//! <https://redis.io/docs/latest/commands/setnx/> names the same race.
//!
//! How it breaks: A and B both find the ended lease of a crashed holder. A deletes the key and
//! takes the lock. Then B deletes A's key, and takes the lock too. If the first holder is only
//! slow, two clients are enough: B takes over, and A's `DEL` frees B's lock.
//!
//! A lost reply breaks it, too. The client's library sends the `DEL` again. If B has taken the lock
//! in between, the second `DEL` frees B's lock.

use redis::RedisResult;
use redis::aio::ConnectionLike;

use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "del_setnx_takeover",
    spec: &Spec {
        kind: AlgorithmKind::Mutex,
        abilities: &[],
        guarantees: "one holder at a time while no lease ends, and a free lock one lease after a crash",
        assumes: "clocks that agree, and that no two clients find the same expired lock at once",
        objection: "DEL may delete a newer lock than the expired one; any client's DEL frees the lock",
        breaks: &[
            // By two leases: the end of a lease that has just begun looks past.
            (Property::ExclusiveFact, FaultClass::Skew),
            (Property::ExclusiveBelief, FaultClass::Skew),
            (Property::OwnerSafe, FaultClass::Skew),
            (Property::ExclusiveFact, FaultClass::Slow),
            (Property::ExclusiveBelief, FaultClass::Slow),
            (Property::OwnerSafe, FaultClass::Slow),
            (Property::ExclusiveFact, FaultClass::Lost),
            (Property::ExclusiveBelief, FaultClass::Lost),
            (Property::OwnerSafe, FaultClass::Lost),
            (Property::ExclusiveFact, FaultClass::Server),
            (Property::ExclusiveBelief, FaultClass::Server),
            (Property::OwnerSafe, FaultClass::Server),
            (Property::NoLeak, FaultClass::Server),
            (Property::Recovers, FaultClass::Pairs),
            (Property::ExclusiveFact, FaultClass::Failover),
            (Property::ExclusiveBelief, FaultClass::Failover),
            (Property::OwnerSafe, FaultClass::Failover),
            (Property::NoLeak, FaultClass::Failover),
        ],
    },
    scripts: &[],
    open: Open::One(|connection, env, terms| Box::new(DelSetNxTakeover::new(connection, env, terms))),
};

/// One client's side of the lock.
#[derive(Debug)]
pub struct DelSetNxTakeover<C> {
    connection: C,
    env: Env,
    key: String,
    lease_ms: i64,
    /// The end of the lease that it wrote last.
    end: i64,
}

impl<C: ConnectionLike + Send> DelSetNxTakeover<C> {
    /// A client that holds nothing.
    pub fn new(connection: C, env: Env, terms: &Terms) -> DelSetNxTakeover<C> {
        DelSetNxTakeover { connection, env, key: terms.key.clone(), lease_ms: terms.lease_ms(), end: 0 }
    }

    async fn set_if_absent(&mut self) -> RedisResult<bool> {
        self.end = self.env.now_ms() + self.lease_ms;
        redis::cmd("SETNX").arg(&self.key).arg(self.end).query_async(&mut self.connection).await
    }

    async fn delete(&mut self) -> RedisResult<i64> {
        redis::cmd("DEL").arg(&self.key).query_async(&mut self.connection).await
    }
}

impl<C: ConnectionLike + Send> Lock for DelSetNxTakeover<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        if self.set_if_absent().await? {
            return Ok(true);
        }
        let end: Option<i64> = redis::cmd("GET").arg(&self.key).query_async(&mut self.connection).await?;
        if end.is_none_or(|end| self.env.now_ms() <= end) {
            return Ok(false);
        }
        self.delete().await?;
        self.set_if_absent().await
    }

    async fn release(&mut self) -> RedisResult<Release> {
        self.delete().await.map(Release::from_count)
    }

    fn record(&self) -> Record {
        Record::Value(self.key.clone(), self.end.to_string())
    }
}
