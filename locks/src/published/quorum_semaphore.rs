//! `quorum_semaphore`: a semaphore on each of three independent servers. A client that has a permit
//! of most of them has one of all.
//!
//! With `now` from the client's clock, `E` the lease and `N` the permits:
//!
//! 1. On one server after the other, one script: `ZREMRANGEBYSCORE k -inf now-E`. If `ZCARD k` is
//!    below N, `ZADD k now id` and `PEXPIRE k E`. A server that does not answer counts as refused.
//! 2. If most servers gave a permit, the client holds one.
//! 3. Otherwise, and for a release: `ZREM k id` on every server.
//!
//! Source: the code of [redis-semaphore], class `RedlockSemaphore`, which does the first step on
//! all servers at once.
//!
//! How it breaks: two majorities have a server in common, so Redlock is exclusive. But N + 1
//! majorities need not all have one in common. Let there be three servers and two permits. A has
//! servers 1 and 2, B has 1 and 3, and C has 2 and 3. No server has more than two holders, and
//! there are three.
//!
//! With one permit, it breaks as `redlock` does. A client whose clock is ahead by a lease removes
//! the holders, too.
//!
//! [redis-semaphore]: https://github.com/swarthy/redis-semaphore

use std::sync::LazyLock;

use redis::aio::ConnectionLike;
use redis::{RedisResult, Script, cmd};

use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

/// Takes a permit of the semaphore `KEYS[1]`, which has `ARGV[1]`, as `ARGV[2]`. `ARGV[3]` is the
/// lease, and `ARGV[4]` is the time, in milliseconds.
const ACQUIRE: &str = "\
-- acquire
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[4] - ARGV[3])
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then
  return 0
end
redis.call('ZADD', KEYS[1], ARGV[4], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1";

static ACQUIRE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(ACQUIRE));

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "quorum_semaphore",
    spec: &Spec {
        kind: AlgorithmKind::Semaphore,
        abilities: &[],
        guarantees: "about N holders, as long as most servers answer",
        assumes: "clocks that agree to within a lease, servers that keep their data, and one permit",
        objection: "N + 1 majorities need not have a server in common, so each server may give N permits to other clients",
        breaks: &[
            (Property::OverIssue, FaultClass::Order),
            (Property::ExclusiveBelief, FaultClass::Order),
            (Property::Progress, FaultClass::Order),
            (Property::OwnerSafe, FaultClass::Skew),
        ],
    },
    scripts: &[ACQUIRE],
    open: Open::Many(3, |connections, env, terms| Box::new(QuorumSemaphore::new(connections, env, terms))),
};

/// One client's side of the semaphore.
#[derive(Debug)]
pub struct QuorumSemaphore<C> {
    connections: Vec<C>,
    env: Env,
    terms: Terms,
    id: String,
}

impl<C: ConnectionLike + Send> QuorumSemaphore<C> {
    /// A client that holds nothing, with a connection to each server.
    pub fn new(connections: Vec<C>, env: Env, terms: &Terms) -> QuorumSemaphore<C> {
        let id = env.unique();
        QuorumSemaphore { connections, env, terms: terms.clone(), id }
    }

    fn is_majority(&self, servers: usize) -> bool {
        2 * servers > self.connections.len()
    }
}

impl<C: ConnectionLike + Send> Lock for QuorumSemaphore<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        let now_ms = self.env.now_ms();
        let mut acquire = ACQUIRE_SCRIPT.key(&self.terms.key);
        acquire.arg(self.terms.permits).arg(&self.id).arg(self.terms.lease_ms()).arg(now_ms);
        let mut granted = 0;
        for connection in &mut self.connections {
            let answer: RedisResult<bool> = acquire.invoke_async(connection).await;
            granted += usize::from(answer.unwrap_or(false));
        }
        if self.is_majority(granted) {
            return Ok(true);
        }
        self.release().await?;
        Ok(false)
    }

    async fn release(&mut self) -> RedisResult<Release> {
        let zrem = cmd("ZREM").arg(&self.terms.key).arg(&self.id).to_owned();
        let mut released = 0;
        for connection in &mut self.connections {
            let answer: RedisResult<bool> = zrem.query_async(connection).await;
            released += usize::from(answer == Ok(true));
        }
        Ok(if self.is_majority(released) { Release::Released } else { Release::NotHeld })
    }

    fn record(&self) -> Record {
        Record::MajorityMember(self.terms.key.clone(), self.id.clone())
    }
}
