//! The limiters as rows of the registry.

use redis::RedisResult;

use super::{RateLimiter, RateLimiterBuilder, sliding_window, token_bucket};
use crate::lock::Terms;
use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};
use crate::task::{Side, Task, Work, nothing, work_if};

/// The row of the sliding window in the registry.
pub(crate) const ALGORITHM_WINDOW: Algorithm = Algorithm {
    name: "limiter_window",
    spec: &Spec {
        kind: AlgorithmKind::Limiter,
        abilities: &[],
        guarantees: "the limit in any span as long as the window; a request that is sent again counts once",
        assumes: "a server that keeps its data and whose clock does not jump ahead",
        objection: "a request whose reply was lost counts from when it was granted, not from when its client hears of it",
        breaks: &[
            (Property::Rate, FaultClass::Lost),
            (Property::Rate, FaultClass::Server),
            (Property::Rate, FaultClass::Failover),
        ],
    },
    scripts: &[sliding_window::ACQUIRE],
    open: Open::Task(Task {
        prepare: nothing,
        run: |side, work| {
            let Terms { permits, lease, .. } = side.terms;
            Box::pin(run(side, work, move |limiter| limiter.sliding_window(permits, lease)))
        },
    }),
};

/// The row of the token bucket in the registry. It has room for one permit.
pub(crate) const ALGORITHM_BUCKET: Algorithm = Algorithm {
    name: "limiter_bucket",
    spec: &Spec {
        guarantees: "the limit in any span as long as the window, one request after another",
        breaks: &[
            (Property::Rate, FaultClass::Lost),
            (Property::Rate, FaultClass::Server),
            (Property::Rate, FaultClass::Failover),
        ],
        ..*ALGORITHM_WINDOW.spec
    },
    scripts: &[token_bucket::ACQUIRE],
    open: Open::Task(Task {
        prepare: nothing,
        run: |side, work| {
            let Terms { permits, lease, .. } = side.terms;
            Box::pin(run(side, work, move |limiter| limiter.token_bucket(1, permits, lease)))
        },
    }),
};

async fn run(
    Side { connection, env, terms }: Side,
    work: Work<'_>,
    settings: impl Fn(RateLimiterBuilder) -> RateLimiterBuilder,
) -> RedisResult<bool> {
    let limiter = settings(RateLimiter::builder(connection, &terms.key).env(env)).build()?;
    work_if(limiter.try_acquire().await?.is_allowed(), work).await
}
