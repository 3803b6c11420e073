//! Clients that read from replicas.

use std::time::Duration;

use expect_test::{Expect, expect};
use harness::{ActorError, Client, Faults, Scenario, exhaustive, from_fn};
use redis::Value;

use crate::explorer::executions::check;
use crate::explorer::oracles::{expect_violation, send};

/// One client writes. The other one reads from the first replica what these commands say.
fn reads(replicas: usize, faults: Faults, commands: &'static [&'static [&'static str]]) -> Scenario {
    let write = |client: Client| async move {
        send(&mut client.connection(), &["SET", "lock", "A", "PX", "10000"]).await
    };
    let read = move |client: Client| async move {
        let mut link = client.replica(0, 0);
        for command in commands {
            // Errors are replies here.
            _ = send::<Value>(&mut link, command).await;
        }
        Ok(())
    };
    Scenario::new("reads")
        .replicas(replicas)
        .read_replicas()
        .faults(faults)
        .actors(1, from_fn(write))
        .actors(1, read)
}

#[track_caller]
fn check_reads(
    faults: Faults,
    commands: &'static [&'static [&'static str]],
    schedule: &str,
    expected: &Expect,
) {
    check(&reads(1, faults, commands), schedule, expected);
}

#[test]
fn a_replica_has_everything_or_lacks_the_last_write() {
    let faults = Faults::none().behind(1);
    check_reads(
        faults,
        &[&["GET", "lock"], &["GET", "lock"]],
        "A\nstart B\nstale B -A\nB",
        &expect![[r#"
        +0 A: SET lock A PX 10000 → OK
        +0 B: GET lock → (nil)
        +0 stale B -A: GET lock
        +0 B: GET lock → "A"
    "#]],
    );
    check_reads(
        faults,
        &[&["GET", "lock"], &["GET", "lock"]],
        "A\nB\nB",
        &expect![[r#"
        +0 A: SET lock A PX 10000 → OK
        +0 B: GET lock → "A"
        +0 B: GET lock → "A"
    "#]],
    );
    // It does not lose again what it has shown.
    check_reads(
        faults,
        &[&["GET", "lock"], &["GET", "lock"]],
        "A\nB\nstale B -A",
        &expect![[r#"
        +0 A: SET lock A PX 10000 → OK
        +0 B: GET lock → "A"
        +0 B: GET lock → "A"
    "#]],
    );
}

/// Two clients write, and each reads from a replica what it has written. If it is not there, the
/// client writes that down.
fn own_writes(wait_for: Option<&'static str>, faults: Faults) -> Scenario {
    let run = move |client: Client| async move {
        let (mut link, mut replica) = (client.connection(), client.replica(0, 1));
        () = send(&mut link, &["INCR", &client.name()]).await?;
        let has_arrived = match wait_for {
            Some(replicas) => {
                send::<u32>(&mut link, &["WAIT", replicas, "100"]).await? >= replicas.parse()?
            }
            None => true,
        };
        if has_arrived && send::<Option<u32>>(&mut replica, &["GET", &client.name()]).await?.is_none() {
            () = send(&mut link, &["SET", "stale", "1"]).await?;
        }
        Ok(())
    };
    let judge = |client: Client, _| async move {
        match send(&mut client.connection(), &["EXISTS", "stale"]).await? {
            false => Ok(()),
            true => Err("a client has not read what it wrote".into()),
        }
    };
    let scenario = Scenario::new("own writes").replicas(2).read_replicas().faults(faults);
    scenario.actors(2, run).finally("own writes are read", judge)
}

#[test]
fn a_client_may_not_read_its_own_write() {
    let faults = Faults::none().behind(1);
    expect_violation(&own_writes(None, faults), "own writes are read", 5);
    exhaustive(&own_writes(None, Faults::none())).unwrap();
    // The replica that has acknowledged may be the other one.
    expect_violation(&own_writes(Some("1"), faults), "own writes are read", 7);
    exhaustive(&own_writes(Some("2"), faults)).unwrap();
}

#[test]
fn a_replica_says_what_it_is_and_refuses_writes() {
    check_reads(
        Faults::none(),
        &[
            &["ROLE"],
            &["SET", "lock", "B"],
            &["EVAL", "return redis.call('DEL', 'lock')", "0"],
            &["WAIT", "0", "0"],
        ],
        "A\nB",
        &expect![[r#"
            +0 A: SET lock A PX 10000 → OK
            +0 B: ROLE → ["slave", "127.0.0.1", 6379, "connected", 0]
            +0 B: SET lock B → READONLY You can't write against a read only replica.
            +0 B: EVAL return r… 0 → READONLY You can't write against a read only replica. script: 565dde2ea20ba3f3a87fc75bb07dcc01179fe60e, on @user_script:1.
            +0 B: WAIT 0 0 → ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to be writable (which is not the default) writes to replicas are just local and are not propagated.
        "#]],
    );
}

/// It knows the scripts that it has run itself, also when it has taken over.
#[test]
fn a_replica_has_scripts_of_its_own() {
    let sha = "d3c21d0c2b9ca22f82737626a27bcaf5d288f99f";
    assert_eq!(redis::Script::new("return redis.call('GET', KEYS[1])").get_hash(), sha);
    check_reads(
        Faults::none().planned_failovers(1),
        &[
            &["EVALSHA", "d3c21d0c2b9ca22f82737626a27bcaf5d288f99f", "1", "lock"],
            &["EVAL", "return redis.call('GET', KEYS[1])", "1", "lock"],
            &["EVALSHA", "d3c21d0c2b9ca22f82737626a27bcaf5d288f99f", "1", "lock"],
            &["SET", "lock", "B"],
        ],
        "A\nB\nB\nplanned-failover 2\nB\nB",
        &expect![[r#"
            +0 A: SET lock A PX 10000 → OK
            +0 B: EVALSHA d3c21d0c… 1 lock → NOSCRIPT No matching script. Please use EVAL.
            +0 B: EVAL return r… 1 lock → "A"
            +0 planned-failover 2
            +0 B: EVALSHA d3c21d0c… 1 lock → "A"
            +0 B: SET lock B → OK
        "#]],
    );
}

/// It does not know those that the code before the actors has loaded at its primary.
#[test]
fn a_replica_begins_without_scripts() {
    let calls = |client: Client| async move {
        let call = redis::cmd("EVALSHA").arg("e0e1f9fabfc9d4800c877a703b823ac0578ff8db").arg(0).to_owned();
        _ = call.query_async::<Value>(&mut client.connection()).await;
        _ = call.query_async::<Value>(&mut client.replica(0, 0)).await;
        Ok(())
    };
    let scenario =
        Scenario::new("scripts").replicas(1).read_replicas().actors(1, calls).before(|client| async move {
            Ok(send(&mut client.connection(), &["SCRIPT", "LOAD", "return 1"]).await?)
        });
    check(
        &scenario,
        "A\nA",
        &expect![[r#"
            +0 A: EVALSHA e0e1f9fa… 0 → 1
            +0 A: EVALSHA e0e1f9fa… 0 → NOSCRIPT No matching script. Please use EVAL.
        "#]],
    );
}

#[test]
fn a_replica_hides_a_key_by_its_own_clock() {
    check_reads(
        Faults::none().server_skew(Duration::from_secs(20)),
        &[&["GET", "lock"], &["DBSIZE"]],
        "skew 2 +20000ms\nA\nB",
        &expect![[r#"
            +0 skew 2 +20000ms
            +0 A: SET lock A PX 10000 → OK
            +0 B: GET lock → (nil)
            +0 B: DBSIZE → 1
        "#]],
    );
}

#[test]
fn a_subscription_at_a_replica_is_refused() {
    let subscribe = |client: Client| async move {
        let link = client.replica(0, 0);
        locks::Subscribe::subscribe(&link, "news").await.map(drop).map_err(ActorError::from)
    };
    let scenario = Scenario::new("subscribes").replicas(1).read_replicas().actors(1, subscribe);
    check(
        &scenario,
        "A",
        &expect![[r#"
            +0 A: SUBSCRIBE news → subscriptions at replicas are not simulated: subscribe at the primary - Client
            +0 A failed: subscriptions at replicas are not simulated: subscribe at the primary - Client
        "#]],
    );
}

#[test]
#[should_panic(expected = "there is no replica 1 of server 0 to read")]
fn a_client_connects_to_replicas_that_there_are() {
    let connect = |client: Client| async move {
        drop(client.replica(0, 1));
        Ok(())
    };
    exhaustive(&Scenario::new("connects").replicas(1).read_replicas().actors(1, connect)).unwrap();
}

#[test]
#[should_panic(expected = "there are no replicas to read")]
fn replicas_come_before_reads_from_them() {
    _ = Scenario::new("none").read_replicas();
}

#[test]
#[should_panic(expected = "the replicas of a cluster cannot be read yet")]
fn replicas_of_a_cluster_cannot_be_read() {
    _ = Scenario::new("cluster").cluster(2).replicas(1).read_replicas();
}
