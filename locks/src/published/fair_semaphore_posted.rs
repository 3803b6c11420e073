//! `fair_semaphore_posted`: the fair semaphore as the article has it.
//!
//! The protocol of the fair semaphore (two sorted sets, `time` and `owner`, and a counter), where the clean-up is
//! `ZINTERSTORE time 2 time owner`.
//!
//! Source: canglin, "Distributed rate limiting: how a distributed semaphore on Redis works" (in Chinese).
//!
//! Who breaks it: the destination is the wrong set. `owner`, by which clients rank, is never cleaned: the rank of a crashed
//! holder stays taken for ever, and after N crashes nobody ever gets in. The scores in `time` grow by the counter at each
//! attempt, so leases drift into the future. And the INCR is a command of its own: A draws 1, B draws 2, B adds itself and
//! wins, A adds itself before B and wins too.

use redis::Cmd;

use super::fair_semaphore::{FairSemaphore, Keys};
use crate::registry::{Algorithm, FaultClass, Kind, Open, Property, Spec};

/// The registry's row.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "fair_semaphore_posted",
    spec: &Spec {
        kind: Kind::Semaphore,
        guarantees: "that whoever came first gets the permit, says the article",
        assumes: "that nobody comes between INCR and ZRANK, and that nobody crashes",
        objection: "ZINTERSTORE writes to the wrong set; drawing the number and taking the rank are two steps",
        breaks: &[
            (Property::OverIssue, FaultClass::Order),
            (Property::ExclusiveBelief, FaultClass::Order),
            (Property::Recovers, FaultClass::Crash),
            (Property::Recovers, FaultClass::Lost),
        ],
    },
    scripts: &[],
    open: Open::One(|connection, env, terms| Box::new(FairSemaphore::new(connection, env, terms, clean))),
};

fn clean(keys: &Keys) -> Cmd {
    redis::cmd("ZINTERSTORE").arg(&keys.time).arg(2).arg(&keys.time).arg(&keys.owner).to_owned()
}
