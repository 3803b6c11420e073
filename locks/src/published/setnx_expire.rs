//! `setnx_expire`: `setnx`, and then a time to live.
//!
//! 1. `SETNX k 1`: 0 means that the lock is taken.
//! 2. `EXPIRE k L`.
//! 3. Release: `DEL k`.
//!
//! Source: mzorro.me, "A distributed lock with Redis, and its optimisation" (2017-10-25, in Chinese).
//!
//! Who breaks it: a client that crashes between the two commands leaves a key that lives for ever. And whoever is slower
//! than its lease: B takes the lock, A's DEL frees it, and C enters beside B.
//!
//! A lost reply to the SETNX leaves such a key, too. And one to the DEL does what slowness does: the client's library sends
//! the DEL again, and if B has taken the lock in between, the second DEL frees B's lock.

use redis::RedisResult;
use redis::aio::ConnectionLike;

use crate::lock::{Lock, Record, Release, Terms};
use crate::registry::{Algorithm, FaultClass, Kind, Open, Property, Spec};

/// The registry's row.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "setnx_expire",
    spec: &Spec {
        kind: Kind::Mutex,
        guarantees: "one holder at a time",
        assumes: "that nobody crashes between the two commands, and that no holder outlives its lease",
        objection: "taking the lock and limiting its life are two commands; anybody's DEL frees it",
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
