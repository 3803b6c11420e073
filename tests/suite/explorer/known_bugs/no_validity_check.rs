//! *No validity check.* A client has a lock on three servers when two of them grant it. The second
//! grant comes after the lease of the first has ended. The client counts its lease from the second
//! grant, and another client gets the lock as well.
//!
//! The description of Redlock has a step for this. Repair: the lease counts from before the first
//! request was sent. If getting a majority took longer than the lease, the client does not have the
//! lock.
//!
//! Bounds: 2 clients, 3 servers, 1 stall, 1 crash.

use std::time::Duration;

use expect_test::expect;
use harness::oracle::ExclusiveFact;
use harness::trace::Reached;
use harness::{Faults, Scenario};

use super::{LEASE, UNLOCK, check, finds, one_of_each, run, take};

/// The start of a lease that was requested at the first time and granted at the second; `None` if
/// it is over.
type Validity = fn(Duration, Duration) -> Option<Duration>;

fn scenario(validity: Validity) -> Scenario {
    Scenario::new("no validity check")
        .interchangeable()
        .servers(3)
        .faults(Faults::none().crashes(1).stalls(1))
        .must_reach(Reached { contention: true, overrun: true, crash: true, ..Reached::default() })
        .always(ExclusiveFact::of("section"))
        .actors(2, move |client| async move {
            let (mut links, token) =
                ([0, 1, 2].map(|server| client.connection_to(server)), client.env().unique());
            let (asked_at, mut granted) = (client.true_time(), 0);
            for link in &mut links {
                granted += usize::from(granted < 2 && take(link, &token).await?);
            }
            let since = validity(asked_at, client.true_time()).filter(|_| granted == 2);
            let release = async {
                for link in &mut links {
                    run::<()>(link, UNLOCK, &token).await?;
                }
                Ok(())
            };
            match since {
                Some(since) if client.true_time() - since >= LEASE => {
                    Err("it has won, and its lease is over")?
                }
                Some(since) => client.hold("section").since(since).until(release).await,
                None => release.await,
            }
        })
}

/// The repaired validity.
fn checked(asked_at: Duration, granted_at: Duration) -> Option<Duration> {
    (granted_at - asked_at < LEASE).then_some(asked_at)
}

#[test]
fn no_validity_check() {
    let from_the_reply: Validity = |_, granted_at| Some(granted_at);
    check(
        &scenario(from_the_reply),
        &scenario(checked),
        one_of_each(),
        &expect![[r#"
            exclusive-fact

            step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● ·  A to 1: SET lock A1 NX PX 10000 → OK
                              │ ·      now on 1: lock = "A1" (10000 ms left)
               2       +0 ms  ● ·  A to 2: SET lock A1 NX PX 10000 → OK
                              │ ·      now on 2: lock = "A1" (10000 ms left)
               3   +10001 ms  │ ·  10001 ms pass: every client is slow
               4   +10001 ms  │ ●  B to 1: SET lock B1 NX PX 10000 → OK
                              │ │      now on 1: lock = "B1" (10000 ms left)
               5   +10001 ms  │ ●  B to 2: SET lock B1 NX PX 10000 → OK
                              │ │      now on 2: lock = "B1" (10000 ms left)
                              │ ┃    ▸ B is inside. Its lease runs until +20001 ms.
               6   +10001 ms  ● ┃  A receives the reply
                              ┃ ┃    ▸ A is inside. Its lease runs until +20001 ms. Now A and B are inside.

            ✗ A and B hold the lock, each with a lease that still runs.
        "#]],
    );
}

/// Half a repair: the lease counts from the request, but the client does not check whether it is
/// over.
#[test]
fn lease_that_is_over() {
    let from_the_request: Validity = |asked_at, _| Some(asked_at);
    finds(
        &scenario(from_the_request),
        &expect![[r#"
            A failed: it has won, and its lease is over

            step        time  A  ● acts · not begun │ runs
               1       +0 ms  ●  A to 1: SET lock A1 NX PX 10000 → OK
                              │      now on 1: lock = "A1" (10000 ms left)
               2   +10000 ms  │  10000 ms pass: every client is slow
               3   +10000 ms  ●  A to 2: SET lock A1 NX PX 10000 → OK
                              │      now on 2: lock = "A1" (10000 ms left)
                              │    ▸ A failed: it has won, and its lease is over
        "#]],
    );
}
