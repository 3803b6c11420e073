//! `mutex`: a lock with a lease, for use.
//!
//! 1. Acquire, one script: if the key does not exist, or holds our token, set it to our token with
//!    a time to live of one lease.
//! 2. Release, one script: delete the key if it holds our token.
//!
//! Each attempt has its own token. If the reply of an attempt was lost, the next attempt sends that
//! token again. It then finds the grant that the lost attempt made.
//!
//! Source: <https://redis.io/docs/latest/commands/set/#patterns>.

use std::sync::LazyLock;

use redis::aio::ConnectionLike;
use redis::{RedisResult, Script};

use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::script::{COMPARE_AND_DELETE, compare_and_delete};
use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

const ACQUIRE: &str = "\
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1";

static ACQUIRE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(ACQUIRE));

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "mutex",
    spec: &Spec {
        kind: AlgorithmKind::Mutex,
        abilities: &[],
        guarantees: "one unexpired grant at a time, ended by its holder or by its lease",
        assumes: "one server that keeps its data and whose clock does not jump",
        objection: "a holder that outlives its lease does not know it: only a fencing token keeps it out",
        breaks: &[
            (Property::ExclusiveBelief, FaultClass::Slow),
            (Property::ExclusiveFact, FaultClass::Server),
            (Property::ExclusiveBelief, FaultClass::Server),
            (Property::NoLeak, FaultClass::Server),
        ],
    },
    scripts: &[ACQUIRE, COMPARE_AND_DELETE],
    open: Open::One(|connection, env, terms| Box::new(Mutex::new(connection, env, terms))),
};

/// One client's side of a lock: never more than one unexpired grant at a time.
///
/// A grant lasts one lease. A client that may work for longer must not rely on the lock alone.
#[derive(Debug)]
pub struct Mutex<C> {
    connection: C,
    env: Env,
    key: String,
    lease_ms: i64,
    /// The token of the last successful attempt.
    token: String,
    /// The token of an attempt whose reply did not arrive. That attempt may have succeeded, so the
    /// next one sends the same token.
    in_doubt: Option<String>,
}

impl<C: ConnectionLike + Send> Mutex<C> {
    /// A client that holds nothing. It ignores the `permits` of the terms, which are always 1.
    pub fn new(connection: C, env: Env, terms: &Terms) -> Mutex<C> {
        let (key, lease_ms) = (terms.key.clone(), terms.lease_ms());
        Mutex { connection, env, key, lease_ms, token: String::new(), in_doubt: None }
    }
}

impl<C: ConnectionLike + Send> Lock for Mutex<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        let token = self.in_doubt.get_or_insert_with(|| self.env.unique()).clone();
        let mut script = ACQUIRE_SCRIPT.key(&self.key);
        let is_ours = script.arg(&token).arg(self.lease_ms).invoke_async(&mut self.connection).await?;
        self.in_doubt = None;
        if is_ours {
            self.token = token;
        }
        Ok(is_ours)
    }

    async fn release(&mut self) -> RedisResult<Release> {
        compare_and_delete(&mut self.connection, &self.key, &self.token).await
    }

    fn record(&self) -> Record {
        Record::Value(self.key.clone(), self.token.clone())
    }
}
