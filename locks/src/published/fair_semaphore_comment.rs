//! `fair_semaphore_comment`: the fair semaphore as corrected by a comment below the article.
//!
//! It is the protocol of the fair semaphore, with two sorted sets, `time` and `owner`, and a
//! counter. The clean-up is `ZINTERSTORE owner 2 time owner`.
//!
//! Source: the comments of L (2021) and R (2022) below canglin, "Distributed rate limiting: how a
//! distributed semaphore on Redis works" (in Chinese).
//!
//! How it breaks: every client gets a permit, one after the other, without any race. The
//! destination is correct now, but by default `ZINTERSTORE` adds the scores. The score of every old
//! owner becomes time + counter, about 1.7 × 10¹². A new client's small counter ranks before all of
//! them, so **every** attempt wins. Destination and weights both matter.

use redis::Cmd;

use super::fair_semaphore::{FairSemaphore, Keys};
use crate::spec::{Ability, Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "fair_semaphore_comment",
    spec: &Spec {
        kind: AlgorithmKind::Semaphore,
        abilities: &[Ability::SpansSlots],
        guarantees: "nothing: every attempt is granted",
        assumes: "that ZINTERSTORE keeps the scores of the set that it cleans",
        objection: "with the default AGGREGATE SUM, every new client ranks before every holder",
        breaks: &[
            (Property::OverIssue, FaultClass::Order),
            (Property::ExclusiveBelief, FaultClass::Order),
            (Property::OwnerSafe, FaultClass::Skew),
            (Property::OwnerSafe, FaultClass::Server),
            (Property::OwnerSafe, FaultClass::Failover),
            (Property::Progress, FaultClass::Cluster),
        ],
    },
    scripts: &[],
    open: Open::One(|connection, env, terms| Box::new(FairSemaphore::new(connection, env, terms, clean))),
};

fn clean(keys: &Keys) -> Cmd {
    redis::cmd("ZINTERSTORE").arg(&keys.owner).arg(2).arg(&keys.time).arg(&keys.owner).to_owned()
}
