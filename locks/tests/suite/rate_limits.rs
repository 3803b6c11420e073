//! Tests the rate limiter in every order of commands. The scripts are changed so that they record
//! all grants. The explorer must find mutants of the scripts.

use std::time::Duration;

use emulator::{Clock, Emulator};
use harness::{Client, Faults, Scenario};
use locks::{Connection, Decision, Error, RateLimiter, RateLimiterBuilder};
use redis::AsyncCommands as _;

use super::judged::{fails, note, passes};
use super::rewritten::{Change, Rewritten};

const PER: Duration = Duration::from_secs(10);
const PER_US: u64 = 10_000_000;
/// Both algorithms have this limit or capacity, and this refill.
const LIMIT: u32 = 2;
/// Each grant is recorded with its time by the server's clock, and its token.
const RECORD_WINDOW: Change = (
    "redis.call('ZREMRANGEBYSCORE', KEYS[1]",
    "redis.call('RPUSH', 'log', string.format('%.0f ', now) .. token)
redis.call('ZREMRANGEBYSCORE', KEYS[1]",
);
const RECORD_BUCKET: Change = (
    "redis.call('HSET', KEYS[1]",
    "redis.call('RPUSH', 'log', string.format('%.0f ', now) .. token)
redis.call('HSET', KEYS[1]",
);

/// The times and the tokens of all grants.
fn grants(log: &[String]) -> Vec<(u64, &str)> {
    log.iter()
        .map(|grant| grant.split_once(' ').unwrap())
        .map(|(at, token)| (at.parse().unwrap(), token))
        .collect()
}

/// Whether no token was granted twice within a span.
fn counts_once(grants: &[(u64, &str)]) -> bool {
    grants.iter().enumerate().all(|(nth, &(at, token))| {
        grants[..nth].iter().all(|&(before, other)| token != other || at - before >= PER_US)
    })
}

fn window(builder: RateLimiterBuilder) -> RateLimiterBuilder {
    builder.sliding_window(LIMIT, PER)
}

fn bucket(builder: RateLimiterBuilder) -> RateLimiterBuilder {
    builder.token_bucket(LIMIT, LIMIT, PER)
}

/// Whether the grants at these times are within the sliding window.
fn fits_window(times: &[u64]) -> bool {
    times.windows(LIMIT as usize + 1).all(|few| few[LIMIT as usize] - few[0] >= PER_US)
}

/// Whether any grants in a row are at most the capacity and what flowed in meanwhile.
fn fits_bucket(times: &[u64]) -> bool {
    let limit = u64::from(LIMIT);
    let rows = (0..times.len()).flat_map(|from| (from..times.len()).map(move |to| (from, to)));
    rows.into_iter().all(|(from, to)| {
        (to - from + 1) as u64 * PER_US <= limit * PER_US + limit * (times[to] - times[from])
    })
}

/// Three clients try once. Each that is granted a permit judges the record of all grants. Without a
/// fault, as many are granted as the limit says, or more.
fn scenario(
    algorithm: fn(RateLimiterBuilder) -> RateLimiterBuilder,
    changes: &'static [Change],
    fits: fn(&[u64]) -> bool,
    faults: Faults,
) -> Scenario {
    Scenario::new("rate limit").lease(PER).faults(faults).prompt_replies().interchangeable().actors(
        3,
        move |client: Client| async move {
            let connection = Connection::new(Rewritten::new(client.connection(), changes));
            let builder = RateLimiter::builder(connection, "rate").env(client.env());
            let limiter = algorithm(builder).build()?;
            if limiter.try_acquire().await?.is_allowed() {
                let log: Vec<String> = client.connection().lrange("log", 0, -1).await?;
                let grants = grants(&log);
                let times: Vec<u64> = grants.iter().map(|&(at, _)| at).collect();
                assert!(fits(&times) && counts_once(&grants), "granted {log:?}");
                note(&client);
            } else {
                let granted: usize = client.connection().llen("log").await?;
                assert!(granted >= LIMIT as usize, "refused after {granted} grants");
            }
            Ok(())
        },
    )
}

fn faults() -> Faults {
    Faults::none().lost(1).stalls(1)
}

#[test]
fn no_window_has_more_than_the_limit() {
    passes(scenario(window, &[RECORD_WINDOW], fits_window, faults()));
}

#[test]
fn a_bucket_gives_no_more_than_flowed_in() {
    passes(scenario(bucket, &[RECORD_BUCKET], fits_bucket, faults()));
}

#[test]
fn mutants_are_found() {
    const WINDOWS: &[&[Change]] = &[
        &[("if excess > 0", "if excess > 1"), RECORD_WINDOW],
        &[("now - per)\nlocal used", "now - per / 2)\nlocal used"), RECORD_WINDOW],
        &[("if granted_at and", "if false and"), RECORD_WINDOW],
    ];
    const BUCKETS: &[&[Change]] = &[
        &[("level - permits * unit", "level"), RECORD_BUCKET],
        &[("if level < 0", "if level + unit < 0"), RECORD_BUCKET],
        &[("if granted_at and", "if false and"), RECORD_BUCKET],
    ];
    for mutant in WINDOWS {
        fails(mutant, scenario(window, mutant, fits_window, faults()), "granted [");
    }
    for mutant in BUCKETS {
        fails(mutant, scenario(bucket, mutant, fits_bucket, faults()), "granted [");
    }
}

#[tokio::test(start_paused = true)]
async fn decisions_say_what_remains_and_when_to_come_again() {
    for algorithm in [window, bucket] {
        let server = Emulator::with_clock(Clock::tokio());
        let builder = RateLimiter::builder(Connection::new(server.connection()), "rate");
        let limiter = algorithm(builder).build().unwrap();
        assert_eq!(limiter.try_acquire().await.unwrap(), Decision::Allowed { remaining: 1 });
        assert_eq!(limiter.try_acquire().await.unwrap(), Decision::Allowed { remaining: 0 });
        let Decision::Denied { retry_after } = limiter.try_acquire().await.unwrap() else { panic!() };
        assert!(retry_after <= PER && retry_after >= PER / 2 - Duration::from_millis(1), "{retry_after:?}");
        let error = limiter.acquire_timeout(Duration::from_secs(1)).await;
        assert!(matches!(error, Err(Error::TimedOut { attempts: 1, .. })));
        limiter.acquire_timeout(2 * PER).await.unwrap();
        assert!(matches!(limiter.try_acquire_many(3).await, Err(Error::Invalid { .. })));
        assert!(matches!(limiter.try_acquire_many(0).await, Err(Error::Invalid { .. })));
        limiter.acquire_many(2).await.unwrap();
        assert!(!limiter.try_acquire().await.unwrap().is_allowed());
        tokio::time::sleep(2 * PER).await;
        assert_eq!(server.keys("*"), Vec::<bytes::Bytes>::new(), "nothing is left");
    }
}
