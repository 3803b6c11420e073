//! `sliding_window_counter`: two counters of windows of the clock. Their weighted sum stands for
//! the count in a sliding window.
//!
//! With `now` from the client's clock, `w` the number of its window, `n` the limit and `L` the
//! window, one script:
//!
//! 1. `GET k:w` is the count `c`, and `GET k:w-1` is the count `p` of the window before.
//! 2. With `e` the part of the window that is over: if `p * (1 - e) + c` is at least `n`, the
//!    request is refused.
//! 3. Otherwise `INCR k:w` and `PEXPIRE k:w 2L`. The request is let through.
//!
//! Source: J. Desgats, [How we built rate limiting capable of scaling to millions of domains]
//! (2017-06-07), and the script of the sliding window of [@upstash/ratelimit].
//!
//! How it breaks: the weight assumes that the requests of the window before were spread evenly. If
//! `n` came at its end, another one is let through as soon as the next window has begun: `n` times
//! a weight below 1 is less than `n`. So there are more than `n` in a span as long as the window.
//!
//! Here the first request comes at the beginning of a window. One comes late if the first was lost
//! or cancelled, or if a client is slow.
//!
//! A client whose clock is wrong counts in another window. If it is ahead, its count is in the way
//! of later requests.
//!
//! [How we built rate limiting capable of scaling to millions of domains]:
//!     https://blog.cloudflare.com/counting-things-a-lot-of-different-things/
//! [@upstash/ratelimit]: https://upstash.com/docs/redis/sdks/ratelimit-ts/algorithms

use std::sync::LazyLock;

use redis::{RedisResult, Script};

use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};
use crate::task::{Side, Task, Work, nothing, work_if};

/// Counts a request in the window `KEYS[1]`, after the window `KEYS[2]`. `ARGV[1]` is the limit,
/// `ARGV[2]` is how much of the window is over, and `ARGV[3]` is the window, in milliseconds.
const COUNT: &str = "\
-- count
local current = tonumber(redis.call('GET', KEYS[1]) or '0')
local previous = tonumber(redis.call('GET', KEYS[2]) or '0')
if previous * (1 - ARGV[2] / ARGV[3]) + current >= tonumber(ARGV[1]) then
  return 0
end
redis.call('INCR', KEYS[1])
redis.call('PEXPIRE', KEYS[1], 2 * ARGV[3])
return 1";

static COUNT_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(COUNT));

/// The row of this algorithm in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "sliding_window_counter",
    spec: &Spec {
        kind: AlgorithmKind::Limiter,
        abilities: &[],
        guarantees: "about the limit in any span as long as the window",
        assumes: "equal clocks, requests that are spread evenly over each window, and a server that keeps its data",
        objection: "requests at the end of a window weigh too little in the next; a wrong clock counts elsewhere",
        breaks: &[
            (Property::Rate, FaultClass::Skew),
            (Property::Rate, FaultClass::Slow),
            (Property::Rate, FaultClass::Lost),
            (Property::Rate, FaultClass::Server),
            (Property::Rate, FaultClass::Cancel),
            (Property::Recovers, FaultClass::Pairs),
            (Property::Rate, FaultClass::Failover),
            (Property::Rate, FaultClass::Cluster),
        ],
    },
    scripts: &[COUNT],
    open: Open::Task(Task { prepare: nothing, run: |side, work| Box::pin(run(side, work)) }),
};

async fn run(Side { mut connection, env, terms }: Side, work: Work<'_>) -> RedisResult<bool> {
    let (now_ms, window_ms) = (env.now_ms(), terms.lease_ms());
    let key = |window: i64| format!("{{{}}}:{window}", terms.key);
    let window = now_ms / window_ms;
    let mut count = COUNT_SCRIPT.key(key(window));
    count.key(key(window - 1)).arg(terms.permits).arg(now_ms % window_ms).arg(window_ms);
    work_if(count.invoke_async(&mut connection).await?, work).await
}
