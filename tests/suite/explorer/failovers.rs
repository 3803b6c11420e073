//! Servers with replicas: failovers, what they lose, and clients that wait for replicas.

use std::time::Duration;

use expect_test::expect;
use harness::oracle::{ExclusiveFact, Fenced, Success};
use harness::{Client, Faults, Scenario, exhaustive, from_fn};
use redis::RedisResult;

use crate::explorer::executions::check;
use crate::explorer::oracles::{expect_violation, send};

const LEASE: Duration = Duration::from_secs(10);

/// Each client writes a key of its own, and reads both.
fn writers(faults: Faults) -> Scenario {
    let writes = |client: Client| async move {
        let mut link = client.connection();
        () = send(&mut link, &["INCR", &client.name()]).await?;
        send(&mut link, &["MGET", "A", "B"]).await
    };
    Scenario::new("writers").replicas(1).faults(faults).actors(2, from_fn(writes)).always(Success)
}

/// A lock that is never released. It is taken when so many replicas have it, if that matters.
fn lock(replicas: usize, wait_for: Option<&'static str>, faults: Faults) -> Scenario {
    let take = move |client: Client| async move {
        let mut link = client.connection();
        let taken: Option<()> =
            send(&mut link, &["SET", "lock", &client.name(), "NX", "PX", "10000"]).await?;
        let enough = match wait_for {
            Some(wanted) => send::<u32>(&mut link, &["WAIT", wanted, "100"]).await? >= wanted.parse()?,
            None => true,
        };
        if taken.is_some() && enough {
            client.hold("lock").during(send::<()>(&mut link, &["GET", "lock"])).await?;
        }
        Ok(())
    };
    Scenario::new("lock")
        .lease(LEASE)
        .actors(2, take)
        .always(ExclusiveFact::of("lock"))
        .replicas(replicas)
        .faults(faults)
}

fn failover() -> Faults {
    Faults::none().failovers(1)
}

#[test]
fn a_replica_takes_over_without_the_last_write() {
    check(
        &writers(failover().behind(1)),
        "A\nB\nfailover 2 -A\nA\nB",
        &expect![[r#"
            +0 A: INCR A → 1
            +0 B: INCR B → 1
            +0 failover 2 -A
            +0 A: MGET A B → [(nil), "1"]
            +0 B: MGET A B → [(nil), "1"]
        "#]],
    );
}

/// B has read what A wrote.
#[test]
fn what_came_about_because_of_a_lost_write_is_lost_too() {
    let reads = |client: Client| async move {
        let mut link = client.connection();
        let read: String = send(&mut link, &["GET", "a"]).await?;
        send(&mut link, &["SET", "b", &read]).await
    };
    let scenario = Scenario::new("consequences")
        .replicas(1)
        .faults(failover().behind(2))
        .actors(1, from_fn(|client| async move { send(&mut client.connection(), &["SET", "a", "1"]).await }))
        .actors(1, from_fn(reads))
        .actors(
            1,
            from_fn(|client| async move { send(&mut client.connection(), &["MGET", "a", "b"]).await }),
        );
    check(
        &scenario,
        "A\nB\nB\nfailover 2 -AB\nC",
        &expect![[r#"
        +0 A: SET a 1 → OK
        +0 B: GET a → "1"
        +0 B: SET b 1 → OK
        +0 failover 2 -AB
        +0 C: MGET a b → [(nil), (nil)]
    "#]],
    );
    check(
        &scenario,
        "A\nB\nB\nfailover 2 -B\nC",
        &expect![[r#"
        +0 A: SET a 1 → OK
        +0 B: GET a → "1"
        +0 B: SET b 1 → OK
        +0 failover 2 -B
        +0 C: MGET a b → ["1", (nil)]
    "#]],
    );
    // No replica has what B wrote without what A wrote.
    check(
        &scenario,
        "A\nB\nB\nfailover 2 -A\nC",
        &expect![[r#"
        +0 A: SET a 1 → OK
        +0 B: GET a → "1"
        +0 B: SET b 1 → OK
        +0 C: MGET a b → ["1", "1"]
    "#]],
    );
}

#[test]
fn a_lock_is_lost_by_a_failover() {
    expect_violation(&lock(1, None, failover().behind(1)), "exclusive-fact", 3);
    exhaustive(&lock(1, None, failover())).unwrap();
    exhaustive(&lock(1, None, Faults::none().planned_failovers(1).behind(1))).unwrap();
}

/// One client has connected before the failover, and the other one after it. Nothing is lost.
#[test]
fn a_split_brain_has_two_holders() {
    let faults = failover().old_primary_writable(1);
    expect_violation(&lock(1, None, faults), "exclusive-fact", 4);
    check(
        &lock(1, None, faults),
        "start A\nsplit-brain 2\nA\nB",
        &expect![[r#"
            +0 split-brain 2
            +0 A: SET lock A NX PX 10000 → OK
            +0 B: SET lock B NX PX 10000 → OK
            +0 A: GET lock → "B"
            +0 B: GET lock → "B"
        "#]],
    );
}

/// The old primary has no replicas any more, whatever the client has written there.
#[test]
fn a_wait_after_a_split_brain_finds_no_replica() {
    let take = |client: Client| async move {
        let mut link = client.connection();
        () = send(&mut link, &["SET", "a", "1"]).await?;
        send(&mut link, &["WAIT", "1", "100"]).await
    };
    let faults = failover().old_primary_writable(1).behind(1);
    let scenario = Scenario::new("wait").replicas(1).faults(faults).actors(1, from_fn(take));
    check(
        &scenario,
        "A\nsplit-brain 2 -A\nA\nwait",
        &expect![[r#"
        +0 A: SET a 1 → OK
        +0 split-brain 2 -A
        +100 A: WAIT 1 100 → 0
        +100 time
    "#]],
    );
}

/// Replicas copy what a primary has after its restart.
#[test]
fn a_restart_is_no_way_back_to_lost_writes() {
    let faults = failover().behind(1).reloads(1).unsynced(1).restarts(1);
    let scenario = writers(faults);
    check(
        &scenario,
        "A\nreload 1 -1\nfailover 2\nA",
        &expect![[r#"
        +0 A: INCR A → 1
        +0 reload 1 -1
        +0 failover 2
        +0 A: MGET A B → [(nil), (nil)]
    "#]],
    );
    check(
        &scenario,
        "A\nrestart 1\nfailover 2\nA",
        &expect![[r#"
        +0 A: INCR A → 1
        +0 restart 1
        +0 failover 2
        +0 A: MGET A B → [(nil), (nil)]
    "#]],
    );
    check(
        &scenario,
        "A\nrestart 1\nB\nfailover 2 -B\nA",
        &expect![[r#"
        +0 A: INCR A → 1
        +0 restart 1
        +0 B: INCR B → 1
        +0 failover 2 -B
        +0 A: MGET A B → [(nil), (nil)]
        +0 B: MGET A B → [(nil), (nil)]
    "#]],
    );
}

/// The replica that has the lock is not the one that takes over.
#[test]
fn one_acknowledgement_of_two_does_not_save_a_lock() {
    expect_violation(&lock(2, Some("1"), failover().behind(1)), "exclusive-fact", 5);
    exhaustive(&lock(2, Some("2"), failover().behind(1))).unwrap();
    exhaustive(&lock(1, Some("1"), failover().behind(1))).unwrap();
}

#[test]
fn a_wait_for_replicas_ends() {
    let scenario =
        Scenario::new("wait").replicas(2).faults(failover().behind(1)).actors(1, |client| async move {
            let mut link = client.connection();
            for command in
                [&["WAIT", "2", "0"][..], &["SET", "a", "1"], &["WAIT", "1", "0"], &["WAIT", "2", "100"]]
            {
                () = send(&mut link, command).await?;
            }
            Ok(())
        });
    // Before the client's first write there is nothing to wait for.
    check(
        &scenario,
        "A\nA\nunacknowledged A 3\nunacknowledged A 3\nwait",
        &expect![[r#"
            +0 A: WAIT 2 0 → 2
            +0 A: SET a 1 → OK
            +0 A: WAIT 1 0 → 1
            +0 unacknowledged A 3: WAIT 1 0
            +100 A: WAIT 2 100 → 1
            +100 unacknowledged A 3: WAIT 2 100
            +100 time
        "#]],
    );
    // In the end, replicas have everything.
    check(
        &scenario,
        "A\nA\nunacknowledged A 2,3",
        &expect![[r#"
            +0 A: WAIT 2 0 → 2
            +0 A: SET a 1 → OK
            +0 A: WAIT 1 0 → 2
            +0 A: WAIT 2 100 → 2
        "#]],
    );
    // The connection ends with its server.
    check(
        &scenario,
        "A\nA\nunacknowledged A 2,3\nfailover 2 -A",
        &expect![[r#"
            +0 A: WAIT 2 0 → 2
            +0 A: SET a 1 → OK
            +0 failover 2 -A
            +0 A: WAIT 1 0 → broken pipe
            +0 unacknowledged A 2,3: WAIT 1 0
            +0 A gives up: broken pipe
        "#]],
    );
}

/// A client that holds the script to be known fails.
#[test]
fn a_new_primary_knows_no_scripts() {
    const ONE: &str = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    let calls = |client: Client| async move {
        let mut link = client.connection();
        () = send(&mut link, &["SCRIPT", "LOAD", "return 1"]).await?;
        send(&mut link, &["EVALSHA", ONE, "0"]).await
    };
    let scenario = Scenario::new("scripts").replicas(1).actors(1, from_fn(calls)).always(Success);
    exhaustive(&scenario).unwrap();
    let scenario = scenario.faults(Faults::none().planned_failovers(1));
    let report = exhaustive(&scenario).unwrap_err().to_string();
    assert!(report.contains("server 2, a replica, takes over") && report.contains("NOSCRIPT"), "{report}");
}

#[test]
fn a_connection_with_a_state_breaks() {
    let scenario = Scenario::new("states").replicas(1).faults(failover()).actors(1, |client| async move {
        let mut link = client.connection();
        () = send(&mut link, &["WATCH", "a"]).await?;
        _ = send::<()>(&mut link, &["GET", "a"]).await;
        _ = send::<()>(&mut link, &["BLPOP", "l", "0"]).await;
        Ok(send(&mut link, &["GET", "a"]).await?)
    });
    check(
        &scenario,
        "A\nfailover 2\nA\nA",
        &expect![[r#"
            +0 A: WATCH a → OK
            +0 failover 2
            +86400000 time
            +172800000 time
            +172800000 A is stuck
        "#]],
    );
    check(
        &scenario,
        "A\nA\nA\nfailover 2",
        &expect![[r#"
            +0 A: WATCH a → OK
            +0 A: GET a → (nil)
            +0 failover 2
            +0 A: BLPOP l 0 → broken pipe
            +0 A: GET a → (nil)
        "#]],
    );
}

#[test]
fn a_deadline_comes_early_by_the_clock_of_a_replica() {
    let faults = failover().server_skew(LEASE + Duration::from_millis(1));
    expect_violation(&lock(1, None, faults), "exclusive-fact", 4);
    // The replica is the only server of which the clock can be wrong and matters.
    exhaustive(&lock(1, None, Faults::none().server_skew(LEASE))).unwrap();
}

#[test]
fn a_fencing_token_repeats() {
    let draws = |client: Client| async move {
        let token = send(&mut client.connection(), &["INCR", "token"]).await?;
        client.accepted("storage", token);
        RedisResult::Ok(())
    };
    let scenario =
        Scenario::new("tokens").replicas(1).actors(2, from_fn(draws)).always(Fenced::of("storage"));
    exhaustive(&scenario.clone().faults(failover())).unwrap();
    expect_violation(&scenario.faults(failover().behind(1)), "fenced", 3);
}

/// As long as nothing takes over, what replicas lack makes no schedules.
#[test]
fn replicas_add_no_schedules() {
    let schedules = |scenario: Scenario| exhaustive(&scenario).unwrap().schedules;
    let alone = schedules(writers(Faults::none()).replicas(0));
    assert_eq!(schedules(writers(Faults::none().behind(4)).replicas(2)), alone);
    // Each client writes a key of its own, so only the failover has orders. One client, two and
    // three are explored.
    let independent = |faults| {
        let write =
            |client: Client| async move { send(&mut client.connection(), &["INCR", &client.name()]).await };
        let scenario = Scenario::new("independent").replicas(1).faults(faults);
        scenario.actors(3, from_fn(write)).always(Success)
    };
    assert_eq!(schedules(independent(Faults::none().behind(1))), 3);
    // It comes after any set of the writes, without one of these or none.
    let of =
        |clients: u64| (0..1_u64 << clients).map(|written| 1 + u64::from(written.count_ones())).sum::<u64>();
    assert_eq!(schedules(independent(failover().behind(1))), of(1) + of(2) + of(3));
}

#[test]
#[should_panic(expected = "a scenario has at most 60 servers with replicas, not 62")]
fn replicas_are_limited() {
    _ = Scenario::new("many").servers(31).replicas(1);
}
