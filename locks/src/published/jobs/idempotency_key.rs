//! `key_get_setex` and `key_set_nx`: the key of a request that may come twice.
//!
//! With `L` for how long an operation may take:
//!
//! 1. `GET k`: if there is a value, the operation runs or is done. Otherwise `SETEX k L running`.
//!    The second algorithm has `SET k running NX EX L` for both.
//! 2. The operation. Then `SET k done`, which has no end here.
//!
//! Source of the first: [idempot-dev/idempot-js#182], a report about such a key. The second is its
//! remedy.
//!
//! How it breaks: two requests read no value, and both run. In the second algorithm one of them
//! does. If it is slower than `L`, or its client crashes before it is marked as done, it runs once
//! more.
//!
//! [idempot-dev/idempot-js#182]: https://github.com/idempot-dev/idempot-js/issues/182

use redis::{RedisResult, cmd};

use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};
use crate::task::{Side, Task, Work, nothing};

/// The row of the first algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "key_get_setex",
    spec: &Spec {
        kind: AlgorithmKind::Once,
        abilities: &[],
        guarantees: "a request that comes again does not run again",
        assumes: "that it comes after the first one has written its key",
        objection: "two requests that come at the same time read no value",
        breaks: &[(Property::AtMostOnce, FaultClass::Order)],
    },
    scripts: &[],
    open: Open::Task(Task { prepare: nothing, run: |side, work| Box::pin(run(side, false, work)) }),
};

/// The row of the second algorithm in the registry.
pub const ALGORITHM_NX: Algorithm = Algorithm {
    name: "key_set_nx",
    spec: &Spec {
        guarantees: "a request runs once",
        assumes: "that no operation outlives its key, and that no client crashes",
        objection: "an operation that outlives its key runs once more, and so does one whose client has crashed",
        breaks: &[
            (Property::AtMostOnce, FaultClass::Crash),
            (Property::AtMostOnce, FaultClass::Slow),
            (Property::AtMostOnce, FaultClass::Lost),
            (Property::AtMostOnce, FaultClass::Server),
            (Property::AtMostOnce, FaultClass::Cancel),
            (Property::AtMostOnce, FaultClass::Failover),
        ],
        ..*ALGORITHM.spec
    },
    open: Open::Task(Task { prepare: nothing, run: |side, work| Box::pin(run(side, true, work)) }),
    ..ALGORITHM
};

async fn run(Side { mut connection, terms, .. }: Side, is_atomic: bool, work: Work<'_>) -> RedisResult<bool> {
    let (key, seconds) = (&terms.key, terms.lease_seconds());
    let is_first = match is_atomic {
        true => {
            let claim = cmd("SET").arg(key).arg("running").arg("NX").arg("EX").arg(seconds).to_owned();
            claim.query_async(&mut connection).await?
        }
        false => cmd("GET").arg(key).query_async::<Option<String>>(&mut connection).await?.is_none(),
    };
    if !is_first {
        return Ok(false);
    }
    if !is_atomic {
        () = cmd("SETEX").arg(key).arg(seconds).arg("running").query_async(&mut connection).await?;
    }
    work.await?;
    () = cmd("SET").arg(key).arg("done").query_async(&mut connection).await?;
    Ok(true)
}
