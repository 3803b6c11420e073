//! `lmove_queue`: a worker moves the next job to a second list, and claims it there.
//!
//! With `L` for how long a job may take:
//!
//! 1. For each job in `k:working` whose claim is gone, in a transaction: `LREM k:working 1 job` and
//!    `LPUSH k:waiting job`.
//! 2. `LMOVE k:waiting k:working RIGHT LEFT`, then `SET k:job:claim worker PX L`.
//! 3. The work. Then `LREM k:working 1 job`, and `DEL k:job:claim`.
//!
//! Source: <https://redis.io/docs/latest/commands/lmove/>, "Pattern: Reliable queue". The page
//! leaves open how the job of a crashed worker is found. A claim with a lease is usual.
//!
//! How it breaks: between its move and its claim, a job looks like that of a crashed worker, so
//! another one runs it, too. A worker that is slower than its claim is taken for crashed.

use redis::{RedisResult, cmd, pipe};

use super::{claim, push, waiting, working};
use crate::connection::Connection;
use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};
use crate::task::{Side, Task, Work};

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "lmove_queue",
    spec: &Spec {
        kind: AlgorithmKind::Once,
        abilities: &[],
        guarantees: "each job runs, even if its worker crashes",
        assumes: "that a job may run twice",
        objection: "a job is not claimed in the step that moves it, so another worker takes it for lost",
        breaks: &[(Property::AtMostOnce, FaultClass::Order), (Property::AtLeastOnce, FaultClass::Server)],
    },
    scripts: &[],
    open: Open::Task(Task { prepare: push, run: |side, work| Box::pin(run(side, work)) }),
};

async fn run(Side { mut connection, env, terms }: Side, work: Work<'_>) -> RedisResult<bool> {
    let key = &terms.key;
    let (waiting, working) = (waiting(key), working(key));
    recover(&mut connection, key).await?;
    let take = cmd("LMOVE").arg(&waiting).arg(&working).arg(&["RIGHT", "LEFT"]).to_owned();
    let Some(job) = take.query_async::<Option<String>>(&mut connection).await? else { return Ok(false) };
    let claim = claim(key, &job);
    let set = cmd("SET").arg(&claim).arg(env.unique()).arg("PX").arg(terms.lease_ms()).to_owned();
    () = set.query_async(&mut connection).await?;
    work.await?;
    () = cmd("LREM").arg(&working).arg(1).arg(&job).query_async(&mut connection).await?;
    () = cmd("DEL").arg(&claim).query_async(&mut connection).await?;
    Ok(true)
}

/// Puts the jobs back that nobody claims.
async fn recover(connection: &mut Connection, key: &str) -> RedisResult<()> {
    let (waiting, working) = (waiting(key), working(key));
    let list = cmd("LRANGE").arg(&working).arg(&[0, -1]).to_owned();
    for job in list.query_async::<Vec<String>>(connection).await? {
        let is_claimed: bool = cmd("EXISTS").arg(claim(key, &job)).query_async(connection).await?;
        if !is_claimed {
            let mut back = pipe();
            back.atomic().lrem(&working, 1, &job).lpush(&waiting, &job);
            () = back.query_async(connection).await?;
        }
    }
    Ok(())
}
