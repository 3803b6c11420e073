//! `redisson`: the reentrant lock of Redisson, a hash with the holder as its one field, that tells waiters when it is free.
//!
//! 1. Acquire, one script: if there is no such key, or it has our field, `HINCRBY k id 1` and `PEXPIRE k L`: the lock is ours.
//!    Otherwise `PTTL k`: so long it may take.
//! 2. To wait for it: try; `SUBSCRIBE` to the lock's channel; then try again, wait for a message, but no longer than that PTTL,
//!    and so on.
//! 3. From the acquire to the last release, every third of a lease, one script: if the key has our field, `PEXPIRE k L`. If it
//!    has not,
//!    this watchdog ends.
//! 4. Release, one script: without our field, nil; otherwise `HINCRBY k id -1`. If something is left, `PEXPIRE k L`; if nothing
//!    is, `DEL k`
//!    and `PUBLISH` to the channel.
//!
//! Source: the code of [Redisson](https://github.com/redisson/redisson), class `RedissonLock`, as Huyan Shi describes it, "Redis
//! series 13: distributed locks" (2020-01, in Chinese). Redisson's lease is 30 s unless it is told otherwise; a whole process
//! there has one subscription for all its threads, here every client has its own.
//!
//! No wake-up is lost between the failed try and the `SUBSCRIBE`, because of the try that comes after: the zoo of bugs has the
//! same lock without it. But a message comes only of a release that finds the lock: whoever waits for one that a server has lost
//! waits until the lease would have been over.
//!
//! Who breaks it: whatever breaks `renewed_hash`. A client that stalls as a whole, its watchdog included; a release that is sent
//! again after its reply was lost, and counts down twice; a server that loses the lock: a restart without data, or a failover
//! before it is replicated.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{RedisResult, Script};
use tokio::task::JoinSet;

use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::registry::{Algorithm, FaultClass, Kind, Open, Property, Spec};
use crate::subscribe::Subscribe;

const ACQUIRE: &str = "\
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return nil
end
return redis.call('PTTL', KEYS[1])";

const RENEW: &str = "\
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0";

const RELEASE: &str = "\
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

/// The registry's row.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "redisson",
    spec: &Spec {
        kind: Kind::Waiting,
        guarantees: "one holder at a time, for as long as its watchdog runs; who waits is woken when it is free",
        assumes: "that no client stalls for a lease, its watchdog included, and one server that keeps its data",
        objection: "a watchdog stalls together with its holder, and what a failover loses, two have",
        breaks: &[
            (Property::ExclusiveFact, FaultClass::Slow),
            (Property::ExclusiveBelief, FaultClass::Slow),
            (Property::ExclusiveFact, FaultClass::Lost),
            (Property::ExclusiveBelief, FaultClass::Lost),
            (Property::ExclusiveFact, FaultClass::Server),
            (Property::ExclusiveBelief, FaultClass::Server),
            (Property::NoLostWakeUp, FaultClass::Server),
        ],
    },
    scripts: &[ACQUIRE, RENEW, RELEASE],
    open: Open::One(|connection, env, terms| Box::new(Redisson::new(connection, &env, terms))),
};

/// One client's side of the lock. Its watchdog is a task of tokio's, on a clone of its connection.
#[derive(Debug)]
pub struct Redisson<C> {
    connection: C,
    key: String,
    channel: String,
    id: String,
    lease_ms: i64,
    /// One task while the client holds. It ends when this is dropped.
    watchdog: JoinSet<()>,
}

impl<C: Subscribe + Clone + Send + Sync + 'static> Redisson<C> {
    /// A client that holds nothing.
    pub fn new(connection: C, env: &Env, terms: &Terms) -> Redisson<C> {
        let (key, channel) = (terms.key.clone(), format!("{}:channel", terms.key));
        let (id, lease_ms, watchdog) = (env.unique(), terms.lease_ms(), JoinSet::new());
        Redisson { connection, key, channel, id, lease_ms, watchdog }
    }

    /// Tries once. `None` if the lock is ours; otherwise for how many milliseconds it is another's unless that one renews it, and
    /// -1 if it is for ever.
    async fn attempt(&mut self) -> RedisResult<Option<i64>> {
        let mut script = ACQUIRE_SCRIPT.key(&self.key);
        let ttl_ms: Option<i64> =
            script.arg(&self.id).arg(self.lease_ms).invoke_async(&mut self.connection).await?;
        // A watchdog that found the lock lost has ended.
        _ = self.watchdog.try_join_next();
        if ttl_ms.is_none() && self.watchdog.is_empty() {
            let Redisson { connection, key, id, lease_ms, .. } = self;
            self.watchdog.spawn(renew(connection.clone(), key.clone(), id.clone(), *lease_ms));
        }
        Ok(ttl_ms)
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
        let mut subscription = self.connection.subscribe(&self.channel).await?;
        while let Some(ttl_ms) = self.attempt().await? {
            // In its last millisecond a key has 0 to live, and no timer is finer than that.
            let patience = u64::try_from(ttl_ms).map_or(Duration::MAX, |ms| Duration::from_millis(ms.max(1)));
            if let Ok(message) = tokio::time::timeout(patience, subscription.message()).await {
                message?;
            }
        }
        Ok(true)
    }

    async fn release(&mut self) -> RedisResult<Release> {
        let mut script = RELEASE_SCRIPT.key(&self.key);
        let script = script.key(&self.channel).arg(&self.id).arg(self.lease_ms);
        let is_free: Option<bool> = script.invoke_async(&mut self.connection).await?;
        let release = match is_free {
            Some(true) => Release::Released,
            Some(false) => Release::Inner,
            None => Release::NotHeld,
        };
        if release != Release::Inner {
            self.watchdog = JoinSet::new();
        }
        Ok(release)
    }

    fn record(&self) -> Record {
        Record::Field(self.key.clone(), self.id.clone())
    }
}

/// Until the lock is no longer ours, or cannot be asked for.
async fn renew<C: Subscribe + Send>(mut connection: C, key: String, id: String, lease_ms: i64) {
    let third = Duration::from_millis(u64::try_from(lease_ms / 3).unwrap_or(0));
    loop {
        tokio::time::sleep(third).await;
        let mut script = RENEW_SCRIPT.key(&key);
        let renewed = script.arg(&id).arg(lease_ms).invoke_async(&mut connection).await;
        if !matches!(renewed, Ok(true)) {
            return;
        }
    }
}
