//! `fair_semaphore_locked`: the weighted fair semaphore, with a lock around each attempt.
//!
//! 1. Take the lock of `set_nx_px_cad`: `SET k:lock token NX PX L`. If it is taken, the attempt
//!    fails.
//! 2. Run the protocol of `fair_semaphore_weighted`.
//! 3. Release the lock, by its script.
//! 4. Release: as `fair_semaphore_weighted` does, without the lock.
//!
//! Source: canglin, "Distributed rate limiting: how a distributed semaphore on Redis works" (in
//! Chinese), mentions it as possible. Josiah Carlson, "Redis in Action", chapter 6.3.4, does it.
//!
//! How it breaks: by time. The lock keeps other clients out between `INCR` and `ZRANK`, so every
//! order of commands is safe. But time still comes from the clients' clocks. A clock that is ahead
//! by a lease removes live holders. If a holder's clock is a lease behind, every other client
//! removes it. A holder that is slower than its lease does not know that its permit is gone.

use redis::RedisResult;
use redis::aio::ConnectionLike;

use super::fair_semaphore::FairSemaphore;
use super::fair_semaphore_weighted::clean;
use super::set_nx_px_cad::set_nx_px;
use crate::env::Env;
use crate::lock::{Lock, Record, Release, Terms};
use crate::script::{COMPARE_AND_DELETE, compare_and_delete};
use crate::spec::{Ability, Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "fair_semaphore_locked",
    spec: &Spec {
        kind: AlgorithmKind::Semaphore,
        abilities: &[Ability::SpansSlots],
        guarantees: "never more than N holders in any order of commands, and permits that come back by themselves",
        assumes: "clocks that agree to within a lease, and that no holder outlives its lease",
        objection: "a client whose clock is ahead by a lease removes live holders",
        breaks: &[
            (Property::OverIssue, FaultClass::Skew),
            (Property::ExclusiveBelief, FaultClass::Skew),
            (Property::ExclusiveBelief, FaultClass::Slow),
            (Property::OwnerSafe, FaultClass::Skew),
            (Property::OverIssue, FaultClass::Server),
            (Property::ExclusiveBelief, FaultClass::Server),
            (Property::OwnerSafe, FaultClass::Server),
            (Property::NoLeak, FaultClass::Server),
            (Property::Recovers, FaultClass::Pairs),
            (Property::OverIssue, FaultClass::Failover),
            (Property::ExclusiveBelief, FaultClass::Failover),
            (Property::OwnerSafe, FaultClass::Failover),
            (Property::NoLeak, FaultClass::Failover),
            (Property::Progress, FaultClass::Cluster),
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
