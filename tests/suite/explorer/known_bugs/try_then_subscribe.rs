//! *Try, then subscribe.* If a client finds the lock taken, it subscribes to releases and sleeps
//! until a message comes. A release between the try and the subscription notifies nobody. The
//! client sleeps for a whole lease although the lock is free.
//!
//! Repair, as in Redisson: after subscribing, a client tries again before it sleeps.
//!
//! Bounds: 3 clients.

use expect_test::expect;
use harness::oracle::{ExclusiveFact, NoLostWakeUp};
use harness::trace::Reached;
use harness::{Faults, Scenario};
use locks::Subscribe as _;

use super::{LEASE, UNLOCK_AND_TELL, check, run, take};

/// The next act of a client that has subscribed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Sleep,
    TryAgain,
}

fn scenario(then: Then) -> Scenario {
    Scenario::new("try, then subscribe")
        .interchangeable()
        .must_reach(Reached { contention: true, ..Reached::default() })
        .always(NoLostWakeUp::of("section", LEASE))
        .always(ExclusiveFact::of("section"))
        .actors(3, move |client| async move {
            let (mut link, token) = (client.connection(), client.env().unique());
            if !take(&mut link, &token).await? {
                let mut releases = link.subscribe("released").await?;
                let mut is_ours = then == Then::TryAgain && take(&mut link, &token).await?;
                while !is_ours {
                    _ = tokio::time::timeout(LEASE, releases.message()).await;
                    is_ours = take(&mut link, &token).await?;
                }
            }
            client.hold("section").until(run::<()>(&mut link, UNLOCK_AND_TELL, &token)).await?;
            Ok(())
        })
}

#[test]
fn try_then_subscribe() {
    check(
        &scenario(Then::Sleep),
        // If the reply to the second try is late, the client sleeps on an old reply, as in
        // Redisson.
        &scenario(Then::TryAgain).prompt_replies(),
        Faults::none().crashes(1).stalls(1),
        &expect![[r#"
            no-lost-wake-up

            step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● ·  A: SET lock A1 NX PX 10000 → OK
                              │ ·      now lock = "A1" (10000 ms left)
                              ┃ ·    ▸ A is inside. Its lease runs until +10000 ms.
               2       +0 ms  ┃ ●  B: SET lock B1 NX PX 10000 → (nil)
               3       +0 ms  ● │  A: script unlock lock A1 → 1
                              │ │      now lock is gone
                              │ │    ▸ A begins its release, and no longer counts as a holder.
               4       +0 ms  │ ●  B: SUBSCRIBE released → ["subscribe", "released", 1]
               5   +10000 ms  │ │  10000 ms pass: every client waits

            ✗ no client has been inside for 10000 ms, although clients wait.
        "#]],
    );
}
