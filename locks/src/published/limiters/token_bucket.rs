//! `token_bucket` and `token_bucket_time`: a bucket with tokens.
//!
//! The bucket is full at first, and has one token here. One more flows in with each `L / n`, up to
//! one. A script takes a token, and notes how many are left and when that was. The first algorithm
//! counts time by the client's clock, which comes as an argument. The second has `TIME`.
//!
//! Source: Stripe, "Scaling your API with rate limiters" (2017-03-30), and its [scripts].
//!
//! How it breaks: a client whose clock is ahead fills the bucket, and so does a server that loses
//! its data. If a request is slow, its time is in the past: it sets the bucket back, and the next
//! one finds tokens that others have taken already.
//!
//! [scripts]: https://gist.github.com/ptarjan/e38f45f2dfe601419ca3af937fff574d

use std::sync::LazyLock;

use redis::{RedisResult, Script};

use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};
use crate::task::{Side, Task, Work, nothing, work_if};

/// Takes a token out of the bucket `KEYS[1]`. `ARGV[1]` is the time of a token, in milliseconds.
/// `now` says what time it is.
macro_rules! take {
    ($name:literal, $now:literal) => {
        concat!(
            "-- ",
            $name,
            "\nlocal now = ",
            $now,
            "\
\nlocal bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, at = tonumber(bucket[1] or '1'), tonumber(bucket[2] or '0')
tokens = math.min(1, tokens + math.max(0, now - at) / ARGV[1])
local may_work = tokens >= 1
if may_work then
  tokens = tokens - 1
end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('PEXPIRE', KEYS[1], 2 * ARGV[1])
return may_work"
        )
    };
}

const TAKE: &str = take!("take", "tonumber(ARGV[2])");
const TAKE_BY_TIME: &str =
    take!("take by time", "redis.call('TIME')\nnow = now[1] * 1000 + math.floor(now[2] / 1000)");

static TAKE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(TAKE));
static TAKE_BY_TIME_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(TAKE_BY_TIME));

/// The row of the algorithm with the client's clock in the registry.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "token_bucket",
    spec: &Spec {
        kind: AlgorithmKind::Limiter,
        abilities: &[],
        guarantees: "the limit in any span as long as the window, one request after another",
        assumes: "equal clocks, and a server that keeps its data",
        objection: "a client whose clock is ahead fills the bucket; a slow request sets it back",
        breaks: &[
            (Property::Rate, FaultClass::Skew),
            (Property::Rate, FaultClass::Slow),
            (Property::Rate, FaultClass::Lost),
            (Property::Rate, FaultClass::Server),
            (Property::Recovers, FaultClass::Pairs),
            (Property::Rate, FaultClass::Failover),
        ],
    },
    scripts: &[TAKE],
    open: Open::Task(Task {
        prepare: nothing,
        run: |side, work| Box::pin(run(&TAKE_SCRIPT, true, side, work)),
    }),
};

/// The row of the algorithm with the server's clock in the registry.
pub const ALGORITHM_BY_TIME: Algorithm = Algorithm {
    name: "token_bucket_time",
    spec: &Spec {
        assumes: "a server that keeps its data and whose clock does not jump",
        objection: "a server that has lost the bucket lets another request through",
        breaks: &[(Property::Rate, FaultClass::Server), (Property::Rate, FaultClass::Failover)],
        ..*ALGORITHM.spec
    },
    scripts: &[TAKE_BY_TIME],
    open: Open::Task(Task {
        prepare: nothing,
        run: |side, work| Box::pin(run(&TAKE_BY_TIME_SCRIPT, false, side, work)),
    }),
};

async fn run(
    script: &Script,
    reads_clock: bool,
    Side { mut connection, env, terms }: Side,
    work: Work<'_>,
) -> RedisResult<bool> {
    let mut take = script.key(&terms.key);
    take.arg(terms.lease_ms() / i64::from(terms.permits));
    if reads_clock {
        take.arg(env.now_ms());
    }
    work_if(take.invoke_async(&mut connection).await?, work).await
}
