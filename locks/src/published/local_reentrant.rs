//! `local_reentrant`: the client counts its nested grants itself, and uses Redis only for the
//! outermost one.
//!
//! 1. Acquire: if the client holds already, count. Otherwise `SET k token NX EX L`: the reply `OK`
//!    means that the client holds the lock. Then start a task that renews it.
//! 2. The task, at most four times, while the flag is set that all locks of the client share: a
//!    script does `EXPIRE k L` if the value is our token. Then the task sleeps for L.
//! 3. Release: count down. At the outermost release, a script deletes the key if its value is our
//!    token, and the flag is cleared.
//!
//! Source: Huyan Shi, "Redis series 13: distributed locks" (2020-01, in Chinese).
//!
//! How it breaks, always by time:
//! - The task sleeps for a whole lease, so it wakes when the lease has just ended.
//! - A nested acquire sends no command. After the lease has ended, it succeeds although B holds the
//!   lock.
//! - The release of one lock clears the shared flag, which ends the renewal of all other locks.
//! - After four renewals nobody renews the lease of a holder that still works.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{RedisResult, Script};
use tokio::task::JoinSet;

use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::script::{COMPARE_AND_DELETE, compare_and_delete};
use crate::spec::{Ability, Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

const COMPARE_AND_EXPIRE: &str = "\
-- extend
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('EXPIRE', KEYS[1], ARGV[2])
end
return 0";

static COMPARE_AND_EXPIRE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(COMPARE_AND_EXPIRE));

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "local_reentrant",
    spec: &Spec {
        kind: AlgorithmKind::Mutex,
        abilities: &[Ability::Reenters],
        guarantees: "one holder at a time, which may acquire again, while no lease ends",
        assumes: "that every holder is done before its lease ends",
        objection: "a nested acquire does not ask the server, and the renewal runs when the lease has just ended",
        breaks: &[
            (Property::ExclusiveFact, FaultClass::Slow),
            (Property::ExclusiveBelief, FaultClass::Slow),
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
    scripts: &[COMPARE_AND_DELETE, COMPARE_AND_EXPIRE],
    open: Open::One(|connection, env, terms| Box::new(LocalReentrant::new(connection, env, terms))),
};

const RENEWALS_MAX: u32 = 4;

/// One client's side of any number of locks. It renews in tokio tasks, on clones of its connection.
#[derive(Debug)]
pub struct LocalReentrant<C> {
    connection: C,
    env: Env,
    key: String,
    lease_seconds: u64,
    /// For each key, the token that was last used, and the number of nested grants.
    holds: BTreeMap<String, (String, u32)>,
    /// The shared flag: all locks of this client are to be renewed.
    renews: Arc<AtomicBool>,
    /// The tasks that renew. They end when this is dropped.
    renewals: JoinSet<()>,
}

impl<C: ConnectionLike + Clone + Send + 'static> LocalReentrant<C> {
    /// A client that holds nothing.
    pub fn new(connection: C, env: Env, terms: &Terms) -> LocalReentrant<C> {
        let (key, lease_seconds) = (terms.key.clone(), terms.lease_seconds());
        let (holds, renews, renewals) = (BTreeMap::new(), Arc::default(), JoinSet::new());
        LocalReentrant { connection, env, key, lease_seconds, holds, renews, renewals }
    }

    /// Tries once to get the lock of this key.
    pub async fn try_lock(&mut self, key: &str) -> RedisResult<bool> {
        let (token, depth) = self.holds.entry(key.into()).or_default();
        if *depth == 0 {
            *token = self.env.unique();
            let mut set = redis::cmd("SET");
            set.arg(key).arg(&*token).arg("NX").arg("EX").arg(self.lease_seconds);
            if !set.query_async(&mut self.connection).await? {
                return Ok(false);
            }
            self.renews.store(true, Ordering::Relaxed);
            let (key, token, renews) = (key.to_owned(), token.clone(), self.renews.clone());
            self.renewals.spawn(renew(self.connection.clone(), key, token, self.lease_seconds, renews));
        }
        *depth += 1;
        Ok(true)
    }

    /// Gives one grant of this key's lock back.
    pub async fn unlock(&mut self, key: &str) -> RedisResult<Release> {
        let Some((token, depth @ 1..)) = self.holds.get_mut(key) else { return Ok(Release::NotHeld) };
        *depth -= 1;
        if *depth > 0 {
            return Ok(Release::Inner);
        }
        let release = compare_and_delete(&mut self.connection, key, token).await;
        self.renews.store(false, Ordering::Relaxed);
        release
    }
}

impl<C: ConnectionLike + Clone + Send + 'static> Lock for LocalReentrant<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        self.try_lock(&self.key.clone()).await
    }

    async fn release(&mut self) -> RedisResult<Release> {
        self.unlock(&self.key.clone()).await
    }

    fn record(&self) -> Record {
        let token = self.holds.get(&self.key).map(|(token, _)| token.clone());
        Record::Value(self.key.clone(), token.unwrap_or_default())
    }
}

async fn renew<C: ConnectionLike + Send>(
    mut connection: C,
    key: String,
    token: String,
    lease_seconds: u64,
    renews: Arc<AtomicBool>,
) {
    for _ in 0..RENEWALS_MAX {
        if !renews.load(Ordering::Relaxed) {
            return;
        }
        let mut script = COMPARE_AND_EXPIRE_SCRIPT.key(&key);
        let renewed = script.arg(&token).arg(lease_seconds).invoke_async(&mut connection).await;
        if !matches!(renewed, Ok(true)) {
            return;
        }
        tokio::time::sleep(Duration::from_secs(lease_seconds)).await;
    }
}
