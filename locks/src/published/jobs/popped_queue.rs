//! `popped_queue`: a worker takes the next job off a list, and runs it.
//!
//! `RPOP k:waiting`, then the work.
//!
//! Source: [laravel/framework#22939], a report about such a queue.
//!
//! How it breaks: a worker that crashes takes its job along. So does a reply that is lost.
//!
//! [laravel/framework#22939]: https://github.com/laravel/framework/issues/22939

use redis::{RedisResult, cmd};

use super::{push, waiting};
use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};
use crate::task::{Side, Task, Work, work_if};

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "popped_queue",
    spec: &Spec {
        kind: AlgorithmKind::Once,
        abilities: &[],
        guarantees: "a job runs once at most",
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
    },
    scripts: &[],
    open: Open::Task(Task { prepare: push, run: |side, work| Box::pin(run(side, work)) }),
};

async fn run(Side { mut connection, terms, .. }: Side, work: Work<'_>) -> RedisResult<bool> {
    let pop = cmd("RPOP").arg(waiting(&terms.key)).to_owned();
    let job: Option<String> = pop.query_async(&mut connection).await?;
    work_if(job.is_some(), work).await
}
