//! `setnx_expire`: `setnx` with a time to live, set by a second command.
//!
//! 1. `SETNX k 1`: the reply 0 means that the lock is taken.
//! 2. `EXPIRE k L`.
//! 3. Release: `DEL k`.
//!
//! Source: mzorro.me, "A distributed lock with Redis, and its optimisation" (2017-10-25, in
//! Chinese).
//!
//! How it breaks: if a client crashes between the two commands, the key stays for ever. If a holder
//! is slower than its lease, B takes the lock, A's `DEL` frees B's lock, and C enters beside B.
//!
//! If the reply to the `SETNX` is lost, the key stays for ever, too. If the reply to the `DEL` is
//! lost, the client's library sends the `DEL` again. If B has taken the lock in between, the second
//! `DEL` frees B's lock.

use redis::RedisResult;
use redis::aio::ConnectionLike;

use crate::lock::{Lock, Record, Release, Terms};
use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "setnx_expire",
    spec: &Spec {
        kind: AlgorithmKind::Mutex,
        abilities: &[],
        guarantees: "one holder at a time",
        assumes: "that nobody crashes between the two commands, and that no holder outlives its lease",
        objection: "SETNX and EXPIRE are two commands; any client's DEL frees the lock",
        breaks: &[
            (Property::ExclusiveFact, FaultClass::Slow),
            (Property::ExclusiveBelief, FaultClass::Slow),
            (Property::OwnerSafe, FaultClass::Slow),
            (Property::ExclusiveFact, FaultClass::Lost),
            (Property::ExclusiveBelief, FaultClass::Lost),
            (Property::OwnerSafe, FaultClass::Lost),
            (Property::Recovers, FaultClass::Crash),
            (Property::Recovers, FaultClass::Lost),
            (Property::ExclusiveFact, FaultClass::Server),
            (Property::ExclusiveBelief, FaultClass::Server),
            (Property::OwnerSafe, FaultClass::Server),
            (Property::NoLeak, FaultClass::Server),
            (Property::Recovers, FaultClass::Server),
            (Property::Recovers, FaultClass::Cancel),
            (Property::ExclusiveFact, FaultClass::Failover),
            (Property::ExclusiveBelief, FaultClass::Failover),
            (Property::OwnerSafe, FaultClass::Failover),
            (Property::NoLeak, FaultClass::Failover),
        ],
    },
    scripts: &[],
    open: Open::One(|connection, _, terms| Box::new(SetNxExpire::new(connection, terms))),
};

/// One client's side of the lock.
#[derive(Debug)]
pub struct SetNxExpire<C> {
    connection: C,
    key: String,
    lease_seconds: u64,
}

impl<C: ConnectionLike + Send> SetNxExpire<C> {
    /// A client that holds nothing.
    pub fn new(connection: C, terms: &Terms) -> SetNxExpire<C> {
        SetNxExpire { connection, key: terms.key.clone(), lease_seconds: terms.lease_seconds() }
    }
}

impl<C: ConnectionLike + Send> Lock for SetNxExpire<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        let is_ours: bool =
            redis::cmd("SETNX").arg(&self.key).arg(1).query_async(&mut self.connection).await?;
        if is_ours {
            let expire = redis::cmd("EXPIRE").arg(&self.key).arg(self.lease_seconds).to_owned();
            () = expire.query_async(&mut self.connection).await?;
        }
        Ok(is_ours)
    }

    async fn release(&mut self) -> RedisResult<Release> {
        redis::cmd("DEL").arg(&self.key).query_async(&mut self.connection).await.map(Release::from_count)
    }

    fn record(&self) -> Record {
        Record::Key(self.key.clone())
    }
}
