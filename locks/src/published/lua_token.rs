//! `lua_token`: as `lua_setnx_expire`, with the holder's token as the value, and a polling loop.
//!
//! 1. One script: `SETNX k token`. The token is a UUID, a dot and the time. If it set the key,
//!    `EXPIRE k L`, and the client holds the lock.
//! 2. To wait for the lock, in a loop: count, give up if the count is `max_try_count`, try, sleep.
//! 3. Release: a script that deletes the key if its value is our token.
//!
//! Source: mzorro.me, "A distributed lock with Redis, and its optimisation" (2017-10-25, in
//! Chinese).
//!
//! How it breaks: only by time, as `set_nx_px_cad` does. The loop also counts before it tries. With
//! a `max_try_count` of n it makes n - 1 attempts, and with 1 it makes none.

use std::time::Duration;

use redis::RedisResult;
use redis::aio::ConnectionLike;

use super::lua_setnx_expire::{SETNX_EXPIRE, SETNX_EXPIRE_SCRIPT};
use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::script::{COMPARE_AND_DELETE, compare_and_delete};
use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "lua_token",
    spec: &Spec {
        kind: AlgorithmKind::Mutex,
        abilities: &[],
        guarantees: "one unexpired grant at a time, ended by its holder or by its lease",
        assumes: "one server that keeps its data, and a lease of whole seconds",
        objection: "a holder that outlives its lease does not know it; a client that asks for n attempts gets n - 1",
        breaks: &[
            (Property::ExclusiveBelief, FaultClass::Slow),
            (Property::ExclusiveFact, FaultClass::Server),
            (Property::ExclusiveBelief, FaultClass::Server),
            (Property::NoLeak, FaultClass::Server),
            (Property::ExclusiveFact, FaultClass::Failover),
            (Property::ExclusiveBelief, FaultClass::Failover),
            (Property::NoLeak, FaultClass::Failover),
        ],
    },
    scripts: &[SETNX_EXPIRE, COMPARE_AND_DELETE],
    open: Open::One(|connection, env, terms| Box::new(LuaToken::new(connection, env, terms))),
};

/// One client's side of the lock.
#[derive(Debug)]
pub struct LuaToken<C> {
    connection: C,
    env: Env,
    key: String,
    lease_seconds: u64,
    token: String,
}

impl<C: ConnectionLike + Send> LuaToken<C> {
    /// A client that holds nothing.
    pub fn new(connection: C, env: Env, terms: &Terms) -> LuaToken<C> {
        let (key, lease_seconds) = (terms.key.clone(), terms.lease_seconds());
        LuaToken { connection, env, key, lease_seconds, token: String::new() }
    }

    /// Polls for the lock, with a pause after each attempt. Returns `false` after `max_try_count` -
    /// 1 failed attempts.
    pub async fn acquire(&mut self, max_try_count: u32, pause: Duration) -> RedisResult<bool> {
        let mut try_count = 0;
        loop {
            try_count += 1;
            if try_count >= max_try_count {
                return Ok(false);
            }
            if self.try_acquire().await? {
                return Ok(true);
            }
            tokio::time::sleep(pause).await;
        }
    }
}

impl<C: ConnectionLike + Send> Lock for LuaToken<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        self.token = format!("{}.{}", self.env.unique(), self.env.now_ms());
        let mut script = SETNX_EXPIRE_SCRIPT.key(&self.key);
        script.arg(&self.token).arg(self.lease_seconds).invoke_async(&mut self.connection).await
    }

    async fn release(&mut self) -> RedisResult<Release> {
        compare_and_delete(&mut self.connection, &self.key, &self.token).await
    }

    fn record(&self) -> Record {
        Record::Value(self.key.clone(), self.token.clone())
    }
}

#[cfg(test)]
mod tests {
    use redis::{Cmd, Pipeline, RedisFuture, Value};

    use super::*;

    /// A server on which the lock is always taken.
    #[derive(Default)]
    struct Taken {
        attempts: u32,
    }

    impl ConnectionLike for Taken {
        fn req_packed_command<'a>(&'a mut self, _: &'a Cmd) -> RedisFuture<'a, Value> {
            self.attempts += 1;
            Box::pin(async { Ok(Value::Int(0)) })
        }

        fn req_packed_commands<'a>(
            &'a mut self,
            _: &'a Pipeline,
            _: usize,
            _: usize,
        ) -> RedisFuture<'a, Vec<Value>> {
            unreachable!("the lock sends no pipeline")
        }

        fn get_db(&self) -> i64 {
            0
        }
    }

    #[test]
    fn the_loop_tries_once_less_than_it_is_told() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let terms = Terms { key: "lock".into(), lease: Duration::from_secs(10), permits: 1 };
        for (max_try_count, attempts) in [(0, 0), (1, 0), (2, 1), (3, 2), (10, 9)] {
            let mut lock = LuaToken::new(Taken::default(), Env::system(), &terms);
            assert!(!runtime.block_on(lock.acquire(max_try_count, Duration::ZERO)).unwrap());
            assert_eq!(lock.connection.attempts, attempts, "with max_try_count {max_try_count}");
        }
    }
}
