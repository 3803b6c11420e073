//! A lock of one's own under test. Copy this file, and put your lock in the place of `MyLock`.
//!
//! The first release breaks the lock: the program prints the schedule that shows how. The second
//! one passes. A holder is alone, too, if nobody is slow: a renewal that stops early breaks that.

use std::time::Duration;

use harness::oracle::{ExclusiveBelief, ExclusiveFact, OwnerSafe, Recovers};
use harness::{Client, Faults, Record, Scenario, exhaustive, from_fn};
use redis::aio::ConnectionLike;
use redis::{RedisResult, Script};

/// Deletes the key, whoever holds the lock.
const DELETE: &str = "-- release\nreturn redis.call('DEL', KEYS[1])";
/// Deletes the key if the client still holds the lock.
const COMPARE_AND_DELETE: &str = "\
-- release
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0";

/// The lock. It is any code over redis-rs's async connections, and knows nothing of the test.
struct MyLock<C> {
    connection: C,
    token: String,
    lease: Duration,
    release: Script,
}

impl<C: ConnectionLike> MyLock<C> {
    async fn try_lock(&mut self) -> RedisResult<bool> {
        let mut set = redis::cmd("SET");
        set.arg("lock").arg(&self.token).arg("NX").arg("PX").arg(self.lease.as_millis() as u64);
        set.query_async(&mut self.connection).await
    }

    async fn unlock(&mut self) -> RedisResult<bool> {
        self.release.key("lock").arg(&self.token).invoke_async(&mut self.connection).await
    }
}

fn scenario(release: &'static str) -> Scenario {
    let open = move |client: &Client| MyLock {
        connection: client.connection(),
        token: client.name(),
        lease: client.lease(),
        release: Script::new(release),
    };
    // One client: it takes the lock once, and marks while it is inside.
    let act = move |client: Client| async move {
        let mut lock = open(&client);
        if lock.try_lock().await? {
            let record = Record::Value("lock".into(), client.name());
            client.hold("section").record(record).until(lock.unlock()).await?;
        }
        RedisResult::Ok(())
    };
    Scenario::new("my lock")
        .lease(Duration::from_secs(10))
        .script(&Script::new(release))
        .actors(3, from_fn(act))
        .interchangeable()
        // After the actors, a fresh client must get the lock.
        .probe(1, move |client| async move { Ok(open(&client).try_lock().await?) })
        .faults(Faults::none().stalls(1).crashes(1))
        .always(ExclusiveFact::of("section"))
        .always(OwnerSafe)
        .always(Recovers)
}

fn main() {
    println!("{}", exhaustive(&scenario(DELETE)).expect_err("the first release is wrong"));
    let passed = exhaustive(&scenario(COMPARE_AND_DELETE)).expect("the second release is right");
    println!("my lock, repaired: {passed}");
    let prompt = scenario(COMPARE_AND_DELETE).faults(Faults::none().crashes(1));
    let passed = exhaustive(&prompt.always(ExclusiveBelief::of("section", 1))).expect("nobody is slow");
    println!("my lock, if nobody is slow: {passed}");
}
