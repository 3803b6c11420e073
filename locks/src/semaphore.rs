//! `semaphore`: up to N holders at a time, each with a lease, for use.
//!
//! A sorted set of tokens. The score of each token is the end of its lease in the server's time.
//!
//! 1. Acquire, one script: remove all tokens whose lease has ended. If fewer than N tokens are
//!    left, or our token is among them, add it with the end of its lease. Raise the key's time to
//!    live to at least one lease.
//! 2. Release, one script: remove our token, and return whether its lease still ran.
//!
//! Time comes only from the server. Counting and adding are one step. A lease ends without any
//! client. Therefore no client's clock, no order of commands and no crash changes the number of
//! permits.
//!
//! Source: Josiah Carlson, "Redis in Action", chapter 6.3, without its races and without the
//! clients' clocks.

use std::sync::LazyLock;

use redis::aio::ConnectionLike;
use redis::{RedisResult, Script};

use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

/// Scores are whole milliseconds, which a double represents exactly.
///
/// The script never lowers the key's time to live. A short lease must not end a longer one in the
/// same key.
const ACQUIRE: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local lease = tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + lease, ARGV[1])
if redis.call('PTTL', KEYS[1]) < lease then
  redis.call('PEXPIRE', KEYS[1], lease)
end
return 1";

const RELEASE: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local deadline = redis.call('ZSCORE', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[1], ARGV[1])
return deadline and tonumber(deadline) > now and 1 or 0";

static ACQUIRE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(ACQUIRE));
static RELEASE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(RELEASE));

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "semaphore",
    spec: &Spec {
        kind: AlgorithmKind::Semaphore,
        abilities: &[],
        guarantees: "never more than N unexpired grants, and all N permits are available again one lease after any crash",
        assumes: "one server that keeps its data and whose clock does not jump",
        objection: "a holder that outlives its lease does not know it",
        breaks: &[
            (Property::ExclusiveBelief, FaultClass::Slow),
            (Property::OverIssue, FaultClass::Server),
            (Property::ExclusiveBelief, FaultClass::Server),
            (Property::NoLeak, FaultClass::Server),
        ],
    },
    scripts: &[ACQUIRE, RELEASE],
    open: Open::One(|connection, env, terms| Box::new(Semaphore::new(connection, env, terms))),
};

/// One client's side of a semaphore: never more than `permits` unexpired grants at a time.
///
/// A grant lasts one lease. A client that may work for longer must not rely on the semaphore alone.
#[derive(Debug)]
pub struct Semaphore<C> {
    connection: C,
    env: Env,
    key: String,
    lease_ms: i64,
    permits: u32,
    /// The token of the last successful attempt.
    token: String,
    /// The token of an attempt whose reply did not arrive. That attempt may have succeeded, so the
    /// next one sends the same token.
    in_doubt: Option<String>,
}

impl<C: ConnectionLike + Send> Semaphore<C> {
    /// A client that holds nothing.
    pub fn new(connection: C, env: Env, terms: &Terms) -> Semaphore<C> {
        let (key, lease_ms, permits) = (terms.key.clone(), terms.lease_ms(), terms.permits);
        Semaphore { connection, env, key, lease_ms, permits, token: String::new(), in_doubt: None }
    }
}

impl<C: ConnectionLike + Send> Lock for Semaphore<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        let token = self.in_doubt.get_or_insert_with(|| self.env.unique()).clone();
        let mut script = ACQUIRE_SCRIPT.key(&self.key);
        script.arg(&token).arg(self.lease_ms).arg(self.permits);
        let is_ours = script.invoke_async(&mut self.connection).await?;
        self.in_doubt = None;
        if is_ours {
            self.token = token;
        }
        Ok(is_ours)
    }

    async fn release(&mut self) -> RedisResult<Release> {
        let mut script = RELEASE_SCRIPT.key(&self.key);
        script.arg(&self.token).invoke_async(&mut self.connection).await.map(Release::from_count)
    }

    fn record(&self) -> Record {
        Record::Member(self.key.clone(), self.token.clone())
    }
}
