//! `getset_takeover`: as `del_setnx_takeover`, but `GETSET` decides which client takes over.
//!
//! With `now` from the client's clock and `L` the lease:
//!
//! 1. `SETNX k stamp`, with the stamp now + L + 1 s: the reply 1 means that the client holds the
//!    lock. Then `EXPIRE k L`.
//! 2. Otherwise `GET k`: if that stamp has passed, `GETSET k` with a new one. If `GETSET` returns
//!    the stamp that `GET` returned, the client holds the lock. Then `EXPIRE k L`.
//! 3. Release: `DEL k`.
//!
//! Source: mzorro.me, "A distributed lock with Redis, and its optimisation" (2017-10-25, in
//! Chinese). The takeover by `GETSET` is on <https://redis.io/docs/latest/commands/setnx/>.
//!
//! How it breaks: if a holder is slower than its lease, its `DEL` frees the lock of another client.
//! If a client's clock is more than L + 1 s ahead, it takes a live lock.
//!
//! `GETSET` also writes when it loses. The loser's stamp replaces the winner's stamp and removes
//! its time to live. If the winner has released in between, the loser leaves a key without an owner
//! until its stamp has passed.
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
    name: "getset_takeover",
    spec: &Spec {
        kind: AlgorithmKind::Mutex,
        abilities: &[],
        guarantees: "one holder at a time while no lease ends, and a free lock soon after a crash",
        assumes: "clocks that differ by less than a lease plus a second, and that no holder outlives its lease",
        objection: "GETSET writes even if the attempt fails, so a failed attempt can lock a free lock; any client's DEL frees it",
        breaks: &[
            // By two leases: the end of a lease that has just begun looks past.
            (Property::ExclusiveFact, FaultClass::Skew),
            (Property::ExclusiveBelief, FaultClass::Skew),
            (Property::OwnerSafe, FaultClass::Skew),
            (Property::NoLeak, FaultClass::Skew),
            (Property::ExclusiveFact, FaultClass::Slow),
            (Property::ExclusiveBelief, FaultClass::Slow),
            (Property::OwnerSafe, FaultClass::Slow),
            (Property::ExclusiveFact, FaultClass::Lost),
            (Property::ExclusiveBelief, FaultClass::Lost),
            (Property::OwnerSafe, FaultClass::Lost),
            (Property::NoLeak, FaultClass::Slow),
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
    open: Open::One(|connection, env, terms| Box::new(GetSetTakeover::new(connection, env, terms))),
};

/// How much later than the end of the lease a stamp passes.
const MARGIN_MS: i64 = 1_000;

/// One client's side of the lock.
#[derive(Debug)]
pub struct GetSetTakeover<C> {
    connection: C,
    env: Env,
    key: String,
    lease_ms: i64,
    lease_seconds: u64,
    /// The stamp that it wrote last.
    stamp: i64,
}

impl<C: ConnectionLike + Send> GetSetTakeover<C> {
    /// A client that holds nothing.
    pub fn new(connection: C, env: Env, terms: &Terms) -> GetSetTakeover<C> {
        let (key, lease_ms, lease_seconds) = (terms.key.clone(), terms.lease_ms(), terms.lease_seconds());
        GetSetTakeover { connection, env, key, lease_ms, lease_seconds, stamp: 0 }
    }

    /// A new stamp.
    fn stamp(&mut self) -> i64 {
        self.stamp = self.env.now_ms() + self.lease_ms + MARGIN_MS;
        self.stamp
    }

    /// Tries to take the lock over from a holder whose stamp has passed. Returns whether it
    /// succeeded.
    async fn take_over(&mut self) -> RedisResult<bool> {
        let old: Option<i64> = redis::cmd("GET").arg(&self.key).query_async(&mut self.connection).await?;
        if old.is_none_or(|old| self.env.now_ms() <= old) {
            return Ok(false);
        }
        let stamp = self.stamp();
        let getset = redis::cmd("GETSET").arg(&self.key).arg(stamp).to_owned();
        let replaced: Option<i64> = getset.query_async(&mut self.connection).await?;
        Ok(replaced == old)
    }
}

impl<C: ConnectionLike + Send> Lock for GetSetTakeover<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        let stamp = self.stamp();
        let setnx = redis::cmd("SETNX").arg(&self.key).arg(stamp).to_owned();
        let is_free: bool = setnx.query_async(&mut self.connection).await?;
        let is_ours = is_free || self.take_over().await?;
        if is_ours {
            let expire = redis::cmd("EXPIRE").arg(&self.key).arg(self.lease_seconds).to_owned();
            () = expire.query_async(&mut self.connection).await?;
        }
        Ok(is_ours)
    }

    async fn release(&mut self) -> RedisResult<Release> {
        redis::cmd("DEL").arg(&self.key).query_async(&mut self.connection).await.map(Release::from_count)
    }

    fn record(&self) -> Record {
        Record::Value(self.key.clone(), self.stamp.to_string())
    }
}
