//! Clusters: redirections, and slots that move while clients work.

use expect_test::expect;
use harness::check::{Participants, scenario};
use harness::execution::{Learning, Runner};
use harness::explore::Dpor;
use harness::oracle::{ExclusiveFact, NoLeak, Success};
use harness::sim::Recording;
use harness::{Client, Faults, Scenario, Schedule, exhaustive, from_fn, replay};
use locks::Subscribe as _;
use locks::registry::{ALGORITHMS, FaultClass};
use redis::{RedisResult, aio::ConnectionLike};

use crate::explorer::executions::check;
use crate::explorer::oracles::send;

/// `a` is in slot 15495 of the second server, and `b` in slot 3300 of the first one.
fn two(faults: Faults) -> Scenario {
    Scenario::new("cluster").cluster(2).faults(faults)
}

fn moves() -> Faults {
    Faults::none().moves(1)
}

/// Sends commands one after the other, and ends at the first error.
async fn send_all(link: &mut impl ConnectionLike, commands: &[&str]) -> RedisResult<()> {
    for command in commands {
        () = send(link, &command.split(' ').collect::<Vec<_>>()).await?;
    }
    Ok(())
}

/// Adds clients that each send these commands.
fn with_senders(scenario: Scenario, clients: usize, commands: &'static [&'static str]) -> Scenario {
    let sends =
        move |client: Client| async move { send_all(&mut client.cluster_connection(), commands).await };
    scenario.actors(clients, from_fn(sends))
}

/// Scenarios of clients that each send these commands.
fn sending(faults: Faults, clients: usize, commands: &'static [&'static str]) -> Scenario {
    with_senders(two(faults), clients, commands)
}

#[test]
fn each_key_is_on_its_server() {
    check(
        &sending(Faults::none(), 1, &["SET a 1", "SET b 2", "MGET a b"]),
        "A\nA\nA",
        &expect![[r#"
        +0 A: SET a 1 → OK
        +0 A: SET b 2 → OK
        +0 A: MGET a b → CROSSSLOT Keys in request don't hash to the same slot
        +0 A failed: CrossSlot: Keys in request don't hash to the same slot
    "#]],
    );
}

/// Before the move, in it and after it.
#[test]
fn redirections_are_followed() {
    let scenario = sending(moves(), 2, &["INCR a", "INCR a"]);
    check(
        &scenario,
        "A\nbegin-move 1 15495\nA\nend-move 1 15495\nB\nB\nB",
        &expect![[r#"
        +0 A: INCR a → 1
        +0 begin-move 1 15495
        +0 A: INCR a → 2
        +0 end-move 1 15495
        +0 B: INCR a → MOVED 15495 127.0.0.1:6379
        +0 B: INCR a → 3
        +0 B: INCR a → 4
    "#]],
    );
    check(
        &scenario,
        "start A\nbegin-move 1 15495\nA\nA\nB\nB\nend-move 1 15495\nB",
        &expect![[r#"
        +0 begin-move 1 15495
        +0 A: INCR a → ASK 15495 127.0.0.1:6379
        +0 B: INCR a → ASK 15495 127.0.0.1:6379
        +0 end-move 1 15495
        +0 A: ASKING; INCR a → 1
        +0 B: ASKING; INCR a → 2
        +0 A: INCR a → MOVED 15495 127.0.0.1:6379
        +0 B: INCR a → MOVED 15495 127.0.0.1:6379
        +0 A: INCR a → 3
        +0 B: INCR a → 4
    "#]],
    );
    exhaustive(&scenario.always(Success)).unwrap();
}

/// Some of the keys of a request are there, and not all of them.
#[test]
fn a_request_for_several_keys_is_tried_again() {
    let scenario = sending(moves(), 1, &["SET a 1", "MGET a {a}b"]);
    check(
        &scenario,
        "A\nbegin-move 1 15495\nA\nwait\nend-move 1 15495\nA",
        &expect![[r#"
        +0 A: SET a 1 → OK
        +0 begin-move 1 15495
        +0 A: MGET a {a}b → TRYAGAIN Multiple keys request during rehashing of slot
        +100 time
        +100 end-move 1 15495
        +100 A: MGET a {a}b → MOVED 15495 127.0.0.1:6379
        +100 A: MGET a {a}b → ["1", (nil)]
    "#]],
    );
    // It gives up, and a fault is the reason for that.
    check(
        &scenario,
        "A\nbegin-move 1 15495\nA\nwait\nA\nwait\nA\nwait\nA",
        &expect![[r#"
            +0 A: SET a 1 → OK
            +0 begin-move 1 15495
            +0 A: MGET a {a}b → TRYAGAIN Multiple keys request during rehashing of slot
            +100 time
            +100 A: MGET a {a}b → TRYAGAIN Multiple keys request during rehashing of slot
            +200 time
            +200 A: MGET a {a}b → TRYAGAIN Multiple keys request during rehashing of slot
            +300 time
            +300 A: MGET a {a}b → TRYAGAIN Multiple keys request during rehashing of slot
            +300 A gives up: TryAgain: Multiple keys request during rehashing of slot
            +300 end-move 1 15495
        "#]],
    );
    exhaustive(&scenario.always(Success)).unwrap();
}

#[test]
fn a_transaction_is_redirected_as_a_whole() {
    let increments = |client: Client| async move {
        let mut link = client.cluster_connection();
        for _ in 0..2 {
            let mut pipeline = redis::pipe();
            () = pipeline.atomic().incr("a", 1).incr("{a}b", 1).query_async(&mut link).await?;
        }
        RedisResult::Ok(())
    };
    let scenario = two(moves()).actors(1, from_fn(increments));
    check(
        &scenario,
        "start A\nbegin-move 1 15495\nend-move 1 15495\nA\nA\nA",
        &expect![[r#"
        +0 begin-move 1 15495
        +0 end-move 1 15495
        +0 A: MULTI; INCRBY a 1; INCRBY {a}b 1; EXEC → [EXECABORT Transaction discarded because of previous errors.]
        +0 A gives up: ExecAbort: Transaction discarded because of previous errors.
    "#]],
    );
    check(
        &scenario,
        "start A\nbegin-move 1 15495\nA\nwait\nend-move 1 15495\nA\nA\nA",
        &expect![[r#"
        +0 begin-move 1 15495
        +0 A: MULTI; INCRBY a 1; INCRBY {a}b 1; EXEC → [EXECABORT Transaction discarded because of previous errors.]
        +0 A gives up: ExecAbort: Transaction discarded because of previous errors.
        +0 end-move 1 15495
    "#]],
    );
}

/// The key is no longer at the server that runs the script. Redis 7.0.15 does the same.
#[test]
fn a_script_that_removes_its_key_ends_there() {
    let scenario = sending(
        moves(),
        1,
        &["SET a 1", "EVAL redis.call('DEL',KEYS[1])return(redis.call('EXISTS',KEYS[1])) 1 a"],
    );
    check(
        &scenario,
        "A\nbegin-move 1 15495\nA",
        &expect![[r#"
        +0 A: SET a 1 → OK
        +0 begin-move 1 15495
        +0 A: EVAL redis.ca… 1 a → ERR Script attempted to access a non local key in a cluster node script: ed23b43f1493e3bab4377acf0f2179ddefa951c7, on @user_script:1.
        +0 A gives up: ResponseError: Script attempted to access a non local key in a cluster node script: ed23b43f1493e3bab4377acf0f2179ddefa951c7, on @user_script:1.
        +0 end-move 1 15495
    "#]],
    );
    // A fault is the reason for that.
    exhaustive(&scenario.always(Success)).unwrap();
}

#[test]
fn a_client_that_waits_for_a_key_is_redirected_when_it_has_moved() {
    let scenario = with_senders(sending(moves(), 1, &["BLPOP a 0"]), 1, &["RPUSH a 1"]);
    check(
        &scenario,
        "A\nbegin-move 1 15495\nend-move 1 15495\nA\nB\nB",
        &expect![[r#"
        +0 begin-move 1 15495
        +0 end-move 1 15495
        +0 A: BLPOP a 0 → MOVED 15495 127.0.0.1:6379
        +0 B: RPUSH a 1 → MOVED 15495 127.0.0.1:6379
        +0 B: RPUSH a 1 → 1
        +0 A: BLPOP a 0 → ["a", "1"]
    "#]],
    );
    exhaustive(&scenario.always(Success)).unwrap();
}

/// A message reaches the subscribers of all servers, wherever it was published.
#[test]
fn messages_reach_all_servers() {
    let hears = |client: Client| async move {
        let mut subscription = client.cluster_connection().subscribe("a").await?;
        subscription.message().await?;
        subscription.unsubscribe().await
    };
    let scenario = two(Faults::none()).actors(1, from_fn(hears));
    let scenario = with_senders(scenario, 1, &["PUBLISH a m"]);
    check(
        &scenario,
        "A\nB\nA\nA",
        &expect![[r#"
        +0 A: SUBSCRIBE a → ["subscribe", "a", 1]
        +0 B: PUBLISH a m → 0
        +0 A: UNSUBSCRIBE a → ["unsubscribe", "a", 0]
    "#]],
    );
}

/// The lock is never lost by a move, and a release finds it.
#[test]
fn a_lock_survives_a_move() {
    let locks = |client: Client| async move {
        let mut link = client.cluster_connection();
        let taken: Option<()> = send(&mut link, &["SET", "a", &client.name(), "NX", "PX", "10000"]).await?;
        if taken.is_some() {
            let record = locks::Record::Value("a".into(), client.name());
            let hold = client.hold("lock").record(record).enter();
            hold.until(send::<()>(&mut link, &["DEL", "a"])).await?;
        }
        RedisResult::Ok(())
    };
    let probes = |client: Client| async move {
        Ok(send::<Option<()>>(&mut client.cluster_connection(), &["SET", "a", "probe", "NX"])
            .await?
            .is_some())
    };
    let scenario = two(moves()).actors(2, from_fn(locks)).probe(1, probes);
    exhaustive(&scenario.always(ExclusiveFact::of("lock")).always(NoLeak)).unwrap();
}

/// It asks the first server alone.
#[test]
fn a_client_that_knows_no_cluster_fails() {
    let locks = |client: Client| async move { send_all(&mut client.connection(), &["SET a 1"]).await };
    let report = exhaustive(&two(Faults::none()).actors(1, from_fn(locks)).always(Success)).unwrap_err();
    assert!(report.to_string().contains("A failed: Moved: 15495 127.0.0.1:6380"), "{report}");
}

#[test]
fn a_replica_of_a_server_takes_over() {
    let scenario =
        sending(Faults::none().failovers(1).behind(1).moves(1), 2, &["INCR a", "INCR a"]).replicas(1);
    check(
        &scenario,
        "A\nfailover 4 -A\nB\nbegin-move 1 15495\nend-move 1 15495\nA\nA\nB",
        &expect![[r#"
        +0 A: INCR a → 1
        +0 failover 4 -A
        +0 B: INCR a → 1
        +0 begin-move 1 15495
        +0 end-move 1 15495
        +0 A: INCR a → MOVED 15495 127.0.0.1:6379
        +0 B: INCR a → MOVED 15495 127.0.0.1:6379
        +0 A: INCR a → 2
        +0 B: INCR a → 3
    "#]],
    );
    // What has moved is not lost.
    check(
        &scenario,
        "A\nbegin-move 1 15495\nend-move 1 15495\nfailover 3\nB\nB\nA\nA",
        &expect![[r#"
        +0 A: INCR a → 1
        +0 begin-move 1 15495
        +0 end-move 1 15495
        +0 failover 3
        +0 B: INCR a → MOVED 15495 127.0.0.1:6379
        +0 A: INCR a → MOVED 15495 127.0.0.1:6379
        +0 A: INCR a → 2
        +0 B: INCR a → 3
        +0 B: INCR a → 4
    "#]],
    );
}

/// What is known of servers and clients leads to the events that there are if everything runs.
#[test]
fn what_is_known_of_a_cluster_is_what_it_does() {
    for (name, clients) in
        [("stalled_queue", 1), ("sliding_window_counter", 2), ("semaphore_fair", 2), ("redisson", 2)]
    {
        let algorithm = ALGORITHMS.iter().find(|algorithm| algorithm.name == name).unwrap();
        let size = Participants { clients, permits: 1, readers: None };
        let scenario = scenario(algorithm, FaultClass::Cluster, size);
        let (mut runner, mut dpor) = (Runner::new().learning(Learning::Eager), Dpor::default());
        for _ in 0..200 {
            let Some(executed) = dpor.run_next(&mut runner, &scenario) else { break };
            if !dpor.is_blocked() {
                let schedule = Schedule { steps: executed.steps.clone() };
                let again = replay(&mut Runner::new(), &scenario, &schedule, Recording::Lean);
                assert_eq!(executed.history.events, again.events, "{name}:\n{schedule}");
            }
        }
    }
}
