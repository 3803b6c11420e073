//! `incr_by_window`: a counter for each window of the clock.
//!
//! With `w` the number of the window by the client's clock, `n` the limit and `L` the window:
//!
//! 1. In a transaction: `INCR k:w` and `EXPIRE k:w 2L`.
//! 2. The request is let through if the counter is at most `n`.
//!
//! Source: <https://redis.io/docs/latest/commands/incr/>, "Pattern: Rate limiter 1".
//!
//! How it breaks: `n` requests at the end of a window and `n` at the beginning of the next are let
//! through, twice the limit within a moment. A client whose clock is wrong counts in another
//! window.

use redis::RedisResult;

use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};
use crate::task::{Side, Task, Work, nothing, work_if};

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "incr_by_window",
    spec: &Spec {
        kind: AlgorithmKind::Limiter,
        abilities: &[],
        guarantees: "the limit in each window of the clock",
        assumes: "equal clocks, and that twice the limit at the edge of two windows does no harm",
        objection: "twice the limit at the edge of two windows; a wrong clock counts elsewhere",
        breaks: &[(Property::Rate, FaultClass::Order), (Property::Recovers, FaultClass::Pairs)],
    },
    scripts: &[],
    open: Open::Task(Task { prepare: nothing, run: |side, work| Box::pin(run(side, work)) }),
};

async fn run(Side { mut connection, env, terms }: Side, work: Work<'_>) -> RedisResult<bool> {
    let key = format!("{}:{}", terms.key, env.now_ms() / terms.lease_ms());
    let mut count = redis::pipe();
    count.atomic().incr(&key, 1).expire(&key, 2 * terms.lease_seconds().cast_signed()).ignore();
    let (count,): (u32,) = count.query_async(&mut connection).await?;
    work_if(count <= terms.permits, work).await
}
