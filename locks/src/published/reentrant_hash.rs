//! `reentrant_hash`: a hash with one field. The field is the holder, and its value is the number of
//! nested grants.
//!
//! 1. Acquire, one script: if the key does not exist, or has our field, `HINCRBY k id 1` and
//!    `EXPIRE k L`: the client holds the lock.
//! 2. Release, one script: if the key does not have our field, return nil. Otherwise `HINCRBY k id
//!    -1`, and if the result is 0, `DEL k`.
//!
//! Source: "Distributed locks by Redis" (in Chinese, notes on a re-entrant lock by hash and Lua).
//!
//! How it breaks: by time. If the lease ends between two nested acquires, the inner acquire starts
//! a new count at 1. The inner release then ends the grant that the outer section still needs. B
//! enters beside A, although neither's latest lease has ended.
//!
//! A lost reply breaks it, too. If the reply to the inner release is lost, the client's library
//! sends the release again. The count goes down twice, and the lock is free under the outer
//! section. If an acquire is sent twice, the count is too high, and the lock stays taken until its
//! lease ends.

use std::sync::LazyLock;

use redis::aio::ConnectionLike;
use redis::{RedisResult, Script};

use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::spec::{Ability, Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

pub(super) const ACQUIRE: &str = "\
-- acquire
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
  redis.call('EXPIRE', KEYS[1], ARGV[2])
  return 1
end
return 0";

pub(super) const RELEASE: &str = "\
-- release
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return nil
end
if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) == 0 then
  redis.call('DEL', KEYS[1])
  return 1
end
return 0";

static ACQUIRE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(ACQUIRE));
static RELEASE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(RELEASE));

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "reentrant_hash",
    spec: &Spec {
        kind: AlgorithmKind::Mutex,
        abilities: &[Ability::Reenters],
        guarantees: "one holder at a time, which may acquire again, while no lease ends",
        assumes: "that no lease ends between two nested acquires",
        objection: "an inner acquire after the lease begins a new count, so its release frees the outer one's lock",
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
    scripts: &[ACQUIRE, RELEASE],
    open: Open::One(|connection, env, terms| Box::new(ReentrantHash::new(connection, &env, terms))),
};

/// One client's side of the lock.
#[derive(Debug)]
pub struct ReentrantHash<C> {
    pub(super) connection: C,
    pub(super) key: String,
    pub(super) id: String,
    pub(super) lease_seconds: u64,
}

impl<C: ConnectionLike + Send> ReentrantHash<C> {
    /// A client that holds nothing.
    pub fn new(connection: C, env: &Env, terms: &Terms) -> ReentrantHash<C> {
        let (key, lease_seconds) = (terms.key.clone(), terms.lease_seconds());
        ReentrantHash { connection, key, id: env.unique(), lease_seconds }
    }
}

impl<C: ConnectionLike + Send> Lock for ReentrantHash<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        let mut script = ACQUIRE_SCRIPT.key(&self.key);
        script.arg(&self.id).arg(self.lease_seconds).invoke_async(&mut self.connection).await
    }

    async fn release(&mut self) -> RedisResult<Release> {
        let mut script = RELEASE_SCRIPT.key(&self.key);
        let is_over: Option<bool> = script.arg(&self.id).invoke_async(&mut self.connection).await?;
        Ok(match is_over {
            Some(true) => Release::Released,
            Some(false) => Release::Inner,
            None => Release::NotHeld,
        })
    }

    fn record(&self) -> Record {
        Record::Field(self.key.clone(), self.id.clone())
    }
}
