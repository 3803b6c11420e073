//! `cache_fill` and `cache_placeholder`: a value that is missing in a cache is loaded.
//!
//! 1. If `EXISTS k` is 1, nothing is to be done.
//! 2. The client loads the value. Then `SET k value NX`. In the second algorithm it sends
//!    `SET k placeholder NX` before that, and loads only if that wrote. Then `SET k value`.
//!
//! A value has no end here, so whoever loads it again need not have done so.
//!
//! Source of the first: [omegaup/omegaup#8962], a report about such a cache. Of the second:
//! [mozilla-services/merino#104] proposes to mark an entry that is being loaded.
//!
//! How it breaks: clients that find nothing at the same time all load the value, a stampede. In the
//! second algorithm one of them does. But its placeholder has no time to live. If that client
//! crashes, nobody ever loads the value.
//!
//! [omegaup/omegaup#8962]: https://github.com/omegaup/omegaup/issues/8962
//! [mozilla-services/merino#104]: https://github.com/mozilla-services/merino/issues/104

use redis::{RedisResult, cmd};

use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};
use crate::task::{Side, Task, Work, nothing};

/// The row of the first algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "cache_fill",
    spec: &Spec {
        kind: AlgorithmKind::Once,
        abilities: &[],
        guarantees: "a value that is missing is loaded, and kept",
        assumes: "that a value may be loaded by everybody at once",
        objection: "a stampede: all clients that find nothing load the value",
        breaks: &[(Property::AtMostOnce, FaultClass::Order)],
    },
    scripts: &[],
    open: Open::Task(Task { prepare: nothing, run: |side, work| Box::pin(run(side, false, work)) }),
};

/// The row of the second algorithm in the registry.
pub const ALGORITHM_PLACEHOLDER: Algorithm = Algorithm {
    name: "cache_placeholder",
    spec: &Spec {
        guarantees: "one client loads a value that is missing",
        assumes: "that no client crashes and no reply is lost",
        objection: "a placeholder outlives its client, and the value is never loaded",
        breaks: &[
            (Property::AtLeastOnce, FaultClass::Crash),
            (Property::AtLeastOnce, FaultClass::Lost),
            (Property::AtMostOnce, FaultClass::Server),
            (Property::AtLeastOnce, FaultClass::Server),
            (Property::AtLeastOnce, FaultClass::Cancel),
            (Property::AtMostOnce, FaultClass::Failover),
        ],
        ..*ALGORITHM.spec
    },
    open: Open::Task(Task { prepare: nothing, run: |side, work| Box::pin(run(side, true, work)) }),
    ..ALGORITHM
};

async fn run(Side { mut connection, terms, .. }: Side, is_marked: bool, work: Work<'_>) -> RedisResult<bool> {
    let key = &terms.key;
    if cmd("EXISTS").arg(key).query_async(&mut connection).await? {
        return Ok(false);
    }
    let mark = cmd("SET").arg(key).arg("placeholder").arg("NX").to_owned();
    if is_marked && !mark.query_async::<bool>(&mut connection).await? {
        return Ok(false);
    }
    work.await?;
    let mut fill = cmd("SET");
    fill.arg(key).arg("value");
    if !is_marked {
        fill.arg("NX");
    }
    () = fill.query_async(&mut connection).await?;
    Ok(true)
}
