//! *Release overtakes acquire.* A client requests a lock on three servers at once, and has it as
//! soon as two of them grant it. Its release uses other connections and reaches the third server
//! before the acquire does. The acquire then sets a key there that nobody removes.
//!
//! Repair: a release waits until every acquire request is answered.
//!
//! Bounds: 2 clients, 3 servers.

use expect_test::expect;
use harness::Scenario;
use harness::oracle::{ExclusiveFact, NoLeak};
use harness::trace::Reached;
use tokio::sync::mpsc;

use super::{UNLOCK, check, one_of_each, run, take};

const SERVERS: usize = 3;
const MAJORITY: usize = 2;

/// The answers that a release waits for.
#[derive(Clone, Copy, PartialEq)]
enum After {
    Majority,
    AllAnswers,
}

fn scenario(after: After) -> Scenario {
    Scenario::new("release overtakes acquire")
        .interchangeable()
        .servers(SERVERS)
        .must_reach(Reached { contention: true, ..Reached::default() })
        .always(NoLeak)
        .always(ExclusiveFact::of("section"))
        .actors(2, move |client| async move {
            let (since, token) = (client.true_time(), client.env().unique());
            let (answer, mut answers) = mpsc::unbounded_channel();
            for server in 0..SERVERS {
                let (mut link, token, answer) = (client.connection_to(server), token.clone(), answer.clone());
                tokio::spawn(async move { answer.send(take(&mut link, &token).await.unwrap_or(false)) });
            }
            drop(answer);
            let mut granted = 0;
            while granted < MAJORITY
                && let Some(yes) = answers.recv().await
            {
                granted += usize::from(yes);
            }
            let release = async {
                while after == After::AllAnswers && answers.recv().await.is_some() {}
                for server in 0..SERVERS {
                    run::<()>(&mut client.connection_to(server), UNLOCK, &token).await?;
                }
                Ok(())
            };
            if granted == MAJORITY {
                return client.hold("section").since(since).until(release).await;
            }
            release.await
        })
        .or_fewer()
        .probe(1, |client| async move {
            let mut free = true;
            for server in 0..SERVERS {
                free &= take(&mut client.connection_to(server), "probe").await?;
            }
            Ok(free)
        })
}

#[test]
fn release_overtakes_acquire() {
    check(
        &scenario(After::Majority),
        &scenario(After::AllAnswers),
        one_of_each(),
        &expect![[r#"
            no-leak

            step        time  A  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ●  A starts, and sends nothing yet
               2       +0 ms  ●  A.3 to 2: SET lock A1 NX PX 10000 → OK
                              │      now on 2: lock = "A1" (10000 ms left)
               3       +0 ms  ●  A.4 to 3: SET lock A1 NX PX 10000 → OK
                              │      now on 3: lock = "A1" (10000 ms left)
                              ┃    ▸ A is inside. Its lease runs until +10000 ms.
               4       +0 ms  ●  A.1 to 1: script unlock lock A1 → 0
                              │    ▸ A begins its release, and no longer counts as a holder.
               5       +0 ms  ●  A.2 to 1: SET lock A1 NX PX 10000 → OK
                              │      now on 1: lock = "A1" (10000 ms left)
               6       +0 ms  ●  A.1 to 2: script unlock lock A1 → 1
                              │      now on 2: lock is gone
               7       +0 ms  ●  A.1 to 3: script unlock lock A1 → 1
                              │      now on 3: lock is gone
                              │      probe1 to 1: SET lock probe NX PX 10000 → (nil)
                              │      probe1 to 2: SET lock probe NX PX 10000 → OK
                              │      now on 2: lock = "probe" (10000 ms left)
                              │      probe1 to 3: SET lock probe NX PX 10000 → OK
                              │      now on 3: lock = "probe" (10000 ms left)
                              │    ▸ All clients have ended, none crashed, and no message was lost. Fresh clients try: 0 of 1 succeed.

            ✗ no client crashed and no message was lost, but only 0 of 1 fresh clients got a grant.
        "#]],
    );
}
