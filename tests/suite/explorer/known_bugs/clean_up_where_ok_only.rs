//! *Clean-up where OK only.* A client releases a lock on three servers only where the acquire
//! succeeded. On one server the acquire ran and its reply was lost. The retry was refused because
//! of the client's own key, so the lock stays there for its whole lease.
//!
//! The description of Redlock says to release on every server. Repair: the client does that.
//!
//! Bounds: 2 clients, 3 servers, 1 lost message.

use expect_test::expect;
use harness::oracle::ExclusiveFact;
use harness::trace::Reached;
use harness::{Faults, Scenario};

use super::{UNLOCK, check, one_of_each, run, send, take};

/// The servers on which a lock is released.
#[derive(Clone, Copy, PartialEq)]
enum Where {
    Granted,
    Everywhere,
}

fn scenario(clean_up: Where) -> Scenario {
    Scenario::new("clean-up where ok only")
        .interchangeable()
        .servers(3)
        .faults(Faults::none().lost(1))
        .must_reach(Reached { contention: true, lost: true, ..Reached::default() })
        .always(ExclusiveFact::of("section"))
        .actors(2, move |client| async move {
            let (since, token) = (client.true_time(), client.env().unique());
            let mut servers = [0, 1, 2].map(|server| (client.connection_to(server), false));
            for (link, granted) in &mut servers {
                *granted = take(link, &token).await?;
            }
            let won = servers.iter().filter(|(_, granted)| *granted).count() >= 2;
            let release = async {
                for (link, granted) in &mut servers {
                    if *granted || clean_up == Where::Everywhere {
                        run::<()>(link, UNLOCK, &token).await?;
                    }
                }
                redis::RedisResult::Ok(())
            };
            if won {
                client.hold("section").since(since).until(release).await?;
            } else {
                release.await?;
            }
            for (link, granted) in &mut servers {
                let holder: Option<String> =
                    if *granted { None } else { send(link, &["GET", "lock"]).await? };
                if holder == Some(token.clone()) {
                    return Err("it has given the lock back, and still has it".into());
                }
            }
            Ok(())
        })
}

#[test]
fn clean_up_where_ok_only() {
    check(
        &scenario(Where::Granted),
        &scenario(Where::Everywhere),
        one_of_each(),
        &expect![[r#"
            A failed: it has given the lock back, and still has it

            step        time  A  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ●  A to 1: SET lock A1 NX PX 10000 → OK
                              │      now on 1: lock = "A1" (10000 ms left)
               2       +0 ms  ●  A to 2: SET lock A1 NX PX 10000 → OK
                              │      now on 2: lock = "A1" (10000 ms left)
               3       +0 ms  ●  A to 3: SET lock A1 NX PX 10000 → OK
                              │      now on 3: lock = "A1" (10000 ms left)
                              │    ▸ The reply is lost, and the request is sent again.
               4       +0 ms  ●  A to 3: SET lock A1 NX PX 10000 → (nil)
                              ┃    ▸ A is inside. Its lease runs until +10000 ms.
               5       +0 ms  ●  A to 1: script unlock lock A1 → 1
                              │      now on 1: lock is gone
                              │    ▸ A begins its release, and no longer counts as a holder.
               6       +0 ms  ●  A to 2: script unlock lock A1 → 1
                              │      now on 2: lock is gone
               7       +0 ms  ●  A to 3: GET lock → "A1"
                              │    ▸ A failed: it has given the lock back, and still has it
        "#]],
    );
}
