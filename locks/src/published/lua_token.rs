//! `lua_token`: as `lua_setnx_expire`, with the holder's token in the value, and a loop that polls.
//!
//! 1. One script: `SETNX k token`, where the token is a UUID, a dot and the time; if that set it, `EXPIRE k L`, and the lock is
//!    ours.
//! 2. To wait for it: count, give up if that is `max_try_count`, try, sleep, and so on.
//! 3. Release: a script that deletes the key if its value is our token.
//!
//! Source: mzorro.me, "A distributed lock with Redis, and its optimisation" (2017-10-25, in Chinese).
//!
//! Who breaks it: only time, as it does `set_nx_px_cad`. But the loop counts before it tries: with a `max_try_count` of n it
//! tries n - 1 times, and with 1 it never does.

use std::time::Duration;

use redis::RedisResult;
use redis::aio::ConnectionLike;

use super::lua_setnx_expire::{SETNX_EXPIRE, SETNX_EXPIRE_SCRIPT};
use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::registry::{Algorithm, FaultClass, Kind, Open, Property, Spec};
use crate::script::{COMPARE_AND_DELETE, compare_and_delete};

/// The registry's row.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "lua_token",
    spec: &Spec {
        kind: Kind::Mutex,
        guarantees: "one unexpired grant at a time, ended by its holder or by its lease",
        assumes: "one server that keeps its data, and a lease of whole seconds",
        objection: "a holder that outlives its lease does not know it; and who asks for n attempts gets n - 1",
        breaks: &[
            (Property::ExclusiveBelief, FaultClass::Slow),
            (Property::ExclusiveFact, FaultClass::Server),
            (Property::ExclusiveBelief, FaultClass::Server),
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

    /// Tries again and again, with a pause after each attempt; `false` when the attempts are used up. There are
    /// `max_try_count` - 1 of them.
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
