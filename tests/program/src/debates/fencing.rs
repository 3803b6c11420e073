//! Kleppmann's figures: a client that pauses writes to a storage after its lease has ended.

use std::time::Duration;

use harness::oracle::Fenced;
use harness::{ActorError, Client, Faults, Scenario};
use redis::aio::ConnectionLike;
use redis::{RedisResult, Script};

use super::debate::{Claim, Debate, KLEPPMANN};
use super::lock::release;

pub(super) const DEBATE: Debate = Debate {
    name: "fencing",
    about: "What happens to the data if a client writes after its lease has ended?",
    sources: &[KLEPPMANN],
    claims: &[
        Claim {
            scenario: "a storage that takes every write",
            says: "A client that pauses overwrites what a later holder of the lock has written.",
            passes: false,
            make: |name, lease| scenario(name, lease, TAKES_ALL),
        },
        Claim {
            scenario: "a storage that checks tokens",
            says: "A storage that refuses a write with an older token than the last one prevents that.",
            passes: true,
            make: |name, lease| scenario(name, lease, CHECKS_TOKENS),
        },
    ],
};

const LOCKS: usize = 0;
const STORAGE: usize = 1;

/// Takes the lock, and numbers the grants: each holder gets a higher token.
const ACQUIRE: &str = "-- acquire
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('INCR', KEYS[2]) end
return false";
/// The counter of the tokens, in the slot of the lock.
pub(super) const TOKEN: &str = "{lock}:token";
const TAKES_ALL: &str = "-- write
redis.call('SET', KEYS[1], ARGV[1])
return 1";
const CHECKS_TOKENS: &str = "-- write
local last = tonumber(redis.call('GET', KEYS[2]) or 0)
if tonumber(ARGV[2]) < last then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], ARGV[2])
return 1";

fn scenario(name: &str, lease: Duration, write: &'static str) -> Scenario {
    Scenario::new(name)
        .servers_named(["locks", "storage"])
        .lease(lease)
        .faults(Faults::none().stalls(1))
        .script(&Script::new(write))
        .actors(2, move |client| write_once(client, write))
        .interchangeable()
        .always(Fenced::of("storage"))
}

/// A client writes to the storage while it holds the lock. It knows its token, and the storage gets
/// it.
async fn write_once(client: Client, write: &'static str) -> Result<(), ActorError> {
    let (mut locks, mut storage) = (client.connection_to(LOCKS), client.connection_to(STORAGE));
    let since = client.true_time();
    let Some(token) = acquire(&client, &mut locks, TOKEN).await? else { return Ok(()) };
    let hold = client.hold("file").since(since).enter();
    let write = Script::new(write);
    let mut write = write.key("file");
    write.key("{file}:token").arg(format!("by {}", client.name())).arg(token);
    if write.invoke_async(&mut storage).await? {
        client.accepted("storage", token);
    }
    Ok(hold.until(release(&client, &mut locks)).await?)
}

/// Takes the lock, and returns its token.
pub(super) async fn acquire(
    client: &Client,
    link: &mut impl ConnectionLike,
    counter: &str,
) -> RedisResult<Option<i64>> {
    let mut acquire = redis::cmd("EVAL");
    acquire.arg(ACQUIRE).arg(2).arg("lock").arg(counter);
    acquire.arg(client.name()).arg(client.lease().as_millis() as u64);
    acquire.query_async(link).await
}
