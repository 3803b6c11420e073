//! *Orphans.* Jobs of dead consumers go back to the queue. A consumer is dead if it was last seen
//! more than a lease ago. But the query compares the length of the lease with times, so nobody is
//! ever dead (apalis-dev/apalis#467).
//!
//! Another query takes all consumers for dead that were seen before now. A job then goes to a
//! second consumer while the first one still works on it (apalis-dev/apalis#507).
//!
//! Repair: the query compares the times with the instant a lease ago.

use harness::oracle::ExclusiveFact;
use harness::{Client, Faults, Scenario, exhaustive, from_fn};
use redis::{AsyncCommands as _, RedisResult, Script};

use super::{LEASE, finds, passes};

const FETCH: &str = "--fetch
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
local job = redis.call('RPOP', KEYS[1])
if job then redis.call('SADD', KEYS[3], job) end
return job";

const ORPHANS: &str = "--orphans
for _, consumer in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], 0, ARGV[1])) do
  local inflight = 'jobs:inflight:' .. consumer
  for _, job in ipairs(redis.call('SMEMBERS', inflight)) do
    redis.call('SREM', inflight, job)
    redis.call('LPUSH', KEYS[1], job)
  end
  redis.call('ZREM', KEYS[2], consumer)
end
return 0";

const ACK: &str = "--ack
if redis.call('SREM', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('SADD', KEYS[2], ARGV[1])";

/// Who is dead.
#[derive(Clone, Copy)]
enum Dead {
    Nobody,
    Everybody,
    UnseenForALease,
}

async fn consume(client: Client, dead: Dead) -> RedisResult<()> {
    let (mut link, me, now_ms) = (client.connection(), client.name(), client.env().now_ms());
    let lease_ms = client.lease().as_millis() as i64;
    let seen_before = match dead {
        Dead::Nobody => lease_ms,
        Dead::Everybody => now_ms,
        Dead::UnseenForALease => now_ms - lease_ms - 1,
    };
    let (orphans, fetch, ack) = (Script::new(ORPHANS), Script::new(FETCH), Script::new(ACK));
    () = orphans.key(&["jobs", "consumers"]).arg(seen_before).invoke_async(&mut link).await?;
    let (since, inflight) = (client.now(), format!("jobs:inflight:{me}"));
    let mut fetch = fetch.key(&["jobs", "consumers", &inflight]);
    fetch.arg(&me).arg(client.env().now_ms());
    if let Some(job) = fetch.invoke_async::<Option<String>>(&mut link).await? {
        let mut ack = ack.key(&[&inflight, "jobs:done"]);
        ack.arg(job);
        client.hold("job").since(since).until(ack.invoke_async::<()>(&mut link)).await?;
    }
    Ok(())
}

fn consumers(dead: Dead, faults: Faults) -> Scenario {
    Scenario::new("orphans")
        .lease(LEASE)
        .faults(faults)
        .script(&Script::new(FETCH))
        .script(&Script::new(ORPHANS))
        .script(&Script::new(ACK))
        .before(|client| async move { Ok(client.connection().lpush("jobs", "mail").await?) })
        .actors(2, from_fn(move |client| consume(client, dead)))
        .or_fewer()
        .always(ExclusiveFact::of("job"))
        .finally("the job is done, at the latest by a fresh consumer", move |client, _| async move {
            consume(client.clone(), dead).await?;
            let is_done: bool = client.connection().sismember("jobs:done", "mail").await?;
            if is_done { Ok(()) } else { Err("nobody does the job".into()) }
        })
}

#[test]
fn nobody_is_dead() {
    let crash = Faults::none().crashes(1);
    let property = "the job is done, at the latest by a fresh consumer";
    finds(&consumers(Dead::Nobody, crash), property, 2, "nobody does the job");
}

#[test]
fn everybody_is_dead() {
    finds(&consumers(Dead::Everybody, Faults::none()), "exclusive-fact", 4, "A and B hold «job»");
}

#[test]
fn who_is_unseen_for_a_lease_is_dead() {
    for faults in [Faults::none().crashes(1), Faults::none().stalls(1)] {
        passes(exhaustive(&consumers(Dead::UnseenForALease, faults)));
    }
}
