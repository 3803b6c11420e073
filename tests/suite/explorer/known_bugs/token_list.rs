//! *Token list.* A semaphore is a list of permits. `BLPOP` takes one, and the next command records
//! its holder and its end, so that others can free the permits of dead holders. If a client crashes
//! between the two commands, its permit is lost for ever.
//!
//! redis-semaphore for Ruby, issue 64. Repair: one script takes the permit and records it.
//!
//! Bounds: 3 clients, 1 permit, 1 crash.

use expect_test::expect;
use harness::client::GatedConnection;
use harness::oracle::{OverIssue, Recovers};
use harness::trace::Reached;
use harness::{Client, Faults, Scenario};
use redis::RedisResult;

use super::{check, send};

/// Frees the permits whose lease was over at the time `ARGV[1]`.
const REAP: &str = "--revive
for _, permit in ipairs(redis.call('ZRANGEBYSCORE', 'taken', '-inf', ARGV[1])) do
  redis.call('ZREM', 'taken', permit)
  redis.call('RPUSH', 'free', permit)
end";

/// Takes a permit until `ARGV[1]`.
const TAKE: &str = "--obtain
local permit = redis.call('LPOP', 'free')
if permit then redis.call('ZADD', 'taken', ARGV[1], permit) end
return permit";

/// Releases the permit `ARGV[1]`.
const RELEASE: &str = "--unlock
if redis.call('ZREM', 'taken', ARGV[1]) == 1 then redis.call('RPUSH', 'free', ARGV[1]) end";

/// How many commands take a permit.
#[derive(Clone, Copy)]
enum Takes {
    TwoCommands,
    OneScript,
}

async fn take(client: &Client, link: &mut GatedConnection, takes: Takes) -> RedisResult<Option<String>> {
    let now_ms = client.env().now_ms();
    let until = (now_ms + 10_000).to_string();
    send::<()>(link, &["EVAL", REAP, "0", &now_ms.to_string()]).await?;
    match takes {
        Takes::OneScript => send(link, &["EVAL", TAKE, "0", &until]).await,
        Takes::TwoCommands => {
            let popped: Option<(String, String)> = send(link, &["BLPOP", "free", "1"]).await?;
            let Some((_, permit)) = popped else { return Ok(None) };
            send::<()>(link, &["ZADD", "taken", &until, &permit]).await?;
            Ok(Some(permit))
        }
    }
}

fn scenario(takes: Takes) -> Scenario {
    Scenario::new("token list")
        .interchangeable()
        .faults(Faults::none().crashes(1))
        .must_reach(Reached { contention: true, crash: true, ..Reached::default() })
        .always(Recovers)
        .always(OverIssue::of("section", 1))
        .before(|client| async move { Ok(send(&mut client.connection(), &["RPUSH", "free", "1"]).await?) })
        .actors(3, move |client| async move {
            let mut link = client.connection();
            if let Some(permit) = take(&client, &mut link, takes).await? {
                client.hold("section").until(send::<()>(&mut link, &["EVAL", RELEASE, "0", &permit])).await?;
            }
            Ok(())
        })
        .or_fewer()
        .probe(
            1,
            move |client| async move { Ok(take(&client, &mut client.connection(), takes).await?.is_some()) },
        )
}

#[test]
fn token_list() {
    check(
        &scenario(Takes::TwoCommands),
        &scenario(Takes::OneScript),
        Faults::none().crashes(1),
        &expect![[r#"
            recovers

            step        time  A  ● acts · not begun │ runs
               1       +0 ms  ●  A: script revive 1700000000500 → (nil)
               2       +0 ms  ●  A: BLPOP free 1 → ["free", "1"]
                              │      now free is gone
                       +0 ms  ●  A crashes before the reply arrives
                   +12000 ms     12000 ms pass
                                     probe1: script revive 1700000012500 → (nil)
                                     probe1: BLPOP free 1 → (nil)
                   +13000 ms     1000 ms pass
                                   ▸ No client runs any more, and 12000 ms have passed. Fresh clients try: 0 of 1 succeed.

            ✗ more than a lease after the end, only 0 of 1 fresh clients succeed.
        "#]],
    );
}
