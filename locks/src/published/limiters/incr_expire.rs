//! `incr_expire`: a counter that ends with its window.
//!
//! With `n` the limit and `L` the window:
//!
//! 1. `GET k`: the request is refused if that is `n` or more.
//! 2. `INCR k`. If that returns 1, `EXPIRE k L`. The request is let through.
//!
//! Source: <https://redis.io/docs/latest/commands/incr/>, "Pattern: Rate limiter 2". The page
//! itself says that the counter stays for ever if `EXPIRE` is never sent.
//!
//! How it breaks: two clients that both read `n - 1` are both let through. If the first client of a
//! window crashes before its `EXPIRE`, the limiter refuses all requests for ever, once it is full.

use redis::RedisResult;

use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};
use crate::task::{Side, Task, Work, nothing};

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "incr_expire",
    spec: &Spec {
        kind: AlgorithmKind::Limiter,
        abilities: &[],
        guarantees: "about the limit in each window that begins with a request",
        assumes: "that no two requests come at the same time, and that no client crashes",
        objection: "two clients read the same count; without its EXPIRE the counter never ends",
        breaks: &[
            (Property::Rate, FaultClass::Order),
            (Property::Recovers, FaultClass::Crash),
            (Property::Recovers, FaultClass::Lost),
            (Property::Recovers, FaultClass::Server),
            (Property::Recovers, FaultClass::Cancel),
            (Property::Recovers, FaultClass::Failover),
        ],
    },
    scripts: &[],
    open: Open::Task(Task { prepare: nothing, run: |side, work| Box::pin(run(side, work)) }),
};

async fn run(Side { mut connection, terms, .. }: Side, work: Work<'_>) -> RedisResult<bool> {
    let count: Option<u32> = redis::cmd("GET").arg(&terms.key).query_async(&mut connection).await?;
    if count.is_some_and(|count| count >= terms.permits) {
        return Ok(false);
    }
    let count: u32 = redis::cmd("INCR").arg(&terms.key).query_async(&mut connection).await?;
    if count == 1 {
        let expire = redis::cmd("EXPIRE").arg(&terms.key).arg(terms.lease_seconds()).to_owned();
        () = expire.query_async(&mut connection).await?;
    }
    work.await?;
    Ok(true)
}
