//! *Popped and lost.* A worker pops a job by `BLPOP`, and notes in a second command that it has it.
//! If it dies in between, nobody knows of the job any more (laravel/framework#22939).
//!
//! Repair: the worker blocks for a notification, and a script pops and notes the job in one step.

use harness::client::GatedConnection;
use harness::trace::Reached;
use harness::{Client, Faults, Scenario, exhaustive, from_fn};
use redis::{AsyncCommands as _, RedisResult, Script};

use super::{Code, LEASE, finds, passes};

/// Puts jobs back whose workers had them for too long.
const MIGRATE: &str = "--migrate
local jobs = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1])
for _, job in ipairs(jobs) do
  redis.call('ZREM', KEYS[1], job)
  redis.call('RPUSH', KEYS[2], job)
  redis.call('RPUSH', KEYS[3], 1)
end
return #jobs";

const POP: &str = "--pop
local job = redis.call('LPOP', KEYS[1])
if job then redis.call('ZADD', KEYS[2], ARGV[1], job) end
return job";

async fn pop(link: &mut GatedConnection, until: i64, code: Code) -> RedisResult<Option<String>> {
    match code {
        Code::Reported => {
            let popped: Option<(String, String)> = link.blpop("queue", 1.0).await?;
            if let Some((_, job)) = &popped {
                () = link.zadd("reserved", job, until).await?;
            }
            Ok(popped.map(|(_, job)| job))
        }
        Code::Repaired => {
            let _notified: Option<(String, String)> = link.blpop("queue:notify", 1.0).await?;
            Script::new(POP).key("queue").key("reserved").arg(until).invoke_async(link).await
        }
    }
}

async fn work(client: Client, code: Code) -> RedisResult<()> {
    let (mut link, now) = (client.connection(), client.env().now_ms());
    let migrate = Script::new(MIGRATE);
    let mut migrate = migrate.key(&["reserved", "queue", "queue:notify"]);
    () = migrate.arg(now).invoke_async(&mut link).await?;
    if let Some(job) = pop(&mut link, now + LEASE.as_millis() as i64, code).await? {
        () = link.sadd("sent", &job).await?;
        () = link.zrem("reserved", &job).await?;
    }
    Ok(())
}

fn queue(workers: usize, code: Code) -> Scenario {
    Scenario::new("reserved jobs")
        .lease(LEASE)
        .faults(Faults::none().crashes(1))
        .must_reach(Reached { crash: true, ..Reached::default() })
        .script(&Script::new(MIGRATE))
        .script(&Script::new(POP))
        .before(|client| async move {
            let mut link = client.connection();
            () = link.rpush("queue", "mail").await?;
            Ok(link.rpush("queue:notify", 1).await?)
        })
        .actors(workers, from_fn(move |client| work(client, code)))
        .interchangeable()
        .or_fewer()
        .finally("the mail is sent, at the latest by a fresh worker", move |client, _| async move {
            work(client.clone(), code).await?;
            let is_sent: bool = client.connection().sismember("sent", "mail").await?;
            if is_sent { Ok(()) } else { Err("nobody sends the mail".into()) }
        })
}

#[test]
fn a_popped_job_is_lost_with_its_worker() {
    for workers in [1, 2] {
        let property = "the mail is sent, at the latest by a fresh worker";
        finds(&queue(workers, Code::Reported), property, 2, "nobody sends the mail");
    }
}

#[test]
fn a_reserved_job_comes_back() {
    passes(exhaustive(&queue(1, Code::Repaired)));
    passes(exhaustive(&queue(2, Code::Repaired)));
}
