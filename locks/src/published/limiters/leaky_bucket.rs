//! `leaky_bucket`: the level of a bucket that leaks, read and then written.
//!
//! The bucket has room for one drop here, and loses one in each `L / n`. With `now` from the
//! client's clock:
//!
//! 1. `HMGET k level at`: the level, less what has leaked since. The request is refused if there is
//!    no room for a drop.
//! 2. `HSET k level at`: the new level, and now. Then `PEXPIRE k L`.
//!
//! Source: M. Perham, [The Leaky Bucket rate limiter] (2020-11-09), about limiters that read and
//! write a counter and a time. His own one is a script.
//!
//! How it breaks: two clients read the same level, and both add their drop to it.
//!
//! [The Leaky Bucket rate limiter]: https://www.mikeperham.com/2020/11/09/the-leaky-bucket-rate-limiter/

use redis::RedisResult;

use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};
use crate::task::{Side, Task, Work, nothing};

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "leaky_bucket",
    spec: &Spec {
        kind: AlgorithmKind::Limiter,
        abilities: &[],
        guarantees: "the limit in any span as long as the window, one request after another",
        assumes: "equal clocks, and that no two requests come at the same time",
        objection: "two clients read the same level",
        breaks: &[(Property::Rate, FaultClass::Order)],
    },
    scripts: &[],
    open: Open::Task(Task { prepare: nothing, run: |side, work| Box::pin(run(side, work)) }),
};

/// The level of a drop. Levels are whole numbers.
const DROP: i64 = 1_000_000;

async fn run(Side { mut connection, env, terms }: Side, work: Work<'_>) -> RedisResult<bool> {
    let key = &terms.key;
    let read = redis::cmd("HMGET").arg(key).arg(&["level", "at"]).to_owned();
    let (level, at): (Option<i64>, Option<i64>) = read.query_async(&mut connection).await?;
    let now = env.now_ms();
    let since = (now - at.unwrap_or(now)).clamp(0, terms.lease_ms());
    let leaked = since * DROP * i64::from(terms.permits) / terms.lease_ms();
    let level = (level.unwrap_or(0) - leaked).max(0);
    if level > 0 {
        return Ok(false);
    }
    let mut write = redis::pipe();
    write.atomic().hset_multiple(key, &[("level", level + DROP), ("at", now)]).ignore();
    write.pexpire(key, terms.lease_ms()).ignore();
    () = write.query_async(&mut connection).await?;
    work.await?;
    Ok(true)
}
