//! Replays schedules with failovers on servers that the replay starts: their replicas lack
//! the same writes, and take over at the same place.

use std::time::Duration;

use expect_test::expect;
use harness::execution::Runner;
use harness::explore::Problem;
use harness::oracle::{ExclusiveFact, Success};
use harness::replay::{
    Comparison, OnRedis, OnRedisError, RedisServers, RedisServersError, replay_on_redis, replay_on_servers,
};
use harness::{Client, Faults, SavedSchedule, Scenario, exhaustive, from_fn};
use locks::Subscribe as _;

use super::oracles::send;
use crate::redis_server;

/// Servers for a scenario. `None`, and a line on stderr, if no `redis-server` is installed.
fn started(scenario: &Scenario) -> Option<RedisServers> {
    match RedisServers::start(scenario) {
        Err(RedisServersError::Missing(_)) => {
            redis_server::say_it_is_missing("install redis-server");
            None
        }
        servers => Some(servers.unwrap()),
    }
}

/// Whether a `redis-server` is installed. Prints a line on stderr if not.
pub(super) fn is_installed() -> bool {
    started(&writers(0, Faults::none())).is_some()
}

const NAME: &str = "clients";

/// Replays steps of one client or two, which all end.
fn replay(scenario: &Scenario, steps: &str) -> Option<Result<OnRedis, OnRedisError>> {
    let clients = if steps.contains('B') { 2 } else { 1 };
    let saved = format!(
        "lockstep schedule 1\nscenario {NAME}\nclients {clients}\nlease 10000ms\nproperty success\nmust pass\n{steps}"
    );
    let saved: SavedSchedule = saved.parse().unwrap();
    let mut servers = started(scenario)?;
    let with_lease = |lease| scenario.clone().lease(lease);
    Some(replay_on_servers(&mut Runner::new(), &mut servers, &saved, with_lease))
}

/// Checks that real servers give the same replies as the emulator.
#[track_caller]
fn expect_same(scenario: &Scenario, steps: &str, replies: usize) {
    let Some(on_redis) = replay(scenario, steps) else { return };
    let on_redis = on_redis.unwrap();
    assert_eq!((&on_redis.comparison, on_redis.replies), (&Comparison::Same(None), replies), "{on_redis}");
}

/// Each client writes twice, and reads all.
fn writers(replicas: usize, faults: Faults) -> Scenario {
    let writes = |client: Client| async move {
        let mut link = client.connection();
        () = send(&mut link, &["INCR", &client.name()]).await?;
        () = send(&mut link, &["INCR", &client.name()]).await?;
        send(&mut link, &["MGET", "A", "B"]).await
    };
    Scenario::new(NAME).replicas(replicas).faults(faults).actors(2, from_fn(writes)).always(Success)
}

#[test]
fn a_real_replica_lacks_what_it_should() {
    let scenario = writers(1, Faults::none().failovers(1).behind(4));
    expect_same(&scenario, "A\nB\nA\nB\nfailover 2\nA\nB", 6);
    expect_same(&scenario, "A\nB\nA\nB\nfailover 2 -B\nA\nB", 6);
    expect_same(&scenario, "A\nB\nA\nB\nfailover 2 -AABB\nA\nB", 6);
}

/// Nothing depends on the lost write, so its client might as well have been the last one.
#[test]
fn a_lost_write_need_not_be_the_last_one() {
    let scenario = writers(1, Faults::none().failovers(1).behind(4));
    expect_same(&scenario, "A\nB\nA\nB\nfailover 2 -A\nA\nB", 6);
    expect_same(&scenario, "A\nA\nB\nB\nfailover 2 -AA\nB\nA", 6);
}

/// A replica acknowledges nothing if it takes over without it. Later, more than one may acknowledge
/// before `WAIT` ends.
#[test]
fn a_real_replica_does_not_acknowledge_what_it_lacks() {
    let waits = |client: Client| async move {
        let mut link = client.connection();
        () = send(&mut link, &["INCR", &client.name()]).await?;
        () = send(&mut link, &["WAIT", "1", "5000"]).await?;
        send(&mut link, &["MGET", "A", "B"]).await
    };
    let faults = Faults::none().failovers(1).behind(1);
    let scenario = Scenario::new(NAME).replicas(2).faults(faults).actors(2, from_fn(waits)).always(Success);
    expect_same(&scenario, "A\nunacknowledged A 3\nfailover 3 -A\nB\nB\nA\nB", 6);
    let refused = |steps| Some(replay(&scenario, steps)?.unwrap_err().to_string());
    let Some(follows) = refused("A\nunacknowledged A 3\nfailover 2\nA\nB\nB\nB") else { return };
    let none_has_it = refused("A\nunacknowledged A 2,3\ntime +5000ms\nfailover 3 -A\nA").unwrap();
    expect![[r#"
        the schedule has the step `unacknowledged A 3`: a replay on real servers sets no clocks of theirs, restarts nothing, flushes no scripts, and delays no replica but one that takes over
        step 3: WAIT may block, and a replay on a real server runs only commands that reply at once
    "#]]
    .assert_eq(&format!("{follows}\n{none_has_it}\n"));
}

/// Each client writes, and reads both keys from a replica.
fn readers(replicas: usize, faults: Faults) -> Scenario {
    let reads = |client: Client| async move {
        let (mut link, mut replica) = (client.connection(), client.replica(0, 0));
        for _ in 0..2 {
            () = send(&mut link, &["INCR", &client.name()]).await?;
            () = send(&mut replica, &["MGET", "A", "B"]).await?;
        }
        _ = send::<()>(&mut replica, &["INCR", "A"]).await;
        Ok(())
    };
    let scenario = Scenario::new(NAME).replicas(replicas).read_replicas().faults(faults);
    scenario.actors(2, reads).always(Success)
}

#[test]
fn a_read_from_a_real_replica_is_as_old_as_it_should_be() {
    let faults = Faults::none().failovers(1).behind(2);
    for replicas in [1, 2] {
        let scenario = readers(replicas, faults);
        expect_same(&scenario, "A\nA.2\nB\nA\nA.2\nA.2\nB.2\nB\nB.2\nB.2", 10);
        expect_same(&scenario, "A\nstale A.2 -A\nB\nA\nstale A.2 -AB\nA.2\nB.2\nB\nB.2\nB.2", 10);
        // It lacks the same at two reads, and then nothing.
        expect_same(&scenario, "A\nB\nstale A.2 -AB\nstale B.2 -AB\nA\nA.2\nA.2\nB\nB.2\nB.2", 10);
        // It takes over with what it had at the read.
        expect_same(&scenario, "A\nB\nstale A.2 -B\nfailover 2 -B\nB.2\nA\nA.2\nA.2\nB\nB.2\nB.2", 10);
    }
}

/// A failed server comes back as a replica, and so does one that has handed over.
#[test]
fn servers_take_over_in_turns() {
    let faults = Faults::none().failovers(2).planned_failovers(2).behind(1);
    for replicas in [1, 2] {
        let scenario = writers(replicas, faults);
        expect_same(&scenario, "A\nfailover 2 -A\nA\nfailover 1 -A\nA\nB", 6);
        expect_same(&scenario, "A\nplanned-failover 2\nA\nB\nfailover 1 -B\nA\nplanned-failover 2\nB", 6);
    }
    let scenario = writers(2, faults);
    expect_same(&scenario, "A\nfailover 2 -A\nA\nB\nfailover 3 -B\nA\nB", 6);
}

/// One client connects before the failover, and the other one after it.
#[test]
fn an_old_primary_still_serves_its_clients() {
    let faults = Faults::none().failovers(2).old_primary_writable(1).behind(1);
    let scenario = writers(1, faults);
    expect_same(&scenario, "start A\nsplit-brain 2\nA\nB\nA\nB\nA\nB", 6);
    expect_same(&scenario, "A\nsplit-brain 2 -A\nA\nB\nfailover 1 -B\nA\nB", 6);
}

#[test]
fn a_new_real_primary_knows_no_scripts() {
    const ONE: &str = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    let calls = |client: Client| async move {
        let mut link = client.connection();
        () = send(&mut link, &["SCRIPT", "LOAD", "return 1"]).await?;
        () = send(&mut link, &["EVALSHA", ONE, "0"]).await?;
        _ = send::<()>(&mut link, &["EVALSHA", ONE, "0"]).await;
        Ok(())
    };
    let faults = Faults::none().failovers(1).planned_failovers(1);
    let scenario = Scenario::new(NAME).replicas(1).faults(faults).actors(1, calls).always(Success);
    expect_same(&scenario, "A\nA\nfailover 2\nA", 3);
    expect_same(&scenario, "A\nA\nplanned-failover 2\nA", 3);
}

/// A connection with a state breaks, and so does a subscription. Others do not notice.
#[test]
fn connections_to_a_failed_server_break() {
    let faults = Faults::none().failovers(1).planned_failovers(1);
    let watches = |client: Client| async move {
        let mut link = client.connection();
        () = send(&mut link, &["WATCH", "a"]).await?;
        _ = send::<()>(&mut link, &["GET", "a"]).await;
        () = send(&mut link, &["WATCH", "a"]).await?;
        () = send(&mut link, &["UNWATCH"]).await?;
        Ok(send(&mut link, &["GET", "a"]).await?)
    };
    let scenario = Scenario::new(NAME).replicas(1).faults(faults).actors(1, watches).always(Success);
    expect_same(&scenario, "A\nfailover 2\nA\nA\nA\nA", 4);
    expect_same(&scenario, "A\nA\nA\nA\nfailover 2\nA", 5);
    let subscribes = |client: Client| async move {
        let mut subscription = client.connection().subscribe("news").await?;
        _ = subscription.message().await;
        _ = subscription.message().await;
        Ok(())
    };
    let tells = |client: Client| async move {
        let mut link = client.connection();
        () = send(&mut link, &["PUBLISH", "news", "1"]).await?;
        Ok(send(&mut link, &["PUBLISH", "news", "2"]).await?)
    };
    let scenario = Scenario::new(NAME).replicas(1).faults(faults).actors(1, subscribes).actors(1, tells);
    expect_same(&scenario.always(Success), "A\nB\nA\nfailover 2\nB", 4);
}

#[test]
fn some_failovers_cannot_run_on_real_servers() {
    let faults = Faults::none().failovers(1).behind(4).server_skew(Duration::from_secs(1)).restarts(1);
    let pipes = |client: Client| async move {
        let mut pipeline = redis::pipe();
        pipeline.cmd("INCR").arg("a").cmd("INCR").arg("b");
        Ok(pipeline.query_async::<()>(&mut client.connection()).await?)
    };
    let scenario = Scenario::new(NAME).replicas(1).faults(faults).actors(1, pipes).always(Success);
    let refused = |steps| Some(replay(&scenario, steps)?.unwrap_err().to_string());
    let Some(wrong_clock) = refused("skew 2 +1000ms\nA\nfailover 2") else { return };
    let restart = refused("A\nrestart 1\nfailover 2").unwrap();
    expect![[r#"
        the schedule has the step `skew 2 +1000ms`: a replay on real servers sets no clocks of theirs, restarts nothing, flushes no scripts, and delays no replica but one that takes over
        the schedule has the step `restart 1`: a replay on real servers sets no clocks of theirs, restarts nothing, flushes no scripts, and delays no replica but one that takes over
    "#]]
    .assert_eq(&format!("{wrong_clock}\n{restart}\n"));
}

/// One server has no replicas that could take over.
#[test]
fn a_failover_needs_servers_of_its_own() {
    let Some(server) = redis_server::borrow() else { return };
    let scenario = writers(1, Faults::none().failovers(1).behind(1)).always(ExclusiveFact::of("cs"));
    let scenario = scenario.finally("A has written twice", |client, _| async move {
        let written: Option<u32> = send(&mut client.connection(), &["GET", "A"]).await?;
        if written == Some(2) { Ok(()) } else { Err("it has not".into()) }
    });
    let report = exhaustive(&scenario).unwrap_err();
    let Problem::Violated { saved, .. } = &report.problem else { panic!("{report}") };
    let with_lease = |lease| scenario.clone().lease(lease);
    let client = redis::Client::open(server.url()).unwrap();
    let error = replay_on_redis(&mut Runner::new(), &client, saved, with_lease).unwrap_err();
    expect![[r#"
        the schedule has the step `failover 2 -A`, which needs servers with replicas that only the replay uses: name no URL, and it starts them (`harness::replay::RedisServers`)
    "#]]
    .assert_eq(&format!("{error}\n"));
    let Some(mut servers) = started(&scenario) else { return };
    let on_redis = replay_on_servers(&mut Runner::new(), &mut servers, saved, with_lease).unwrap();
    let Comparison::Same(Some(violation)) = on_redis.comparison else { panic!("{on_redis}") };
    assert_eq!(violation.what, "it has not");
}

#[test]
fn servers_are_named_with_their_ports() {
    let scenario = Scenario::new("two").servers(2).replicas(1).actors(1, |_| async { Ok(()) });
    let Some(servers) = started(&scenario) else { return };
    let text = servers.to_string();
    let words = text.split(' ').map(|word| word.trim_end_matches([';', ',']));
    let ports = words.filter(|word| word.len() > 1 && word.parse::<u16>().is_ok());
    let shown = ports.fold(text.clone(), |text, port| text.replace(port, "PORT"));
    assert!(
        shown.ends_with(
            ": server 1 on port PORT; server 2 on port PORT; server 3 on port PORT, a replica of server 1; \
             server 4 on port PORT, a replica of server 2"
        ),
        "{text}"
    );
    assert!(text.starts_with("redis-server "), "{text}");
}
