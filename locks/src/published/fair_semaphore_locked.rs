//! `fair_semaphore_locked`: the weighted fair semaphore, with a lock around each attempt.
//!
//! 1. Take the lock of `set_nx_px_cad`: `SET k:lock token NX PX L`; if it is taken, the attempt has failed.
//! 2. The protocol of `fair_semaphore_weighted`.
//! 3. Give the lock back, by its script.
//! 4. Release: as there, without the lock.
//!
//! Source: canglin, "Distributed rate limiting: how a distributed semaphore on Redis works" (in Chinese), says that one could;
//! Josiah Carlson, "Redis in Action", chapter 6.3.4, does.
//!
//! Who breaks it: with the lock nobody comes between INCR and ZRANK, and every order of commands is safe. But time is the
//! clients' own still: a clock that is ahead by a lease removes live holders, and so does everybody's if one's is behind by as
//! much. A holder that outlives its lease does not know it.

use redis::RedisResult;
use redis::aio::ConnectionLike;

use super::fair_semaphore::FairSemaphore;
use super::fair_semaphore_weighted::clean;
use super::set_nx_px_cad::set_nx_px;
use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::registry::{Algorithm, FaultClass, Kind, Open, Property, Spec};
use crate::script::{COMPARE_AND_DELETE, compare_and_delete};

/// The registry's row.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "fair_semaphore_locked",
    spec: &Spec {
        kind: Kind::Semaphore,
        guarantees: "never more than N holders in any order of commands, and permits that come back by themselves",
        assumes: "clocks that agree to within a lease, and that no holder outlives its lease",
        objection: "whoever's clock is ahead by a lease removes live holders",
        breaks: &[
            (Property::OverIssue, FaultClass::Skew),
            (Property::ExclusiveBelief, FaultClass::Skew),
            (Property::ExclusiveBelief, FaultClass::Slow),
            (Property::OwnerSafe, FaultClass::Skew),
            (Property::OverIssue, FaultClass::Server),
            (Property::ExclusiveBelief, FaultClass::Server),
            (Property::OwnerSafe, FaultClass::Server),
        ],
    },
    scripts: &[COMPARE_AND_DELETE],
    open: Open::One(|connection, env, terms| Box::new(FairSemaphoreLocked::new(connection, env, terms))),
};

/// One client's side of the semaphore.
#[derive(Debug)]
pub struct FairSemaphoreLocked<C> {
    semaphore: FairSemaphore<C>,
    env: Env,
    lock_key: String,
    lease_ms: i64,
}

impl<C: ConnectionLike + Send> FairSemaphoreLocked<C> {
    /// A client that holds nothing.
    pub fn new(connection: C, env: Env, terms: &Terms) -> FairSemaphoreLocked<C> {
        let semaphore = FairSemaphore::new(connection, env.clone(), terms, clean);
        let (lock_key, lease_ms) = (format!("{}:lock", terms.key), terms.lease_ms());
        FairSemaphoreLocked { semaphore, env, lock_key, lease_ms }
    }
}

impl<C: ConnectionLike + Send> Lock for FairSemaphoreLocked<C> {
    async fn try_acquire(&mut self) -> RedisResult<bool> {
        let token = self.env.unique();
        if !set_nx_px(&mut self.semaphore.connection, &self.lock_key, &token, self.lease_ms).await? {
            return Ok(false);
        }
        let is_ours = self.semaphore.try_acquire().await?;
        compare_and_delete(&mut self.semaphore.connection, &self.lock_key, &token).await?;
        Ok(is_ours)
    }

    async fn release(&mut self) -> RedisResult<Release> {
        self.semaphore.release().await
    }

    fn record(&self) -> Record {
        self.semaphore.record()
    }
}
