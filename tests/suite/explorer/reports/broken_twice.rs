//! *Broken twice.* A waiter of a session lock breaks the lock when it has tried often enough. Two
//! waiters can break it one right after the other, and both write the session
//! (colinmollenhour/Cm_RedisSession#92).
//!
//! Repair: a script breaks the lock only if its owner is the one that the waiter has seen all the
//! time.

use std::time::Duration;

use harness::oracle::ExclusiveFact;
use harness::{Client, Scenario, exhaustive, from_fn, sample};
use redis::{AsyncCommands as _, RedisResult, Script, pipe};
use tokio::time::sleep;

use super::{Code, finds, passes};

const SESSION: &str = "sess_5d41402a";
const PAUSE: Duration = Duration::from_secs(1);
/// How often a waiter sees the same owner before it breaks the lock.
const TRIES: u32 = 2;

const BREAK: &str = "--break
if redis.call('HGET', KEYS[1], 'pid') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'pid', ARGV[2], 'lock', 1)
return 1";

async fn lock(client: &Client, code: Code) -> RedisResult<()> {
    let (mut link, pid) = (client.connection(), client.name());
    let (mut tried, mut seen) = (0, None);
    while link.hincr::<_, _, _, i64>(SESSION, "lock", 1).await? != 1 {
        let owner: Option<String> = link.hget(SESSION, "pid").await?;
        if owner != seen {
            (tried, seen) = (0, owner);
        }
        tried += 1;
        if tried > TRIES {
            let is_broken = match code {
                Code::Reported => {
                    let mut take = pipe();
                    take.atomic().hset(SESSION, "lock", 1).hset(SESSION, "pid", &pid);
                    take.exec_async(&mut link).await?;
                    true
                }
                Code::Repaired => {
                    Script::new(BREAK).key(SESSION).arg(&seen).arg(&pid).invoke_async(&mut link).await?
                }
            };
            if is_broken {
                return Ok(());
            }
        }
        sleep(PAUSE).await;
    }
    link.hset(SESSION, "pid", pid).await
}

/// Works for longer than the others wait, and writes the session if it is still its own.
async fn request(client: Client, code: Code) -> RedisResult<()> {
    let (mut link, pid) = (client.connection(), client.name());
    lock(&client, code).await?;
    let stay = client.hold("session").since(client.now()).enter();
    sleep(client.lease() * 2).await;
    let owner: Option<String> = link.hget(SESSION, "pid").await?;
    if owner.as_ref() == Some(&pid) {
        let mut write = pipe();
        write.atomic().hset(SESSION, "data", &pid).hset(SESSION, "lock", 0);
        stay.until(write.exec_async(&mut link)).await?;
    }
    Ok(())
}

fn requests(count: usize, code: Code) -> Scenario {
    Scenario::new("session lock")
        // The owner has the lock for as long as the others try.
        .lease(PAUSE * TRIES)
        .script(&Script::new(BREAK))
        .actors(count, from_fn(move |client| request(client, code)))
        .interchangeable()
        .always(ExclusiveFact::of("session"))
}

#[test]
fn two_waiters_break_the_lock() {
    finds(&requests(3, Code::Reported), "exclusive-fact", 18, "B and C hold «session»");
}

#[test]
fn a_waiter_breaks_the_lock_of_one_owner() {
    passes(exhaustive(&requests(2, Code::Repaired)));
    passes(sample(&requests(3, Code::Repaired), 2_000, 0));
}
