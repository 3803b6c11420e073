//! `incr_in_script`: a counter that ends with its window, in a script.
//!
//! `INCR k`, and `EXPIRE k L` if that returns 1, in one step. The request is let through if the
//! counter is at most the limit.
//!
//! Source: <https://redis.io/docs/latest/commands/incr/>, the script after "Pattern: Rate limiter
//! 2".
//!
//! How it breaks: requests at the end of a window and at the beginning of the next are both let
//! through, twice the limit within a moment.

use std::sync::LazyLock;

use redis::{RedisResult, Script};

use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};
use crate::task::{Side, Task, Work, nothing, work_if};

/// Counts a request at `KEYS[1]`, for `ARGV[1]` seconds from the first one.
const COUNT: &str = "\
-- count
local count = redis.call('INCR', KEYS[1])
if count == 1 then
  redis.call('EXPIRE', KEYS[1], ARGV[1])
end
return count";

static COUNT_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(COUNT));

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "incr_in_script",
    spec: &Spec {
        kind: AlgorithmKind::Limiter,
        abilities: &[],
        guarantees: "the limit in each window that begins with a request",
        assumes: "that twice the limit at the edge of two windows does no harm",
        objection: "twice the limit at the edge of two windows",
        breaks: &[
            (Property::Rate, FaultClass::Slow),
            (Property::Rate, FaultClass::Server),
            (Property::Rate, FaultClass::Failover),
        ],
    },
    scripts: &[COUNT],
    open: Open::Task(Task { prepare: nothing, run: |side, work| Box::pin(run(side, work)) }),
};

async fn run(Side { mut connection, terms, .. }: Side, work: Work<'_>) -> RedisResult<bool> {
    let mut count = COUNT_SCRIPT.key(&terms.key);
    let count: u32 = count.arg(terms.lease_seconds()).invoke_async(&mut connection).await?;
    work_if(count <= terms.permits, work).await
}
