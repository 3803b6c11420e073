//! `stalled_queue`: as `lmove_queue`, with scripts.
//!
//! 1. A script puts the jobs of `k:working` back whose claims are gone.
//! 2. A script moves the next job to `k:working`, and claims it for `L`.
//! 3. The work. Then, in a transaction: `DEL` of the claim, and `LREM k:working 0 job`.
//!
//! Source: [OptimalBits/bull#308] and [OptimalBits/bull#1416], reports about such a queue.
//!
//! How it breaks: a worker that is slower than its claim is taken for crashed. Another one runs the
//! job, too.
//!
//! [OptimalBits/bull#308]: https://github.com/OptimalBits/bull/issues/308
//! [OptimalBits/bull#1416]: https://github.com/OptimalBits/bull/issues/1416

use std::sync::LazyLock;

use redis::{RedisResult, Script, pipe};

use super::{JOB, claim, push, waiting, working};
use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};
use crate::task::{Side, Task, Work};

/// Puts the jobs of `KEYS[1]` back to `KEYS[2]` if the claim `KEYS[3]` is gone.
const RECOVER: &str = "\
-- recover
if redis.call('EXISTS', KEYS[3]) == 0 then
  for _, job in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
    redis.call('LREM', KEYS[1], 1, job)
    redis.call('LPUSH', KEYS[2], job)
  end
end
return 0";

/// Moves the next job of `KEYS[2]` to `KEYS[1]`. It is claimed at `KEYS[3]` by `ARGV[1]` for
/// `ARGV[2]` milliseconds.
const TAKE: &str = "\
-- take
local job = redis.call('LMOVE', KEYS[2], KEYS[1], 'RIGHT', 'LEFT')
if job then
  redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
end
return job";

static RECOVER_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(RECOVER));
static TAKE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(TAKE));

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "stalled_queue",
    spec: &Spec {
        kind: AlgorithmKind::Once,
        abilities: &[],
        guarantees: "each job runs, even if its worker crashes",
        assumes: "that no worker outlives its claim, or that a job may run twice",
        objection: "a slow worker is taken for crashed, and its job runs twice",
        breaks: &[
            (Property::AtMostOnce, FaultClass::Crash),
            (Property::AtMostOnce, FaultClass::Slow),
            (Property::AtMostOnce, FaultClass::Lost),
            (Property::AtMostOnce, FaultClass::Server),
            (Property::AtLeastOnce, FaultClass::Server),
            (Property::AtMostOnce, FaultClass::Cancel),
            (Property::AtMostOnce, FaultClass::Failover),
            (Property::AtMostOnce, FaultClass::Cluster),
        ],
    },
    scripts: &[RECOVER, TAKE],
    open: Open::Task(Task { prepare: push, run: |side, work| Box::pin(run(side, work)) }),
};

async fn run(Side { mut connection, env, terms }: Side, work: Work<'_>) -> RedisResult<bool> {
    let (waiting, working, claim) = (waiting(&terms.key), working(&terms.key), claim(&terms.key, JOB));
    let keys = [&working, &waiting, &claim];
    () = RECOVER_SCRIPT.key(&keys).invoke_async(&mut connection).await?;
    let mut take = TAKE_SCRIPT.key(&keys);
    take.arg(env.unique()).arg(terms.lease_ms());
    let Some(job) = take.invoke_async::<Option<String>>(&mut connection).await? else { return Ok(false) };
    work.await?;
    let mut complete = pipe();
    complete.atomic().del(&claim).lrem(&working, 0, &job);
    () = complete.query_async(&mut connection).await?;
    Ok(true)
}
