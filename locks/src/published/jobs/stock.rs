//! `stock_get_decr` and `stock_in_script`: the last item of a flash sale.
//!
//! `GET k`, and then `DECR k` if something is left. The second algorithm does both in a script. The
//! sale follows.
//!
//! Source: [qiurunze123/miaosha#23], a report about the first.
//!
//! How it breaks: two buyers read that one item is left, and both buy it. In the second algorithm
//! one of them does. A buyer who crashes takes the item along.
//!
//! [qiurunze123/miaosha#23]: https://github.com/qiurunze123/miaosha/issues/23

use std::sync::LazyLock;

use redis::{RedisResult, Script, cmd};

use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};
use crate::task::{Doing, Side, Task, Work, work_if};

/// Takes an item out of the stock `KEYS[1]`, if one is left.
const TAKE: &str = "\
-- take
if tonumber(redis.call('GET', KEYS[1]) or '0') < 1 then
  return 0
end
redis.call('DECR', KEYS[1])
return 1";

static TAKE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(TAKE));

/// The row of the first algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "stock_get_decr",
    spec: &Spec {
        kind: AlgorithmKind::Once,
        abilities: &[],
        guarantees: "no more items are sold than there are",
        assumes: "that no two buyers come at the same time, and that no buyer crashes",
        objection: "two buyers read that one item is left; an item that was taken may never be sold",
        breaks: &[
            (Property::AtMostOnce, FaultClass::Order),
            (Property::AtLeastOnce, FaultClass::Crash),
            (Property::AtLeastOnce, FaultClass::Lost),
            (Property::AtLeastOnce, FaultClass::Server),
            (Property::AtLeastOnce, FaultClass::Cancel),
        ],
    },
    scripts: &[],
    open: Open::Task(Task { prepare: stock, run: |side, work| Box::pin(run(side, work)) }),
};

/// The row of the second algorithm in the registry.
pub const ALGORITHM_IN_SCRIPT: Algorithm = Algorithm {
    name: "stock_in_script",
    spec: &Spec {
        assumes: "that no buyer crashes and no reply is lost",
        objection: "an item that was taken may never be sold",
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
    scripts: &[TAKE],
    open: Open::Task(Task { prepare: stock, run: |side, work| Box::pin(run_script(side, work)) }),
};

/// One item is left.
fn stock(Side { mut connection, terms, .. }: Side) -> Doing<'static, ()> {
    Box::pin(async move { cmd("SET").arg(&terms.key).arg(1).query_async(&mut connection).await })
}

async fn run(Side { mut connection, terms, .. }: Side, work: Work<'_>) -> RedisResult<bool> {
    let left: Option<i64> = cmd("GET").arg(&terms.key).query_async(&mut connection).await?;
    if left.unwrap_or(0) < 1 {
        return Ok(false);
    }
    () = cmd("DECR").arg(&terms.key).query_async(&mut connection).await?;
    work.await?;
    Ok(true)
}

async fn run_script(Side { mut connection, terms, .. }: Side, work: Work<'_>) -> RedisResult<bool> {
    let is_taken: bool = TAKE_SCRIPT.key(&terms.key).invoke_async(&mut connection).await?;
    work_if(is_taken, work).await
}
