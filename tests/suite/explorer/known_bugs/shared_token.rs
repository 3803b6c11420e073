//! *Shared token.* The tasks of a process share one lock object, which keeps the token of the last
//! acquire. One task overruns its lease, and another task acquires. When the first task releases,
//! it uses the other task's token, because the object holds that one.
//!
//! For this reason, redis-py by default keeps the token of its `Lock` in thread-local storage.
//! Repair: the acquire returns the token to its caller.
//!
//! The first task has a section of its own. The oracle judges whether the second task is alone.
//!
//! Bounds: 1 process with 2 tasks, 2 other clients, 1 stall.

use std::sync::Mutex;
use std::time::Duration;

use expect_test::expect;
use harness::oracle::ExclusiveFact;
use harness::trace::Reached;
use harness::{Client, Faults, Scenario};
use redis::RedisResult;

use super::{UNLOCK, check, one_of_each, run, send, take};

/// The token with which a task releases its lock.
#[derive(Clone, Copy)]
enum By {
    TokenOfTheObject,
    OwnToken,
}

async fn task(client: &Client, object: &Mutex<String>, by: By, section: &'static str) -> RedisResult<()> {
    let (mut link, token) = (client.connection(), client.env().unique());
    if !take(&mut link, &token).await? {
        return Ok(());
    }
    object.lock().expect("nobody panics").clone_from(&token);
    let hold = client.hold(section).enter();
    send::<()>(&mut link, &["SET", "data", &token]).await?;
    let token = match by {
        By::TokenOfTheObject => object.lock().expect("nobody panics").clone(),
        By::OwnToken => token,
    };
    hold.until(run(&mut link, UNLOCK, &token)).await
}

fn scenario(by: By) -> Scenario {
    Scenario::new("shared token")
        .interchangeable()
        .faults(Faults::none().stalls(1))
        .must_reach(Reached { contention: true, overrun: true, ..Reached::default() })
        .always(ExclusiveFact::of("section"))
        .actors(1, move |client| async move {
            let object = Mutex::new(String::new());
            let second = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                task(&client, &object, by, "section").await
            };
            tokio::try_join!(biased; task(&client, &object, by, "first"), second)?;
            Ok(())
        })
        .actors(
            2,
            |client| async move { Ok(task(&client, &Mutex::default(), By::OwnToken, "section").await?) },
        )
}

#[test]
fn shared_token() {
    check(
        &scenario(By::TokenOfTheObject),
        &scenario(By::OwnToken),
        one_of_each(),
        &expect![[r#"
            exclusive-fact

            step        time  A B C  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● · ·  A: SET lock A1 NX PX 10000 → OK
                              │ · ·      now lock = "A1" (10000 ms left)
                              ┃ · ·    ▸ A is inside (first). Its lease runs until +10000 ms.
               2   +10001 ms  ┃ · ·  10001 ms pass: every client is slow
                              ╏ · ·    ▸ The lease of A is over, and A is still inside.
               3   +10001 ms  ● · ·  A: SET lock A2 NX PX 10000 → OK
                              ╏ · ·      now lock = "A2" (10000 ms left)
                              ┃ · ·    ▸ A is inside (section). Its lease runs until +11000 ms.
               4   +10001 ms  ● · ·  A: SET data A1 → OK
                              ┃ · ·      now data = "A1"
               5   +10001 ms  ● · ·  A: script unlock lock A2 → 1
                              │ · ·      now lock is gone
                              │ · ·    ▸ A begins its release, and no longer counts as a holder.
               6   +10001 ms  │ ● ·  B: SET lock B1 NX PX 10000 → OK
                              │ │ ·      now lock = "B1" (10000 ms left)
                              │ ┃ ·    ▸ B is inside (section). Its lease runs until +20001 ms.

            ✗ A and B hold the lock, each with a lease that still runs.
        "#]],
    );
}
