//! `lua_setnx_expire`: `SETNX` and `EXPIRE` in one script.
//!
//! 1. One script: `SETNX k 1`. If it set the key, `EXPIRE k L`, and the client holds the lock.
//! 2. Release: `DEL k`.
//!
//! Source: mzorro.me, "A distributed lock with Redis, and its optimisation" (2017-10-25, in
//! Chinese).
//!
//! How it breaks: if a holder is slower than its lease, B takes the lock, A's `DEL` frees B's lock,
//! and C enters beside B.
//!
//! A script is not a transaction: if it fails, its earlier writes stay. If the lease is not a whole
//! number of seconds, `EXPIRE` returns an error. The key that `SETNX` made then stays for ever.
//!
//! A lost reply breaks it, too. The client's library sends the `DEL` again. If B has taken the lock
//! in between, the second `DEL` frees B's lock.

use std::sync::LazyLock;

use redis::aio::ConnectionLike;
use redis::{RedisResult, Script};

use crate::lock::{Lock, Record, Release, Terms};
use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

/// If `KEYS[1]` does not exist, sets it to `ARGV[1]` for `ARGV[2]` seconds. Returns whether it did
/// so.
pub(super) const SETNX_EXPIRE: &str = "\
-- acquire
if redis.call('SETNX', KEYS[1], ARGV[1]) == 1 then
  redis.call('EXPIRE', KEYS[1], ARGV[2])
  return 1
end
return 0";

pub(super) static SETNX_EXPIRE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(SETNX_EXPIRE));

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "lua_setnx_expire",
    spec: &Spec {
        kind: AlgorithmKind::Mutex,
        abilities: &[],
        guarantees: "one holder at a time, and a free lock one lease after a crash",
        assumes: "that no holder outlives its lease, and that the lease is a whole number of seconds",
        objection: "any client's DEL frees the lock",
        breaks: &[
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
            (Property::ExclusiveFact, FaultClass::Failover),
            (Property::ExclusiveBelief, FaultClass::Failover),
            (Property::OwnerSafe, FaultClass::Failover),
            (Property::NoLeak, FaultClass::Failover),
        ],
    },
    scripts: &[SETNX_EXPIRE],
    open: Open::One(|connection, _, terms| Box::new(LuaSetNxExpire::new(connection, terms))),
};

/// One client's side of the lock.
#[derive(Debug)]
pub struct LuaSetNxExpire<C> {
    connection: C,
    key: String,
    lease_seconds: u64,
}

impl<C: ConnectionLike + Send> LuaSetNxExpire<C> {
    /// A client that holds nothing.
    pub fn new(connection: C, terms: &Terms) -> LuaSetNxExpire<C> {
        LuaSetNxExpire { connection, key: terms.key.clone(), lease_seconds: terms.lease_seconds() }
    }
}

impl<C: ConnectionLike + Send> Lock for LuaSetNxExpire<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        let mut script = SETNX_EXPIRE_SCRIPT.key(&self.key);
        script.arg(1).arg(self.lease_seconds).invoke_async(&mut self.connection).await
    }

    async fn release(&mut self) -> RedisResult<Release> {
        redis::cmd("DEL").arg(&self.key).query_async(&mut self.connection).await.map(Release::from_count)
    }

    fn record(&self) -> Record {
        Record::Key(self.key.clone())
    }
}
