//! `fair_semaphore_posted`: the fair semaphore exactly as in the article.
//!
//! It is the protocol of the fair semaphore, with two sorted sets, `time` and `owner`, and a
//! counter. The clean-up is `ZINTERSTORE time 2 time owner`.
//!
//! Source: canglin, "Distributed rate limiting: how a distributed semaphore on Redis works" (in
//! Chinese).
//!
//! How it breaks: the destination is the wrong set. Clients rank by `owner`, which is never
//! cleaned, so the rank of a crashed holder stays taken for ever. After N crashes no client ever
//! gets a permit. The scores in `time` grow by the counter at each attempt, so leases drift into
//! the future.
//!
//! The `INCR` is also a separate command. A draws 1 and B draws 2. B adds itself and wins. Then A
//! adds itself, ranks before B, and wins too.

use redis::Cmd;

use super::fair_semaphore::{FairSemaphore, Keys};
use crate::spec::{Ability, Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "fair_semaphore_posted",
    spec: &Spec {
        kind: AlgorithmKind::Semaphore,
        abilities: &[Ability::SpansSlots],
        guarantees: "that the client that came first gets the permit, as the article says",
        assumes: "that no other client runs between INCR and ZRANK, and that no client crashes",
        objection: "ZINTERSTORE writes to the wrong set; drawing the number and taking the rank are two steps",
        breaks: &[
            (Property::OverIssue, FaultClass::Order),
            (Property::ExclusiveBelief, FaultClass::Order),
            (Property::Recovers, FaultClass::Crash),
            (Property::Recovers, FaultClass::Lost),
            (Property::NoLeak, FaultClass::Server),
            (Property::Recovers, FaultClass::Server),
            (Property::Recovers, FaultClass::Cancel),
            (Property::Recovers, FaultClass::Failover),
            (Property::NoLeak, FaultClass::Failover),
            (Property::Progress, FaultClass::Cluster),
        ],
    },
    scripts: &[],
    open: Open::One(|connection, env, terms| Box::new(FairSemaphore::new(connection, env, terms, clean))),
};

fn clean(keys: &Keys) -> Cmd {
    redis::cmd("ZINTERSTORE").arg(&keys.time).arg(2).arg(&keys.time).arg(&keys.owner).to_owned()
}
