//! `renewed_hash`: `reentrant_hash` with a timer that renews the lease.
//!
//! 1. Acquire and release as `reentrant_hash` does.
//! 2. From the acquire to the last release, every third of a lease, one script: if the key has our
//!    field, `EXPIRE k L`. If it does not, the timer ends.
//!
//! Source: "Distributed locks by Redis" (in Chinese, notes on a re-entrant lock by hash and Lua).
//!
//! How it breaks: a client stalls as a whole. The timer stalls with it, and the lock then breaks as
//! `reentrant_hash` does. While the timer runs, the lease does not end.
//!
//! A lost reply breaks it as it breaks `reentrant_hash`: a release that is sent again counts down
//! twice.

use std::sync::LazyLock;
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{RedisResult, Script};
use tokio::task::JoinSet;

use super::reentrant_hash::{ACQUIRE, RELEASE, ReentrantHash};
use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::spec::{Ability, Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

const RENEW: &str = "\
-- renew
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  return redis.call('EXPIRE', KEYS[1], ARGV[2])
end
return 0";

static RENEW_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(RENEW));

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "renewed_hash",
    spec: &Spec {
        kind: AlgorithmKind::Mutex,
        abilities: &[Ability::Reenters],
        guarantees: "one holder at a time, for as long as its timer runs",
        assumes: "that no client stalls for a lease, its timer included",
        objection: "a timer stalls together with its holder",
        breaks: &[
            (Property::ExclusiveFact, FaultClass::Slow),
            (Property::ExclusiveBelief, FaultClass::Slow),
            (Property::ExclusiveFact, FaultClass::Lost),
            (Property::ExclusiveBelief, FaultClass::Lost),
            (Property::ExclusiveFact, FaultClass::Server),
            (Property::ExclusiveBelief, FaultClass::Server),
            (Property::Unbroken, FaultClass::Slow),
            (Property::NoLeak, FaultClass::Server),
            (Property::Unbroken, FaultClass::Server),
            (Property::ExclusiveFact, FaultClass::Failover),
            (Property::ExclusiveBelief, FaultClass::Failover),
            (Property::NoLeak, FaultClass::Failover),
            (Property::Unbroken, FaultClass::Failover),
        ],
    },
    scripts: &[ACQUIRE, RELEASE, RENEW],
    open: Open::One(|connection, env, terms| Box::new(RenewedHash::new(connection, &env, terms))),
};

/// One client's side of the lock. It renews in a tokio task, on a clone of its connection.
#[derive(Debug)]
pub struct RenewedHash<C> {
    hash: ReentrantHash<C>,
    /// One task while the client holds the lock. The task ends when this is dropped.
    timer: JoinSet<()>,
}

impl<C: ConnectionLike + Clone + Send + 'static> RenewedHash<C> {
    /// A client that holds nothing.
    pub fn new(connection: C, env: &Env, terms: &Terms) -> RenewedHash<C> {
        RenewedHash { hash: ReentrantHash::new(connection, env, terms), timer: JoinSet::new() }
    }
}

impl<C: ConnectionLike + Clone + Send + 'static> Lock for RenewedHash<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        let is_ours = self.hash.try_acquire().await?;
        // Removes a timer that has ended because the lock was lost.
        _ = self.timer.try_join_next();
        if is_ours && self.timer.is_empty() {
            let ReentrantHash { connection, key, id, lease_seconds } = &self.hash;
            self.timer.spawn(renew(connection.clone(), key.clone(), id.clone(), *lease_seconds));
        }
        Ok(is_ours)
    }

    async fn release(&mut self) -> RedisResult<Release> {
        let release = self.hash.release().await?;
        if release != Release::Inner {
            self.timer = JoinSet::new();
        }
        Ok(release)
    }

    fn record(&self) -> Record {
        self.hash.record()
    }
}

/// Renews the lease until the lock is lost or a command fails.
async fn renew<C: ConnectionLike + Send>(mut connection: C, key: String, id: String, lease_seconds: u64) {
    loop {
        tokio::time::sleep(Duration::from_secs(lease_seconds) / 3).await;
        let renewed = RENEW_SCRIPT.key(&key).arg(&id).arg(lease_seconds).invoke_async(&mut connection).await;
        if !matches!(renewed, Ok(true)) {
            return;
        }
    }
}
