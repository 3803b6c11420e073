//! *Gave up early.* The waiters of a lock sleep until its release is published. A waiter that wakes
//! and finds the lock taken by another one gives up, although it may wait longer
//! (spring-projects/spring-integration#3716).
//!
//! Another version subscribes after it was refused, and does not try again before it sleeps. A
//! release in between wakes nobody (spring-projects/spring-integration#3702).
//!
//! Repair: a waiter tries once more after it has subscribed, and each time it wakes.

use std::time::Duration;

use harness::client::GatedConnection;
use harness::oracle::{ExclusiveFact, NoLostWakeUp};
use harness::{ActorError, Client, Scenario, exhaustive};
use locks::Subscribe as _;
use redis::{RedisResult, Script, cmd};
use tokio::time::timeout;

use super::{LEASE, fails, finds, passes};

const RELEASE: &str = "--release
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
return redis.call('PUBLISH', ARGV[2], 'free')";

#[derive(Clone, Copy, PartialEq)]
enum Code {
    GivesUpEarly,
    SubscribesLate,
    Repaired,
}

async fn obtain(link: &mut GatedConnection, client: &Client) -> RedisResult<bool> {
    let mut set = cmd("SET");
    set.arg("lock").arg(client.name()).arg("NX").arg("PX").arg(client.lease().as_millis() as u64);
    set.query_async(link).await
}

/// Waits for the lock until `deadline`.
async fn lock(
    link: &mut GatedConnection,
    client: &Client,
    deadline: Duration,
    code: Code,
) -> RedisResult<bool> {
    while !obtain(link, client).await? {
        let left = deadline.saturating_sub(client.now());
        if left.is_zero() {
            return Ok(false);
        }
        let mut released = link.subscribe("lock:free").await?;
        if code != Code::SubscribesLate && obtain(link, client).await? {
            return Ok(true);
        }
        _ = timeout(left.min(client.lease()), released.message()).await;
        if code == Code::GivesUpEarly {
            return obtain(link, client).await;
        }
    }
    Ok(true)
}

async fn act(client: Client, code: Code) -> Result<(), ActorError> {
    let (mut link, deadline) = (client.connection(), client.now() + client.lease() * 3);
    if lock(&mut link, &client, deadline, code).await? {
        let release = Script::new(RELEASE);
        let mut release = release.key("lock");
        release.arg(client.name()).arg("lock:free");
        client.hold("section").until(release.invoke_async::<()>(&mut link)).await?;
    } else if client.now() < deadline {
        return Err("gave up before its time was over".into());
    }
    Ok(())
}

fn waiters(count: usize, code: Code) -> Scenario {
    Scenario::new("lock with messages")
        .lease(LEASE)
        .script(&Script::new(RELEASE))
        .actors(count, move |client| act(client, code))
        .interchangeable()
        .always(ExclusiveFact::of("section"))
        .always(NoLostWakeUp::of("section", LEASE))
}

#[test]
fn a_waiter_that_loses_the_race_gives_up() {
    fails(&waiters(3, Code::GivesUpEarly), "gave up before its time was over", 8);
}

#[test]
fn a_waiter_misses_a_release() {
    let words = "no client has been inside for 10000 ms, although clients wait";
    finds(&waiters(2, Code::SubscribesLate), "no-lost-wake-up", 5, words);
}

#[test]
fn waiters_that_try_after_they_subscribe() {
    passes(exhaustive(&waiters(2, Code::Repaired)));
    passes(exhaustive(&waiters(3, Code::Repaired)));
}
