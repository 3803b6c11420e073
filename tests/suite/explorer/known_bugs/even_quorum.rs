//! *Even quorum.* A lock is granted when both of two servers grant it. A client that gets only one
//! of them gives it back, pauses, and tries again. If each of two clients gets one server in every
//! round, both try for ever: a livelock.
//!
//! Repair: an odd number of servers, so that one of two clients always gets most of them. Three
//! clients on three servers can still split the votes. The description of Redlock therefore wants
//! pauses of random length.
//!
//! Bounds: 2 clients. After a crash, a client would try 200 times, which is much to explore.

use std::time::Duration;

use expect_test::expect;
use harness::client::GatedConnection;
use harness::explore::Problem;
use harness::oracle::{ExclusiveFact, NoLeak};
use harness::trace::Reached;
use harness::{Faults, Scenario, exhaustive};
use redis::RedisResult;

use super::{UNLOCK, check, run, take};

async fn give_back(links: &mut [GatedConnection], token: &str) -> RedisResult<()> {
    for link in links {
        run::<()>(link, UNLOCK, token).await?;
    }
    Ok(())
}

/// Clients that need more than half of the servers, and try so often.
fn scenario(servers: usize, pause: Duration, tries: usize) -> Scenario {
    Scenario::new("even quorum")
        .interchangeable()
        .servers(servers)
        .must_reach(Reached { contention: true, ..Reached::default() })
        .always(ExclusiveFact::of("section"))
        .always(NoLeak)
        .actors(2, move |client| async move {
            let mut links: Vec<_> = (0..servers).map(|server| client.connection_to(server)).collect();
            for _try in 0..tries {
                let (since, token) = (client.true_time(), client.env().unique());
                let mut granted = 0;
                for link in &mut links {
                    granted += usize::from(take(link, &token).await?);
                }
                if granted > servers / 2 {
                    return Ok(client
                        .hold("section")
                        .since(since)
                        .until(give_back(&mut links, &token))
                        .await?);
                }
                give_back(&mut links, &token).await?;
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
            }
            Ok(())
        })
        .probe(1, move |client| async move {
            let mut granted = 0;
            for server in 0..servers {
                granted += usize::from(take(&mut client.connection_to(server), "probe").await?);
            }
            Ok(granted > servers / 2)
        })
}

#[test]
fn even_quorum() {
    let pause = Duration::from_millis(50);
    check(
        &scenario(2, pause, usize::MAX),
        &scenario(3, pause, usize::MAX),
        Faults::none(),
        &expect![[r#"
            a livelock of 9 steps

            step        time  A B  ● acts · not begun │ runs
               1       +0 ms  ● ·  A to 1: SET lock A1 NX PX 10000 → OK
                              │ ·      now on 1: lock = "A1" (10000 ms left)
               2       +0 ms  │ ●  B to 1: SET lock B1 NX PX 10000 → (nil)
               3       +0 ms  │ ●  B to 2: SET lock B1 NX PX 10000 → OK
                              │ │      now on 2: lock = "B1" (10000 ms left)
               4       +0 ms  │ ●  B to 1: script unlock lock B1 → 0
               5       +0 ms  ● │  A to 2: SET lock A1 NX PX 10000 → (nil)
               6       +0 ms  ● │  A to 1: script unlock lock A1 → 1
                              │ │      now on 1: lock is gone
               7       +0 ms  ● │  A to 2: script unlock lock A1 → 0
               8       +0 ms  │ ●  B to 2: script unlock lock B1 → 1
                              │ │      now on 2: lock is gone
               9      +50 ms  │ │  50 ms pass: every client waits
              10      +50 ms  ● │  A to 1: SET lock A2 NX PX 10000 → OK
                              │ │      now on 1: lock = "A2" (10000 ms left)
              11      +50 ms  │ ●  B to 1: SET lock B2 NX PX 10000 → (nil)
              12      +50 ms  │ ●  B to 2: SET lock B2 NX PX 10000 → OK
                              │ │      now on 2: lock = "B2" (10000 ms left)
              13      +50 ms  │ ●  B to 1: script unlock lock B2 → 0
              14      +50 ms  ● │  A to 2: SET lock A2 NX PX 10000 → (nil)
              15      +50 ms  ● │  A to 1: script unlock lock A2 → 1
                              │ │      now on 1: lock is gone
              16      +50 ms  ● │  A to 2: script unlock lock A2 → 0
              17      +50 ms  │ ●  B to 2: script unlock lock B2 → 1
                              │ │      now on 2: lock is gone
              18     +100 ms  │ │  50 ms pass: every client waits
              19     +100 ms  ● │  A to 1: SET lock A3 NX PX 10000 → OK
                              │ │      now on 1: lock = "A3" (10000 ms left)
              20     +100 ms  │ ●  B to 1: SET lock B3 NX PX 10000 → (nil)
              21     +100 ms  │ ●  B to 2: SET lock B3 NX PX 10000 → OK
                              │ │      now on 2: lock = "B3" (10000 ms left)
              22     +100 ms  │ ●  B to 1: script unlock lock B3 → 0
              23     +100 ms  ● │  A to 2: SET lock A3 NX PX 10000 → (nil)
              24     +100 ms  ● │  A to 1: script unlock lock A3 → 1
                              │ │      now on 1: lock is gone
              25     +100 ms  ● │  A to 2: script unlock lock A3 → 0
              26     +100 ms  │ ●  B to 2: script unlock lock B3 → 1
                              │ │      now on 2: lock is gone
              27     +150 ms  │ │  50 ms pass: every client waits
              28     +150 ms  ● │  A to 1: SET lock A4 NX PX 10000 → OK
                              │ │      now on 1: lock = "A4" (10000 ms left)
        "#]],
    );
}

/// Without a pause, a client that tries alone waits until another one changes something.
#[test]
fn even_quorum_without_a_pause() {
    let report = exhaustive(&scenario(2, Duration::ZERO, usize::MAX)).unwrap_err();
    let Problem::Livelock { actors, .. } = &report.problem else { panic!("{report}") };
    assert_eq!(actors.len(), 2);
    exhaustive(&scenario(3, Duration::ZERO, usize::MAX)).unwrap();
}

/// Clients that give up after some tries are no livelock.
#[test]
fn even_quorum_with_a_limit() {
    exhaustive(&scenario(2, Duration::from_millis(50), 4)).unwrap();
}
