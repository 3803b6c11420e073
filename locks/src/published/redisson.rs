//! `redisson`: the reentrant lock of Redisson. It is a hash with the holder as its one field, and
//! it notifies waiting clients.
//!
//! 1. Acquire, one script: if the key does not exist, or has our field, `HINCRBY k id 1` and
//!    `PEXPIRE k L`: the client holds the lock. Otherwise `PTTL k`, the longest time to wait.
//! 2. To wait for the lock: try, `SUBSCRIBE` to the lock's channel, then repeat: try, and wait for
//!    a message, but no longer than the PTTL.
//! 3. From the acquire to the last release, every third of a lease, one script: if the key has our
//!    field, `PEXPIRE k L`. If it does not, this watchdog ends.
//! 4. Release, one script: if the key does not have our field, return nil. Otherwise
//!    `HINCRBY k id -1`. If the result is above 0, `PEXPIRE k L`. If it is 0, `DEL k` and
//!    `PUBLISH` to the channel. The watchdog ends with the last release, even if that fails.
//!
//! Source: the code of [Redisson](https://github.com/redisson/redisson), class `RedissonLock`, as
//! described by Huyan Shi, "Redis series 13: distributed locks" (2020-01, in Chinese). The default
//! lease of Redisson is 30 s. In Redisson, all threads of a process share one subscription; here
//! every client has its own.
//!
//! A watchdog belongs to its process. Row `redisson`: clients wait for the lock, and the process of
//! a client ends with it. Row `redisson_process`: clients try once, and their processes go on for
//! two leases. Then the code that handles a reply belongs to the process, too: it goes on if nobody
//! waits for the reply any more.
//!
//! The client tries again after the `SUBSCRIBE`, so no wake-up is lost between the failed try and
//! the `SUBSCRIBE`. The zoo of bugs has a copy of this lock without that try. A message is
//! published only by a release that finds the lock. If a server has lost the lock, waiting clients
//! wait until the lease would have ended.
//!
//! How it breaks: as `renewed_hash` does.
//! - A client stalls as a whole, with its watchdog.
//! - The reply to a release is lost. The release is sent again, and counts down twice.
//! - A server loses the lock, by a restart without data or by a failover before replication.
//! - A watchdog ends at the first error, for example while a server loads its data.
//! - An acquire is cancelled, and its request runs:
//!   [issue 2714](https://github.com/redisson/redisson/issues/2714). Or a client ends after an
//!   error, and does not release. The watchdog then renews for nobody, as long as its process runs.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{RedisResult, Script};
use tokio::task::AbortHandle;

use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::spec::{Ability, Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};
use crate::subscribe::Subscribe;

const ACQUIRE: &str = "\
-- acquire
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return nil
end
return redis.call('PTTL', KEYS[1])";

const RENEW: &str = "\
-- renew
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0";

const RELEASE: &str = "\
-- release
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return nil
end
if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[2], 'free')
return 1";

static ACQUIRE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(ACQUIRE));
static RENEW_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(RENEW));
static RELEASE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(RELEASE));

const SCRIPTS: &[&str] = &[ACQUIRE, RENEW, RELEASE];

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "redisson",
    spec: &Spec {
        kind: AlgorithmKind::Mutex,
        abilities: &[Ability::Reenters, Ability::Waits],
        guarantees: "one holder at a time, as long as its watchdog runs; a waiting client is woken when the lock is free",
        assumes: "that no client stalls for a lease, its watchdog included, and one server that keeps its data",
        objection: "a watchdog stalls together with its holder; if a failover loses the lock, two clients hold it",
        breaks: &[
            (Property::ExclusiveFact, FaultClass::Slow),
            (Property::ExclusiveBelief, FaultClass::Slow),
            // The reply to a refused attempt says how long to wait, and can be late itself.
            (Property::NoLostWakeUp, FaultClass::Slow),
            (Property::ExclusiveFact, FaultClass::Lost),
            (Property::ExclusiveBelief, FaultClass::Lost),
            (Property::ExclusiveFact, FaultClass::Server),
            (Property::ExclusiveBelief, FaultClass::Server),
            (Property::NoLostWakeUp, FaultClass::Server),
            (Property::Unbroken, FaultClass::Slow),
            (Property::NoLeak, FaultClass::Server),
            (Property::Unbroken, FaultClass::Server),
            (Property::ExclusiveFact, FaultClass::Failover),
            (Property::ExclusiveBelief, FaultClass::Failover),
            (Property::NoLeak, FaultClass::Failover),
            (Property::NoLostWakeUp, FaultClass::Failover),
            (Property::Unbroken, FaultClass::Failover),
        ],
    },
    scripts: SCRIPTS,
    open: Open::One(|connection, env, terms| Box::new(Redisson::new(connection, &env, terms))),
};

/// The row of this algorithm in processes that go on after their clients.
pub const ALGORITHM_IN_PROCESS: Algorithm = Algorithm {
    name: "redisson_process",
    spec: &Spec {
        abilities: &[Ability::Reenters],
        guarantees: "one holder at a time, as long as its watchdog runs",
        objection: "a watchdog renews for nobody after a cancelled acquire or a missing release, and ends at the first error",
        breaks: &[
            (Property::ExclusiveFact, FaultClass::Slow),
            (Property::ExclusiveBelief, FaultClass::Slow),
            (Property::ExclusiveFact, FaultClass::Lost),
            (Property::ExclusiveBelief, FaultClass::Lost),
            // After an error, a client gives up without a release.
            (Property::Recovers, FaultClass::Lost),
            (Property::Recovers, FaultClass::Cancel),
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
        ..*ALGORITHM.spec
    },
    scripts: SCRIPTS,
    open: Open::One(|connection, env, terms| {
        Box::new(Redisson::new(connection, &env, terms).in_process_for(2 * terms.lease))
    }),
};

/// One client's side of the lock. Its watchdog is a tokio task, on a clone of its connection.
#[derive(Debug)]
pub struct Redisson<C: Subscribe + Clone + Send + Sync + 'static> {
    handle: Handle<C>,
    /// For how long the process of the client goes on after it.
    process_lasts: Duration,
}

/// The parts of a lock that its process has. Clones share the watchdog.
#[derive(Clone, Debug)]
struct Handle<C> {
    connection: C,
    key: String,
    channel: String,
    id: String,
    lease_ms: i64,
    watchdog: Arc<Mutex<Watchdog>>,
}

/// The renewal of a grant.
#[derive(Debug, Default)]
struct Watchdog {
    /// How often the client has acquired, and not released.
    holds: u32,
    task: Option<AbortHandle>,
}

impl<C: Subscribe + Clone + Send + Sync + 'static> Redisson<C> {
    /// A client that holds nothing, and whose process ends with it.
    pub fn new(connection: C, env: &Env, terms: &Terms) -> Redisson<C> {
        let (key, channel) = (terms.key.clone(), format!("redisson_lock__channel:{{{}}}", terms.key));
        let (id, lease_ms, watchdog) = (env.unique(), terms.lease_ms(), Arc::default());
        let handle = Handle { connection, key, channel, id, lease_ms, watchdog };
        Redisson { handle, process_lasts: Duration::ZERO }
    }

    /// The process of the client goes on for `process_lasts` after the client has ended.
    pub fn in_process_for(mut self, process_lasts: Duration) -> Redisson<C> {
        self.process_lasts = process_lasts;
        self
    }

    async fn attempt(&mut self) -> RedisResult<Option<i64>> {
        if self.process_lasts.is_zero() {
            return self.handle.attempt().await;
        }
        let mut handle = self.handle.clone();
        in_process(async move { handle.attempt().await }).await
    }
}

/// Runs code that goes on if nobody waits for its result any more.
async fn in_process<T: Send + 'static>(code: impl Future<Output = T> + Send + 'static) -> T {
    tokio::spawn(code).await.unwrap_or_else(|end| std::panic::resume_unwind(end.into_panic()))
}

impl<C: Subscribe + Clone + Send + Sync + 'static> Handle<C> {
    /// Tries once. Returns `None` if the client now holds the lock. Otherwise returns the rest of
    /// the lease in milliseconds, or -1 if the key has no time to live.
    async fn attempt(&mut self) -> RedisResult<Option<i64>> {
        let mut script = ACQUIRE_SCRIPT.key(&self.key);
        let script = script.arg(&self.id).arg(self.lease_ms);
        let ttl_ms: Option<i64> = script.invoke_async(&mut self.connection).await?;
        if ttl_ms.is_none() {
            let mut watchdog = self.watchdog();
            watchdog.holds += 1;
            // The task has ended if the lock was lost.
            if watchdog.task.as_ref().is_none_or(AbortHandle::is_finished) {
                watchdog.task = Some(tokio::spawn(self.clone().renew()).abort_handle());
            }
        }
        Ok(ttl_ms)
    }

    async fn release(&mut self) -> RedisResult<Release> {
        let mut script = RELEASE_SCRIPT.key(&self.key);
        let script = script.key(&self.channel).arg(&self.id).arg(self.lease_ms);
        let is_free: RedisResult<Option<bool>> = script.invoke_async(&mut self.connection).await;
        let mut watchdog = self.watchdog();
        watchdog.holds = watchdog.holds.saturating_sub(1);
        if watchdog.holds == 0 || matches!(is_free, Ok(Some(true) | None)) {
            watchdog.stop();
        }
        Ok(match is_free? {
            Some(true) => Release::Released,
            Some(false) => Release::Inner,
            None => Release::NotHeld,
        })
    }

    /// Renews the lease until the lock is lost or a command fails.
    async fn renew(mut self) {
        let third = Duration::from_millis(u64::try_from(self.lease_ms / 3).unwrap_or(0));
        loop {
            tokio::time::sleep(third).await;
            let mut script = RENEW_SCRIPT.key(&self.key);
            let script = script.arg(&self.id).arg(self.lease_ms);
            if !matches!(script.invoke_async(&mut self.connection).await, Ok(true)) {
                return;
            }
        }
    }

    fn watchdog(&self) -> MutexGuard<'_, Watchdog> {
        self.watchdog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watchdog {
    fn stop(&mut self) {
        self.holds = 0;
        self.task.take().inspect(AbortHandle::abort);
    }
}

impl<C: Subscribe + Clone + Send + Sync + 'static> Lock for Redisson<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        Ok(self.attempt().await?.is_none())
    }

    async fn acquire(&mut self) -> RedisResult<bool> {
        if self.attempt().await?.is_none() {
            return Ok(true);
        }
        let mut subscription = self.handle.connection.subscribe(&self.handle.channel).await?;
        while let Some(ttl_ms) = self.attempt().await? {
            // In the last millisecond of a key, its PTTL is 0. A timer waits for at least one
            // millisecond.
            let patience = u64::try_from(ttl_ms).map_or(Duration::MAX, |ms| Duration::from_millis(ms.max(1)));
            if let Ok(message) = tokio::time::timeout(patience, subscription.message()).await {
                message?;
            }
        }
        Ok(true)
    }

    async fn release(&mut self) -> RedisResult<Release> {
        if self.process_lasts.is_zero() {
            return self.handle.release().await;
        }
        let mut handle = self.handle.clone();
        in_process(async move { handle.release().await }).await
    }

    fn record(&self) -> Record {
        Record::Field(self.handle.key.clone(), self.handle.id.clone())
    }
}

impl<C: Subscribe + Clone + Send + Sync + 'static> Drop for Redisson<C> {
    fn drop(&mut self) {
        let (handle, process_lasts) = (self.handle.clone(), self.process_lasts);
        if process_lasts.is_zero() {
            return handle.watchdog().stop();
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                tokio::time::sleep(process_lasts).await;
                handle.watchdog().stop();
            });
        }
    }
}
