//! *Takeover by age.* A client stores the time at which it took the lock. Another client takes the
//! lock over if that time is old. But a lock counts as old before the lease of its holder ends.
//!
//! The time is that of a client, or that of the server in a script. No key has a time to live.
//!
//! Repair: a lock is old when its lease has ended.
//!
//! Bounds: 2 clients, 1 stall.

use std::time::Duration;

use expect_test::expect;
use harness::oracle::ExclusiveFact;
use harness::trace::Reached;
use harness::{ActorError, Client, Faults, Scenario};

use super::{LEASE, UNLOCK, check, run, send};

/// Takes the lock if it is free, or if it was taken longer ago than the given milliseconds.
const TAKE: &str = "--take
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local taken = redis.call('GET', KEYS[1])
if taken and now - taken <= tonumber(ARGV[1]) then return false end
redis.call('SET', KEYS[1], now)
return now";

/// Takes the lock by the client's clock. Returns the time that it stored.
async fn take_by_client(client: Client, max_age: i64) -> Result<Option<i64>, ActorError> {
    let (mut link, env) = (client.connection(), client.env());
    let now = env.now_ms();
    if send(&mut link, &["SETNX", "lock", &now.to_string()]).await? {
        return Ok(Some(now));
    }
    let Some(taken): Option<i64> = send(&mut link, &["GET", "lock"]).await? else { return Ok(None) };
    let now = env.now_ms();
    if now - taken <= max_age {
        return Ok(None);
    }
    let before: Option<i64> = send(&mut link, &["GETSET", "lock", &now.to_string()]).await?;
    Ok((before == Some(taken)).then_some(now))
}

/// Takes the lock by the server's clock. Returns the time that it stored.
async fn take_by_server(client: Client, max_age: i64) -> Result<Option<i64>, ActorError> {
    Ok(send(&mut client.connection(), &["EVAL", TAKE, "1", "lock", &max_age.to_string()]).await?)
}

fn scenario<F: Future<Output = Result<Option<i64>, ActorError>> + Send + 'static>(
    take: fn(Client, i64) -> F,
    max_age: Duration,
) -> Scenario {
    let max_age = max_age.as_millis() as i64;
    Scenario::new("takeover by age")
        .interchangeable()
        .faults(Faults::none().stalls(1))
        .must_reach(Reached { contention: true, ..Reached::default() })
        .always(ExclusiveFact::of("section"))
        .actors(2, move |client| async move {
            let since = client.true_time();
            if let Some(taken) = take(client.clone(), max_age).await? {
                let (mut link, taken) = (client.connection(), taken.to_string());
                client.hold("section").since(since).until(run::<()>(&mut link, UNLOCK, &taken)).await?;
            }
            Ok(())
        })
}

const TOO_SOON: Duration = Duration::from_secs(8);

#[test]
fn takeover_by_age() {
    check(
        &scenario(take_by_client, TOO_SOON),
        &scenario(take_by_client, LEASE),
        Faults::none().stalls(1).crashes(1),
        &expect![[r#"
            exclusive-fact

            step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● ·  A: SETNX lock 1700000000500 → 1
                              │ ·      now lock = "1700000000500"
                              ┃ ·    ▸ A is inside. Its lease runs until +10000 ms.
               2    +8001 ms  ┃ ·  8001 ms pass: every client is slow
               3    +8001 ms  ┃ ●  B: SETNX lock 1700000008501 → 0
               4    +8001 ms  ┃ ●  B: GET lock → "1700000000500"
               5    +8001 ms  ┃ ●  B: GETSET lock 1700000008501 → "1700000000500"
                              ┃ │      now lock = "1700000008501"
                              ┃ ┃    ▸ B is inside. Its lease runs until +18001 ms. Now A and B are inside.

            ✗ A and B hold the lock, each with a lease that still runs.
        "#]],
    );
}

#[test]
fn takeover_by_age_in_a_script() {
    check(
        &scenario(take_by_server, TOO_SOON),
        &scenario(take_by_server, LEASE),
        Faults::none().stalls(1).crashes(1),
        &expect![[r#"
            exclusive-fact

            step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● ·  A: script take lock 8000 → "1700000000500"
                              │ ·      now lock = "1700000000500"
                              ┃ ·    ▸ A is inside. Its lease runs until +10000 ms.
               2    +8001 ms  ┃ ·  8001 ms pass: every client is slow
               3    +8001 ms  ┃ ●  B: script take lock 8000 → "1700000008501"
                              ┃ │      now lock = "1700000008501"
                              ┃ ┃    ▸ B is inside. Its lease runs until +18001 ms. Now A and B are inside.

            ✗ A and B hold the lock, each with a lease that still runs.
        "#]],
    );
}
