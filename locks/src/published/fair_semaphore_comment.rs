//! `fair_semaphore_comment`: the fair semaphore as a comment under the article corrects it.
//!
//! The protocol of the fair semaphore (two sorted sets, `time` and `owner`, and a counter), where the clean-up is
//! `ZINTERSTORE owner 2 time owner`.
//!
//! Source: the comments of L (2021) and R (2022) under canglin, "Distributed rate limiting: how a distributed semaphore on
//! Redis works" (in Chinese).
//!
//! Who breaks it: everybody, one after the other, with no race at all. The destination is right now, but ZINTERSTORE adds the
//! scores up unless told otherwise: every old owner's score becomes time + counter, some 1.7 × 10¹², and the newcomer's small
//! counter ranks before all of them. **Every** attempt wins. Destination and weights both matter.

use redis::Cmd;

use super::fair_semaphore::{FairSemaphore, Keys};
use crate::registry::{Algorithm, FaultClass, Kind, Open, Property, Spec};

/// The registry's row.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "fair_semaphore_comment",
    spec: &Spec {
        kind: Kind::Semaphore,
        guarantees: "nothing: every attempt wins",
        assumes: "that ZINTERSTORE keeps the scores of the set that it cleans",
        objection: "the default AGGREGATE SUM puts every old owner behind every newcomer",
        breaks: &[
            (Property::OverIssue, FaultClass::Order),
            (Property::ExclusiveBelief, FaultClass::Order),
            (Property::OwnerSafe, FaultClass::Skew),
            (Property::OwnerSafe, FaultClass::Server),
        ],
    },
    scripts: &[],
    open: Open::One(|connection, env, terms| Box::new(FairSemaphore::new(connection, env, terms, clean))),
};

fn clean(keys: &Keys) -> Cmd {
    redis::cmd("ZINTERSTORE").arg(&keys.owner).arg(2).arg(&keys.time).arg(&keys.owner).to_owned()
}
