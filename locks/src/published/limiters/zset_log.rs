//! `zset_log`: a log of requests in a sorted set.
//!
//! With `now` from the client's clock, in a transaction:
//!
//! 1. `ZREMRANGEBYSCORE k 0 now-L`
//! 2. `ZADD k now now`: the time is the score, and the member, too.
//! 3. `ZCARD k`: the request is let through if that is at most the limit.
//! 4. `EXPIRE k L`
//!
//! Source: [sockudo/sockudo#251] and [peterkhayes/rolling-rate-limiter#11], reports about such
//! limiters.
//!
//! How it breaks: requests of the same millisecond are one member, and count as one. A client whose
//! clock is ahead removes the requests of others.
//!
//! [sockudo/sockudo#251]: https://github.com/sockudo/sockudo/issues/251
//! [peterkhayes/rolling-rate-limiter#11]: https://github.com/peterkhayes/rolling-rate-limiter/issues/11

use redis::RedisResult;

use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};
use crate::task::{Side, Task, Work, nothing, work_if};

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "zset_log",
    spec: &Spec {
        kind: AlgorithmKind::Limiter,
        abilities: &[],
        guarantees: "the limit in any span as long as the window",
        assumes: "equal clocks, and that no two requests have the same millisecond",
        objection: "requests of one millisecond are one member; a refused request counts, too",
        breaks: &[(Property::Rate, FaultClass::Order)],
    },
    scripts: &[],
    open: Open::Task(Task { prepare: nothing, run: |side, work| Box::pin(run(side, work)) }),
};

async fn run(Side { mut connection, env, terms }: Side, work: Work<'_>) -> RedisResult<bool> {
    let (key, now) = (&terms.key, env.now_ms());
    let mut log = redis::pipe();
    log.atomic().zrembyscore(key, 0, now - terms.lease_ms()).ignore().zadd(key, now, now).ignore();
    log.zcard(key).expire(key, terms.lease_seconds().cast_signed()).ignore();
    let (count,): (u32,) = log.query_async(&mut connection).await?;
    work_if(count <= terms.permits, work).await
}
