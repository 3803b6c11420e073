//! `set_nx_ex_del`: one command takes the lock and sets its time to live.
//!
//! 1. `SET k v NX EX L`: the reply `OK` means that the client holds the lock.
//! 2. Release: `DEL k`.
//!
//! Source: Huyan Shi, "Redis series 13: distributed locks" (2020-01, in Chinese);
//! <https://redis.io/docs/latest/commands/set/>.
//!
//! How it breaks: a holder is slower than its lease. A's lease ends, B takes the lock, A's `DEL`
//! frees B's lock, and C enters beside B.
//!
//! A lost reply breaks it, too. The client's library sends the `DEL` again. If B has taken the lock
//! in between, the second `DEL` frees B's lock.

use redis::RedisResult;
use redis::aio::ConnectionLike;

use crate::lock::{Lock, Record, Release, Terms};
use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "set_nx_ex_del",
    spec: &Spec {
        kind: AlgorithmKind::Mutex,
        abilities: &[],
        guarantees: "one holder at a time, and a free lock one lease after a crash",
        assumes: "that no holder outlives its lease",
        objection: "the value does not name the holder, so any client's DEL frees the lock",
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
    open: Open::One(|connection, _, terms| Box::new(SetNxExDel::new(connection, terms))),
};

/// One client's side of the lock.
#[derive(Debug)]
pub struct SetNxExDel<C> {
    connection: C,
    key: String,
    lease_seconds: u64,
}

impl<C: ConnectionLike + Send> SetNxExDel<C> {
    /// A client that holds nothing.
    pub fn new(connection: C, terms: &Terms) -> SetNxExDel<C> {
        SetNxExDel { connection, key: terms.key.clone(), lease_seconds: terms.lease_seconds() }
    }
}

impl<C: ConnectionLike + Send> Lock for SetNxExDel<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        let set =
            redis::cmd("SET").arg(&self.key).arg(1).arg("NX").arg("EX").arg(self.lease_seconds).to_owned();
        set.query_async(&mut self.connection).await
    }

    async fn release(&mut self) -> RedisResult<Release> {
        redis::cmd("DEL").arg(&self.key).query_async(&mut self.connection).await.map(Release::from_count)
    }

    fn record(&self) -> Record {
        Record::Key(self.key.clone())
    }
}
