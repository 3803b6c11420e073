//! `zset_semaphore`: the holders are members of a sorted set, ordered by the time of their own
//! clocks.
//!
//! With `now` from the client's clock, `E` the lease and `N` the permits:
//!
//! 1. `ZREMRANGEBYSCORE time 0 now-E`: remove holders that are older than a lease.
//! 2. `ZADD time now id`.
//! 3. `ZRANK time id`: if the rank is below N, the client has a permit. Otherwise `ZREM time id`.
//! 4. Release: `ZREM time id`.
//!
//! Source: canglin, "Distributed rate limiting: how a distributed semaphore on Redis works" (in
//! Chinese), built on Josiah Carlson, "Redis in Action", chapter 6.3.1.
//!
//! How it breaks: if a client's clock is behind, it ranks before clients that hold a permit
//! already, and there are N + 1 holders. The article states only this.
//!
//! It also breaks with perfect clocks:
//! - Two clients add themselves in one millisecond, and the id of the later one sorts first.
//! - A client stalls between reading its clock and its `ZADD`.
//!
//! A clock that is ahead by E removes live holders.

use redis::RedisResult;
use redis::aio::ConnectionLike;

use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "zset_semaphore",
    spec: &Spec {
        kind: AlgorithmKind::Semaphore,
        abilities: &[],
        guarantees: "that permits come back by themselves",
        assumes: "clocks that agree, no two clients in one millisecond, and no slow client",
        objection: "the rank is by the client's clock, so a later client can rank before a holder",
        breaks: &[
            (Property::OverIssue, FaultClass::Order),
            (Property::ExclusiveBelief, FaultClass::Order),
            (Property::OwnerSafe, FaultClass::Skew),
            (Property::NoLeak, FaultClass::Server),
            (Property::Recovers, FaultClass::Pairs),
            (Property::NoLeak, FaultClass::Failover),
        ],
    },
    scripts: &[],
    open: Open::One(|connection, env, terms| Box::new(ZsetSemaphore::new(connection, env, terms))),
};

/// One client's side of the semaphore.
#[derive(Debug)]
pub struct ZsetSemaphore<C> {
    connection: C,
    env: Env,
    key: String,
    lease_ms: i64,
    permits: u32,
    id: String,
}

impl<C: ConnectionLike + Send> ZsetSemaphore<C> {
    /// A client that holds nothing.
    pub fn new(connection: C, env: Env, terms: &Terms) -> ZsetSemaphore<C> {
        let (key, lease_ms, permits) = (terms.key.clone(), terms.lease_ms(), terms.permits);
        ZsetSemaphore { connection, env, key, lease_ms, permits, id: String::new() }
    }
}

impl<C: ConnectionLike + Send> Lock for ZsetSemaphore<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        self.id = self.env.unique();
        let now = self.env.now_ms();
        let connection = &mut self.connection;
        let expired = now - self.lease_ms;
        () =
            redis::cmd("ZREMRANGEBYSCORE").arg(&self.key).arg(0).arg(expired).query_async(connection).await?;
        () = redis::cmd("ZADD").arg(&self.key).arg(now).arg(&self.id).query_async(connection).await?;
        let rank: Option<u32> =
            redis::cmd("ZRANK").arg(&self.key).arg(&self.id).query_async(connection).await?;
        let is_ours = rank.is_some_and(|rank| rank < self.permits);
        if !is_ours {
            () = redis::cmd("ZREM").arg(&self.key).arg(&self.id).query_async(connection).await?;
        }
        Ok(is_ours)
    }

    async fn release(&mut self) -> RedisResult<Release> {
        let zrem = redis::cmd("ZREM").arg(&self.key).arg(&self.id).to_owned();
        zrem.query_async(&mut self.connection).await.map(Release::from_count)
    }

    fn record(&self) -> Record {
        Record::Member(self.key.clone(), self.id.clone())
    }
}
