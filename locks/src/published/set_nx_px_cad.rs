//! `set_nx_px_cad`: the value is the holder's token, and one script compares and deletes it.
//!
//! 1. `SET k token NX PX L`: the reply `OK` means that the client holds the lock.
//! 2. Release: a script that deletes the key if its value is our token.
//!
//! Source: "Distributed locks by Redis" (in Chinese, notes on SET's options); the pattern on
//! <https://redis.io/docs/latest/commands/set/#patterns>.
//!
//! How it breaks: only by time. A holder that is slower than its lease still believes that it holds
//! the lock, and B enters beside it. No lock without fencing prevents that: Martin Kleppmann, "How
//! to do distributed locking" (2016).

use redis::RedisResult;
use redis::aio::ConnectionLike;

use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::script::{COMPARE_AND_DELETE, compare_and_delete};
use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "set_nx_px_cad",
    spec: &Spec {
        kind: AlgorithmKind::Mutex,
        abilities: &[],
        guarantees: "one unexpired grant at a time, ended by its holder or by its lease",
        assumes: "one server that keeps its data",
        objection: "a holder that outlives its lease does not know it, and nothing fences it off",
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
    scripts: &[COMPARE_AND_DELETE],
    open: Open::One(|connection, env, terms| Box::new(SetNxPxCad::new(connection, env, terms))),
};

/// One client's side of the lock.
#[derive(Debug)]
pub struct SetNxPxCad<C> {
    connection: C,
    env: Env,
    key: String,
    lease_ms: i64,
    token: String,
}

impl<C: ConnectionLike + Send> SetNxPxCad<C> {
    /// A client that holds nothing.
    pub fn new(connection: C, env: Env, terms: &Terms) -> SetNxPxCad<C> {
        SetNxPxCad {
            connection,
            env,
            key: terms.key.clone(),
            lease_ms: terms.lease_ms(),
            token: String::new(),
        }
    }
}

impl<C: ConnectionLike + Send> Lock for SetNxPxCad<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        self.token = self.env.unique();
        set_nx_px(&mut self.connection, &self.key, &self.token, self.lease_ms).await
    }

    async fn release(&mut self) -> RedisResult<Release> {
        compare_and_delete(&mut self.connection, &self.key, &self.token).await
    }

    fn record(&self) -> Record {
        Record::Value(self.key.clone(), self.token.clone())
    }
}

/// Sets the key to the token if the key does not exist. Returns whether it did so.
pub(super) async fn set_nx_px<C: ConnectionLike + Send>(
    connection: &mut C,
    key: &str,
    token: &str,
    lease_ms: i64,
) -> RedisResult<bool> {
    let mut set = redis::cmd("SET");
    set.arg(key).arg(token).arg("NX").arg("PX").arg(lease_ms);
    set.query_async(connection).await
}
