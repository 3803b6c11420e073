//! Tests the latch: its guarantees in every order of commands, and that the explorer finds mutants
//! of its scripts.

use std::time::Duration;

use emulator::{Clock, Emulator};
use harness::client::GatedConnection;
use harness::{Client, Faults, Scenario};
use locks::{Connection, CountDownLatch, Counters, Error, RateLimiter};
use redis::AsyncCommands as _;

use super::judged::{fails, note, passes};
use super::rewritten::{Change, Rewritten};

const LONG: Duration = Duration::from_secs(3_600);
const PATIENCE: Duration = Duration::from_secs(10);

fn latch(client: &Client, changes: &'static [Change]) -> CountDownLatch {
    let connection: GatedConnection = client.connection();
    let connection = Connection::subscribing(Rewritten::new(connection, changes));
    // Only messages wake a client in time.
    CountDownLatch::builder(connection, "latch").env(client.env()).retry(LONG).build().unwrap()
}

/// Two clients work and count down, and a third waits. It must find all work done. If no request is
/// lost, it must not wait after that. It gives up if nobody works, since time may pass before that.
fn scenario(changes: &'static [Change], faults: Faults) -> Scenario {
    let is_undisturbed = faults == Faults::none();
    let prepared = Scenario::new("latch").faults(faults).before(move |client| async move {
        assert!(latch(&client, &[]).try_set_count(2).await?);
        Ok(())
    });
    let workers = prepared.actors(2, move |client| async move {
        let done_at = client.true_time().as_millis() as u64;
        () = client.connection().set(client.name(), done_at).await?;
        latch(&client, changes).count_down().await?;
        Ok(())
    });
    workers.actors(1, move |client| async move {
        let is_open = match latch(&client, changes).wait_timeout(PATIENCE).await {
            Err(Error::TimedOut { .. }) => false,
            other => other.map(|()| true)?,
        };
        let done_at: Vec<Option<u64>> = client.connection().mget(&["A", "B"]).await?;
        if let [Some(a), Some(b)] = done_at[..] {
            let waited = client.true_time().as_millis() as u64 - a.max(b);
            assert!(waited == 0 || !is_undisturbed, "it waited in vain for {waited} ms");
        } else {
            assert!(!is_open, "the latch opened too early: {done_at:?}");
        }
        note(&client);
        Ok(())
    })
}

#[test]
fn nobody_passes_before_zero_and_nobody_waits_in_vain() {
    passes(scenario(&[], Faults::none()));
    passes(scenario(&[], Faults::none().lost(1)));
}

#[test]
fn mutants_are_found() {
    const NO_MEMORY: &[Change] = &[("if is_known then\n  return count", "if false then\n  return count")];
    const NO_MESSAGE: &[Change] = &[("redis.pcall('PUBLISH', ARGV[4], count)", "")];
    const EARLY: &[Change] = &[("{tonumber(found[1]), found[2]}", "{tonumber(found[1]) - 1, found[2]}")];
    fails(NO_MEMORY, scenario(NO_MEMORY, Faults::none().lost(1)), "the latch opened too early");
    fails(NO_MESSAGE, scenario(NO_MESSAGE, Faults::none()), "it waited in vain");
    fails(EARLY, scenario(EARLY, Faults::none()), "the latch opened too early");
}

#[tokio::test(start_paused = true)]
async fn a_latch_is_set_once_and_its_keys_expire() {
    let server = Emulator::with_clock(Clock::tokio());
    let latch = CountDownLatch::builder(Connection::new(server.connection()), "latch").build().unwrap();
    latch.wait().await.unwrap();
    assert!(latch.try_set_count(2).await.unwrap());
    assert!(!latch.try_set_count(5).await.unwrap());
    assert_eq!(latch.count_down().await.unwrap(), 1);
    let timeout = latch.wait_timeout(Duration::from_secs(2)).await;
    assert!(matches!(timeout, Err(Error::TimedOut { .. })));
    assert_eq!(latch.count_down().await.unwrap(), 0);
    latch.wait().await.unwrap();
    assert_eq!(latch.count_down().await.unwrap(), 0);
    assert!(latch.try_set_count(1).await.unwrap());
    assert_eq!(latch.count().await.unwrap(), 1);
    let waiter = tokio::spawn({
        let latch = latch.clone();
        async move { latch.wait().await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    _ = server.connection().execute(&[b"DEL", b"latch"]);
    assert!(matches!(waiter.await.unwrap(), Err(Error::Lost { .. })));
    assert!(matches!(latch.try_set_count(0).await, Err(Error::Invalid { .. })));
    tokio::time::sleep(25 * LONG).await;
    assert_eq!(server.keys("*"), Vec::<bytes::Bytes>::new());
}

#[tokio::test(start_paused = true)]
async fn counters_count_what_happens_to_a_latch_and_a_limiter() {
    let (server, counters) = (Emulator::with_clock(Clock::tokio()), Counters::default());
    let connection = Connection::new(server.connection());
    let latch = CountDownLatch::builder(connection.clone(), "latch").counters(&counters).build().unwrap();
    assert!(latch.try_set_count(1).await.unwrap());
    assert!(latch.wait_timeout(PATIENCE).await.is_err());
    latch.count_down().await.unwrap();
    latch.wait().await.unwrap();
    assert_eq!((counters.acquired(), counters.failed()), (1, 1));
    let looks = counters.attempts();
    assert!(looks > 2);
    let limiter = RateLimiter::builder(connection, "limiter").counters(&counters);
    let limiter = limiter.sliding_window(1, 2 * PATIENCE).build().unwrap();
    assert!(limiter.try_acquire().await.unwrap().is_allowed());
    assert!(!limiter.try_acquire().await.unwrap().is_allowed());
    assert!(limiter.acquire_timeout(PATIENCE).await.is_err());
    limiter.acquire().await.unwrap();
    assert_eq!((counters.acquired(), counters.refused(), counters.failed()), (3, 1, 2));
    assert_eq!(counters.attempts(), looks + 5, "one that waits asks twice");
}
