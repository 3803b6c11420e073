//! *Stalled job.* A queue gives a job to another worker if the lock of the job has ended. The slow
//! worker then ends the job as if it still were its own: the job is completed twice, and the lock
//! of the other worker is gone (OptimalBits/bull#308 and #1416).
//!
//! Repair: a script completes the job only if the worker still has its lock.

use harness::client::GatedConnection;
use harness::oracle::OwnerSafe;
use harness::{Client, Faults, Record, Scenario, exhaustive, from_fn};
use redis::{AsyncCommands as _, Commands as _, RedisResult, Script, pipe};

use super::{Code, LEASE, finds, passes};

const LOCK: &str = "{q}:1:lock";

const TAKE: &str = "--take
local job = redis.call('RPOPLPUSH', KEYS[1], KEYS[2])
if job then redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2]) end
return job";

/// Moves a job without a lock back to those that wait.
const STALLED: &str = "--stalled
for _, job in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  if redis.call('EXISTS', KEYS[3]) == 0 then
    redis.call('LREM', KEYS[1], 1, job)
    redis.call('LPUSH', KEYS[2], job)
  end
end
return 0";

const COMPLETE: &str = "--complete
if redis.call('GET', KEYS[2]) ~= ARGV[2] then return 0 end
redis.call('DEL', KEYS[2])
redis.call('LREM', KEYS[1], 0, ARGV[1])
redis.call('RPUSH', KEYS[3], ARGV[1])
return 1";

async fn complete(link: &mut GatedConnection, job: &str, token: &str, code: Code) -> RedisResult<()> {
    match code {
        Code::Reported => {
            let mut complete = pipe();
            complete.atomic().del(LOCK).lrem("{q}:active", 0, job).rpush("{q}:completed", job);
            complete.query_async(link).await
        }
        Code::Repaired => {
            let complete = Script::new(COMPLETE);
            let mut complete = complete.key(&["{q}:active", LOCK, "{q}:completed"]);
            complete.arg(job).arg(token).invoke_async(link).await
        }
    }
}

async fn work(client: Client, code: Code) -> RedisResult<()> {
    let (mut link, token) = (client.connection(), client.name());
    let stalled = Script::new(STALLED);
    () = stalled.key(&["{q}:active", "{q}:wait", LOCK]).invoke_async(&mut link).await?;
    let since = client.now();
    let take = Script::new(TAKE);
    let mut take = take.key(&["{q}:wait", "{q}:active", LOCK]);
    take.arg(&token).arg(client.lease().as_millis() as u64);
    if let Some(job) = take.invoke_async::<Option<String>>(&mut link).await? {
        let hold = client.hold("job").since(since).record(Record::Value(LOCK.into(), token.clone()));
        hold.until(complete(&mut link, &job, &token, code)).await?;
    }
    Ok(())
}

fn queue(workers: usize, code: Code) -> Scenario {
    Scenario::new("stalled jobs")
        .lease(LEASE)
        .faults(Faults::none().stalls(1))
        .script(&Script::new(TAKE))
        .script(&Script::new(STALLED))
        .script(&Script::new(COMPLETE))
        .before(|client| async move { Ok(client.connection().lpush("{q}:wait", "1").await?) })
        .actors(workers, from_fn(move |client| work(client, code)))
        .interchangeable()
}

fn completed_once(queue: Scenario) -> Scenario {
    queue.invariant("a job is completed once", |data| match data.llen("{q}:completed")? {
        0 | 1 => Ok(()),
        times => Err(format!("the job is completed {times} times").into()),
    })
}

#[test]
fn a_slow_worker_completes_a_job_of_another() {
    let queue = queue(2, Code::Reported);
    finds(&queue.clone().always(OwnerSafe), "owner-safe", 6, "the grant of B");
    finds(&completed_once(queue), "a job is completed once", 7, "the job is completed 2 times");
}

#[test]
fn who_has_the_lock_completes_the_job() {
    passes(exhaustive(&completed_once(queue(2, Code::Repaired).always(OwnerSafe))));
    passes(exhaustive(&completed_once(queue(3, Code::Repaired).always(OwnerSafe))));
}
