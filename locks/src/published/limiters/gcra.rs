//! `gcra`: the generic cell rate algorithm.
//!
//! The server keeps one time: when the next request may come. A script reads it and the server's
//! clock. If that time has come, the request is let through, and the next may come `L / n` later.
//!
//! Source: B. Leach, [Rate Limiting, Cells, and GCRA] (2015-09-18), and his redis-cell. It stands
//! here without a burst.
//!
//! How it breaks: a server that has lost that time lets another request through, and so does one
//! whose clock jumps ahead.
//!
//! [Rate Limiting, Cells, and GCRA]: https://brandur.org/rate-limiting

use std::sync::LazyLock;

use redis::{RedisResult, Script};

use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};
use crate::task::{Side, Task, Work, nothing, work_if};

/// If the time at `KEYS[1]` has come, moves it by `ARGV[1]` milliseconds from now.
const CELL: &str = "\
-- cell
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local next = tonumber(redis.call('GET', KEYS[1]) or now)
if now < next then
  return 0
end
redis.call('SET', KEYS[1], string.format('%.0f', now + ARGV[1]), 'PX', ARGV[1])
return 1";

static CELL_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(CELL));

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "gcra",
    spec: &Spec {
        kind: AlgorithmKind::Limiter,
        abilities: &[],
        guarantees: "the limit in any span as long as the window, one request after another",
        assumes: "a server that keeps its data and whose clock does not jump",
        objection: "a server that has lost the time lets another request through",
        breaks: &[(Property::Rate, FaultClass::Server), (Property::Rate, FaultClass::Failover)],
    },
    scripts: &[CELL],
    open: Open::Task(Task { prepare: nothing, run: |side, work| Box::pin(run(side, work)) }),
};

async fn run(Side { mut connection, terms, .. }: Side, work: Work<'_>) -> RedisResult<bool> {
    let mut cell = CELL_SCRIPT.key(&terms.key);
    cell.arg(terms.lease_ms() / i64::from(terms.permits));
    work_if(cell.invoke_async(&mut connection).await?, work).await
}
