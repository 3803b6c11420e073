//! *Reaper.* A reaper removes the locks of jobs that nobody runs. It compares the names of locks
//! with those of the running jobs, but the lock of a running job has a longer name. So the reaper
//! removes locks that are in use (zoolutions/sidekiq-unique-jobs#580).
//!
//! The remedy of the report compares the right names, in commands of their own: a worker may come
//! in between. Repair: one script compares and removes.

use harness::oracle::{ExclusiveFact, OwnerSafe};
use harness::{Client, Record, Scenario, exhaustive, from_fn};
use redis::{AsyncCommands as _, RedisResult, Script};

use super::{finds, passes};

const JOB: &str = "mailer";
const LOCK: &str = "mailer:RUN";

const TAKE: &str = "--lock
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
redis.call('SADD', KEYS[2], KEYS[1])
return 1";

const RELEASE: &str = "--unlock
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SREM', KEYS[2], KEYS[1])
return redis.call('DEL', KEYS[1])";

const REAP: &str = "--reap
for _, lock in ipairs(redis.call('SMEMBERS', KEYS[2])) do
  local is_running = false
  for _, job in ipairs(redis.call('HVALS', KEYS[3])) do
    if job .. ':RUN' == lock then is_running = true end
  end
  if not is_running then
    redis.call('DEL', KEYS[1])
    redis.call('SREM', KEYS[2], lock)
  end
end
return 0";

#[derive(Clone, Copy)]
enum Code {
    Reported,
    ComparesRightNames,
    Repaired,
}

async fn work(client: Client) -> RedisResult<()> {
    let (mut link, token) = (client.connection(), client.name());
    let (take, release) = (Script::new(TAKE), Script::new(RELEASE));
    () = link.hset("workers", &token, JOB).await?;
    let since = client.now();
    let mut take = take.key(&[LOCK, "locks"]);
    if take.arg(&token).arg(client.lease().as_millis() as u64).invoke_async(&mut link).await? {
        let hold = client.hold("job").since(since).record(Record::Value(LOCK.into(), token.clone()));
        let mut release = release.key(&[LOCK, "locks"]);
        hold.until(release.arg(&token).invoke_async::<()>(&mut link)).await?;
    }
    link.hdel("workers", &token).await
}

async fn reap(client: Client, code: Code) -> RedisResult<()> {
    let mut link = client.connection();
    if let Code::Repaired = code {
        return Script::new(REAP).key(&[LOCK, "locks", "workers"]).invoke_async(&mut link).await;
    }
    for lock in link.smembers::<_, Vec<String>>("locks").await? {
        let running: Vec<String> = link.hvals("workers").await?;
        let job = match code {
            Code::Reported => &lock,
            _ => lock.trim_end_matches(":RUN"),
        };
        if !running.iter().any(|running| running == job) {
            () = link.del(&lock).await?;
            () = link.srem("locks", &lock).await?;
        }
    }
    Ok(())
}

fn workers(count: usize, code: Code) -> Scenario {
    Scenario::new("reaper")
        .script(&Script::new(TAKE))
        .script(&Script::new(RELEASE))
        .script(&Script::new(REAP))
        .actors(count, from_fn(work))
        .actors(1, from_fn(move |client| reap(client, code)))
        .interchangeable()
        .always(OwnerSafe)
        .always(ExclusiveFact::of("job"))
}

#[test]
fn a_reaper_removes_a_lock_in_use() {
    finds(&workers(1, Code::Reported), "owner-safe", 5, "the grant of A");
    finds(&workers(2, Code::Reported), "owner-safe", 5, "the grant of A");
}

#[test]
fn a_worker_comes_between_the_commands_of_the_reaper() {
    finds(&workers(2, Code::ComparesRightNames), "owner-safe", 9, "the grant of B");
}

#[test]
fn a_script_reaps() {
    passes(exhaustive(&workers(2, Code::Repaired)));
}
