//! *Double increment.* A re-entrant lock counts the acquires of its holder. The reply to an acquire
//! is lost, and the library sends the acquire again. The count is then one too high, so the lock
//! stays after the holder's last release.
//!
//! Redisson's issue 7367. Repair: every acquire has a name, and the lock keeps these names instead
//! of a count.
//!
//! Bounds: 3 clients that acquire twice each, 1 lost message, 1 crash.

use expect_test::expect;
use harness::client::GatedConnection;
use harness::oracle::ExclusiveFact;
use harness::trace::Reached;
use harness::{Client, Faults, Scenario};
use redis::RedisResult;

use super::{check, one_of_each, send};

/// How a client acquires and releases: `ARGV[1]` is the client, `ARGV[2]` the name of the acquire.
#[derive(Clone, Copy)]
struct Scripts {
    acquire: &'static str,
    release: &'static str,
}

const COUNTING: Scripts = Scripts {
    acquire: "--obtain
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], 10000)
return 1",
    release: "--unlock
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
local depth = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
if depth == 0 then redis.call('DEL', KEYS[1]) end
return depth",
};

const NAMING: Scripts = Scripts {
    acquire: "--obtain
local holder = redis.call('HGET', KEYS[1], 'holder')
if holder and holder ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'holder', ARGV[1], ARGV[2], '')
redis.call('PEXPIRE', KEYS[1], 10000)
return 1",
    release: "--unlock
if redis.call('HGET', KEYS[1], 'holder') ~= ARGV[1] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[2])
local depth = redis.call('HLEN', KEYS[1]) - 1
if depth == 0 then redis.call('DEL', KEYS[1]) end
return depth",
};

async fn run(client: &Client, link: &mut GatedConnection, script: &str, name: &str) -> RedisResult<u32> {
    send(link, &["EVAL", script, "1", "lock", &client.name(), name]).await
}

fn scenario(Scripts { acquire, release }: Scripts) -> Scenario {
    Scenario::new("double increment")
        .interchangeable()
        .faults(Faults::none().lost(1).crashes(1))
        .must_reach(Reached { contention: true, crash: true, lost: true, ..Reached::default() })
        .always(ExclusiveFact::of("section"))
        .actors(3, move |client| async move {
            let (mut link, outer, inner) =
                (client.connection(), client.env().unique(), client.env().unique());
            if run(&client, &mut link, acquire, &outer).await? == 0 {
                return Ok(());
            }
            let hold = client.hold("section").enter();
            run(&client, &mut link, acquire, &inner).await?;
            run(&client, &mut link, release, &inner).await?;
            match hold.until(run(&client, &mut link, release, &outer)).await? {
                0 => Ok(()),
                depth => Err(format!("it has released all that it acquired, and is {depth} deep"))?,
            }
        })
}

#[test]
fn double_increment() {
    check(
        &scenario(COUNTING),
        &scenario(NAMING),
        one_of_each(),
        &expect![[r#"
            A failed: it has released all that it acquired, and is 1 deep

            step        time  A  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ●  A: script obtain lock A A1 → 1
                              │      now lock = {A: 1} (10000 ms left)
                              ┃    ▸ A is inside. Its lease runs until +10000 ms.
               2       +0 ms  ●  A: script obtain lock A A2 → 1
                              ┃      now lock = {A: 2} (10000 ms left)
                              ┃    ▸ The reply is lost, and the request is sent again.
               3       +0 ms  ●  A: script obtain lock A A2 → 1
                              ┃      now lock = {A: 3} (10000 ms left)
               4       +0 ms  ●  A: script unlock lock A A2 → 2
                              ┃      now lock = {A: 2} (10000 ms left)
               5       +0 ms  ●  A: script unlock lock A A1 → 1
                              │      now lock = {A: 1} (10000 ms left)
                              │    ▸ A begins its release, and no longer counts as a holder.
                              │    ▸ A failed: it has released all that it acquired, and is 1 deep
        "#]],
    );
}
