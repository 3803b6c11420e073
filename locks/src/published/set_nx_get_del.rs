//! `set_nx_get_del`: the value is the holder's token, and the client compares it.
//!
//! 1. `SET k token NX EX L`: the reply `OK` means that the client holds the lock.
//! 2. Release: `GET k`; if it is our token, `DEL k`.
//!
//! Source: Huyan Shi, "Redis series 13: distributed locks" (2020-01, in Chinese).
//!
//! How it breaks: a client stalls between the `GET` and the `DEL`. A's `GET` still returns A's
//! token. Then A's lease ends, B takes the lock, A's `DEL` frees B's lock, and C enters beside B.
//!
//! A lost reply breaks it, too. The client's library sends the `DEL` again. If B has taken the lock
//! in between, the second `DEL` frees B's lock.

use redis::RedisResult;
use redis::aio::ConnectionLike;

use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "set_nx_get_del",
    spec: &Spec {
        kind: AlgorithmKind::Mutex,
        abilities: &[],
        guarantees: "one holder at a time, and a free lock one lease after a crash",
        assumes: "that the lease does not end between comparing the token and deleting the key",
        objection: "comparing and deleting are two commands, and the lease can end between them",
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
    scripts: &[],
    open: Open::One(|connection, env, terms| Box::new(SetNxGetDel::new(connection, env, terms))),
};

/// One client's side of the lock.
#[derive(Debug)]
pub struct SetNxGetDel<C> {
    connection: C,
    env: Env,
    key: String,
    lease_seconds: u64,
    token: String,
}

impl<C: ConnectionLike + Send> SetNxGetDel<C> {
    /// A client that holds nothing.
    pub fn new(connection: C, env: Env, terms: &Terms) -> SetNxGetDel<C> {
        let (key, lease_seconds) = (terms.key.clone(), terms.lease_seconds());
        SetNxGetDel { connection, env, key, lease_seconds, token: String::new() }
    }
}

impl<C: ConnectionLike + Send> Lock for SetNxGetDel<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        self.token = self.env.unique();
        let mut set = redis::cmd("SET");
        set.arg(&self.key).arg(&self.token).arg("NX").arg("EX").arg(self.lease_seconds);
        set.query_async(&mut self.connection).await
    }

    async fn release(&mut self) -> RedisResult<Release> {
        let holder: Option<String> =
            redis::cmd("GET").arg(&self.key).query_async(&mut self.connection).await?;
        if holder.as_ref() != Some(&self.token) {
            return Ok(Release::NotHeld);
        }
        redis::cmd("DEL").arg(&self.key).query_async(&mut self.connection).await.map(Release::from_count)
    }

    fn record(&self) -> Record {
        Record::Value(self.key.clone(), self.token.clone())
    }
}
