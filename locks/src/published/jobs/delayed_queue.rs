//! `delayed_queue` and `delayed_queue_checked`: jobs with the times at which they are due.
//!
//! 1. `ZRANGEBYSCORE k 0 now LIMIT 0 1`: the first job that is due.
//! 2. `ZREM k job`. Then the work. The second algorithm works only if `ZREM` has removed the job.
//!
//! Source of the first: [Automattic/kue#1133], a report about such a queue. Of the second: J. L.
//! Carlson, "Redis in Action", chapter 6.4.2, which has a lock besides.
//!
//! How it breaks: two workers read the same job, and both run it. In the second algorithm one of
//! them does. A worker that crashes takes its job along.
//!
//! [Automattic/kue#1133]: https://github.com/Automattic/kue/issues/1133

use redis::{RedisResult, cmd};

use super::JOB;
use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};
use crate::task::{Doing, Side, Task, Work, work_if};

/// The row of the first algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "delayed_queue",
    spec: &Spec {
        kind: AlgorithmKind::Once,
        abilities: &[],
        guarantees: "a job runs when it is due",
        assumes: "one worker that does not crash",
        objection: "two workers read the same job; a job that was taken is nowhere else",
        breaks: &[
            (Property::AtMostOnce, FaultClass::Order),
            (Property::AtLeastOnce, FaultClass::Crash),
            (Property::AtLeastOnce, FaultClass::Lost),
            (Property::AtLeastOnce, FaultClass::Server),
            (Property::AtLeastOnce, FaultClass::Cancel),
        ],
    },
    scripts: &[],
    open: Open::Task(Task { prepare: schedule, run: |side, work| Box::pin(run(side, false, work)) }),
};

/// The row of the second algorithm in the registry.
pub const ALGORITHM_CHECKED: Algorithm = Algorithm {
    name: "delayed_queue_checked",
    spec: &Spec {
        guarantees: "a job runs once at most, and not before it is due",
        assumes: "that no worker crashes and no reply is lost",
        objection: "a job that was taken is nowhere else: its worker takes it along",
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
    open: Open::Task(Task { prepare: schedule, run: |side, work| Box::pin(run(side, true, work)) }),
    ..ALGORITHM
};

/// The job is due.
fn schedule(Side { mut connection, terms, .. }: Side) -> Doing<'static, ()> {
    Box::pin(async move { cmd("ZADD").arg(&terms.key).arg(0).arg(JOB).query_async(&mut connection).await })
}

async fn run(
    Side { mut connection, env, terms }: Side,
    is_checked: bool,
    work: Work<'_>,
) -> RedisResult<bool> {
    let key = &terms.key;
    let due = cmd("ZRANGEBYSCORE").arg(key).arg(&[0, env.now_ms()]).arg("LIMIT").arg(&[0, 1]).to_owned();
    let due: Vec<String> = due.query_async(&mut connection).await?;
    let Some(job) = due.first() else { return Ok(false) };
    let is_removed: bool = cmd("ZREM").arg(key).arg(job).query_async(&mut connection).await?;
    work_if(is_removed || !is_checked, work).await
}
