//! `fair_semaphore_weighted`: the fair semaphore of the article, with the destination and weights
//! of the book.
//!
//! It is the protocol of the fair semaphore, with two sorted sets, `time` and `owner`, and a
//! counter. The clean-up is `ZINTERSTORE owner 2 owner time WEIGHTS 1 0`.
//!
//! Source: the clean-up of Josiah Carlson, "Redis in Action", chapter 6.3.2, in the article's order
//! of commands. The book then adds a lock around it (6.3.4).
//!
//! How it breaks: the `INCR` is still a separate command. A draws 1 and B draws 2. B adds itself
//! and wins. Then A adds itself, ranks before B, and wins too. A clock that is ahead by a lease
//! removes live holders.

use redis::Cmd;

use super::fair_semaphore::{FairSemaphore, Keys};
use crate::spec::{Ability, Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "fair_semaphore_weighted",
    spec: &Spec {
        kind: AlgorithmKind::Semaphore,
        abilities: &[Ability::SpansSlots],
        guarantees: "that permits come back by themselves, and go to the client that came first",
        assumes: "that no other client runs between INCR and ZRANK",
        objection: "drawing the number and taking the rank are two steps",
        breaks: &[
            (Property::OverIssue, FaultClass::Order),
            (Property::ExclusiveBelief, FaultClass::Order),
            (Property::OwnerSafe, FaultClass::Skew),
            (Property::OwnerSafe, FaultClass::Server),
            (Property::Recovers, FaultClass::Pairs),
            (Property::OwnerSafe, FaultClass::Failover),
            (Property::NoLeak, FaultClass::Failover),
            (Property::Progress, FaultClass::Cluster),
        ],
    },
    scripts: &[],
    open: Open::One(|connection, env, terms| Box::new(FairSemaphore::new(connection, env, terms, clean))),
};

pub(super) fn clean(keys: &Keys) -> Cmd {
    let mut cmd = redis::cmd("ZINTERSTORE");
    cmd.arg(&keys.owner).arg(2).arg(&keys.owner).arg(&keys.time).arg("WEIGHTS").arg(1).arg(0);
    cmd
}
