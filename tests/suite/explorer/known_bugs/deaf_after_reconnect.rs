//! *Deaf after a reconnect.* If a client finds the lock taken, it subscribes to releases, and
//! subscribes again when that connection breaks. A message that was under way at that moment is
//! lost. The client sleeps for a whole lease although the lock is free.
//!
//! Repair: after every subscription, also after a reconnect, the client tries again before it
//! sleeps.
//!
//! Bounds: 3 clients, 1 connection that breaks.

use expect_test::expect;
use harness::client::GatedConnection;
use harness::oracle::{ExclusiveFact, NoLostWakeUp};
use harness::trace::Reached;
use harness::{Faults, Scenario};
use locks::{Subscribe as _, Subscription};
use redis::{FromRedisValue, RedisResult};

use super::lost_reply_on_acquire::TAKE_OR_HAVE;
use super::{LEASE, UNLOCK_AND_TELL, check, run};

/// The next act of a client that has subscribed again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Sleep,
    TryAgain,
}

/// Runs a script, and runs it once more if the connection breaks.
async fn insist<T: FromRedisValue>(link: &mut GatedConnection, script: &str, token: &str) -> RedisResult<T> {
    match run(link, script, token).await {
        Err(error) if error.is_io_error() => run(link, script, token).await,
        answer => answer,
    }
}

async fn listen(link: &GatedConnection) -> RedisResult<Subscription> {
    match link.subscribe("released").await {
        Err(error) if error.is_io_error() => link.subscribe("released").await,
        subscription => subscription,
    }
}

fn scenario(then: Then) -> Scenario {
    Scenario::new("deaf after a reconnect")
        .interchangeable()
        .faults(Faults::none().drops(1))
        .must_reach(Reached { contention: true, lost: true, ..Reached::default() })
        .always(NoLostWakeUp::of("section", LEASE))
        .always(ExclusiveFact::of("section"))
        // If the reply to a refused attempt is late, the repaired client waits in vain, too: it
        // waits for a message that was published before. That is another bug.
        .prompt_replies()
        .actors(3, move |client| async move {
            let (mut link, token) = (client.connection(), client.env().unique());
            let mut releases = listen(&link).await?;
            while !insist::<bool>(&mut link, TAKE_OR_HAVE, &token).await? {
                while let Ok(Err(_)) = tokio::time::timeout(LEASE, releases.message()).await {
                    releases = listen(&link).await?;
                    if then == Then::TryAgain {
                        break;
                    }
                }
            }
            client.hold("section").until(insist::<()>(&mut link, UNLOCK_AND_TELL, &token)).await?;
            Ok(())
        })
}

#[test]
fn deaf_after_reconnect() {
    check(
        &scenario(Then::Sleep),
        &scenario(Then::TryAgain),
        Faults::none().drops(1).crashes(1).stalls(1),
        &expect![[r#"
            no-lost-wake-up

            step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● ·  A: SUBSCRIBE released → ["subscribe", "released", 1]
               2       +0 ms  ● ·  A: script obtain lock A1 → 1
                              │ ·      now lock = "A1" (10000 ms left)
                              ┃ ·    ▸ A is inside. Its lease runs until +10000 ms.
               3       +0 ms  ┃ ●  B: SUBSCRIBE released → ["subscribe", "released", 1]
               4       +0 ms  ┃ ●  B: script obtain lock B1 → 0
               5       +0 ms  ● │  A: script unlock lock A1 → 1
                              │ │      now lock is gone
                              │ │    ▸ A begins its release, and no longer counts as a holder.
               6       +0 ms  │ ●  B: released: "lock" never arrives: the connection has broken
               7       +0 ms  │ ●  B: SUBSCRIBE released → ["subscribe", "released", 1]
               8   +10000 ms  │ │  10000 ms pass: every client waits

            ✗ no client has been inside for 10000 ms, although clients wait.
        "#]],
    );
}
