//! Server faults: clocks that jump, restarts, and the clients that notice them.

use std::time::Duration;

use expect_test::expect;
use harness::execution::Runner;
use harness::oracle::Success;
use harness::sim::Recording;
use harness::{Client, Faults, Scenario, Schedule, replay, sample};
use redis::RedisResult;

use crate::explorer::executions::check;
use crate::explorer::oracles::send;

/// A client that sets a key on each of two servers, and then reads both times to live.
fn on_two_servers() -> Scenario {
    Scenario::new("two servers").servers(2).actors(1, |client| async move {
        let mut links = [client.connection_to(0), client.connection_to(1)];
        for link in &mut links {
            () = redis::cmd("SET").arg(&["k", "v", "PX", "10000"]).query_async(link).await?;
        }
        for link in &mut links {
            () = redis::cmd("PTTL").arg("k").query_async(link).await?;
        }
        Ok(())
    })
}

#[test]
fn a_servers_clock_jumps_and_the_others_do_not() {
    check(
        &on_two_servers().faults(Faults::none().server_jump(Duration::from_secs(4))),
        "A\nA.2\njump 2 +4000ms\nA\nA.2",
        &expect![[r#"
            +0 A: SET k v PX 10000 → OK
            +0 A: SET k v PX 10000 → OK
            +0 jump 2 +4000ms
            +0 A: PTTL k → 10000
            +0 A: PTTL k → 6000
        "#]],
    );
}

#[test]
fn a_server_restarts_without_data_and_the_others_keep_theirs() {
    check(
        &on_two_servers().faults(Faults::none().restarts(1)),
        "A\nA.2\nrestart 1\nA\nA.2",
        &expect![[r#"
            +0 A: SET k v PX 10000 → OK
            +0 A: SET k v PX 10000 → OK
            +0 restart 1
            +0 A: PTTL k → -2
            +0 A: PTTL k → 10000
        "#]],
    );
}

#[test]
fn a_restart_ends_what_waits_at_the_server() {
    let waits = Scenario::new("waits").faults(Faults::none().restarts(1)).actors(1, |client| async move {
        let mut link = client.connection();
        let popped: RedisResult<Option<(String, String)>> = send(&mut link, &["BLPOP", "list", "0"]).await;
        assert!(popped.unwrap_err().is_connection_dropped());
        Ok(send(&mut link, &["ECHO", "there"]).await?)
    });
    let waits = waits.actors(1, |client| async move {
        let mut link = client.connection();
        send::<()>(&mut link, &["RPUSH", "list", "1"]).await?;
        Ok(send(&mut link, &["LPOP", "list"]).await?)
    });
    // Data that comes back after the restart does not go to a client that waited before it.
    check(
        &waits.clone().faults(Faults::none().reloads(1).unsynced(1)),
        "B\nB\nA\nreload 1 -1\nA",
        &expect![[r#"
            +0 B: RPUSH list 1 → 1
            +0 B: LPOP list → "1"
            +0 reload 1 -1
            +0 A: BLPOP list 0 → broken pipe
            +0 A: ECHO there → "there"
        "#]],
    );
    check(
        &waits,
        "A\nrestart 1\nA",
        &expect![[r#"
            +0 restart 1
            +0 A: BLPOP list 0 → broken pipe
            +0 A: ECHO there → "there"
        "#]],
    );
}

/// A client's own error is excused only if the client noticed the restart before.
#[test]
fn that_a_task_hears_of_a_restart_is_its_clients_move() {
    let waits = Scenario::new("waits").faults(Faults::none().reloads(1)).actors(1, |client| async move {
        let (mut link, mut other) = (client.connection(), client.connection());
        tokio::spawn(async move { send::<()>(&mut other, &["BLPOP", "list", "0"]).await });
        send::<()>(&mut link, &["SET", "text", "1"]).await?;
        Ok(send(&mut link, &["LPUSH", "text", "1"]).await?)
    });
    for (last, is_excused) in [("A\nreload 1", false), ("reload 1\nA", true)] {
        let schedule: Schedule = format!("A\nA.2\nA\n{last}").parse().unwrap();
        let history = replay(&mut Runner::new(), &waits, &schedule, Recording::Lean);
        assert_eq!(history.steps, schedule.steps);
        assert_eq!(history.failure().is_none(), is_excused, "{last}");
        assert!(history.footprints[3].conflicts_with(&history.footprints[4]), "{last}");
    }
}

/// The code before the actors wrote before any write that a server can lose.
#[test]
fn a_reload_loses_no_write_of_the_code_before_the_actors() {
    let set = |value: &'static str| {
        move |client: Client| async move { Ok(send(&mut client.connection(), &["SET", "k", value]).await?) }
    };
    let scenario = Scenario::new("written before").faults(Faults::none().reloads(1).unsynced(1));
    let scenario = scenario
        .before(set("before"))
        .actors(1, set("after"))
        .actors(1, |client| async move { Ok(send(&mut client.connection(), &["GET", "k"]).await?) });
    check(
        &scenario,
        "A\nreload 1 -1\nB",
        &expect![[r#"
            +0 A: SET k after → OK
            +0 reload 1 -1
            +0 B: GET k → "before"
        "#]],
    );
}

/// What was read since is no write that a server can lose.
#[test]
fn a_reload_loses_the_last_write_and_no_read() {
    let scenario = Scenario::new("read").faults(Faults::none().reloads(1).unsynced(1));
    let scenario = scenario.actors(1, |client| async move {
        let mut link = client.connection();
        send::<()>(&mut link, &["SET", "k", "v"]).await?;
        for _ in 0..2 {
            send::<()>(&mut link, &["EXISTS", "k"]).await?;
        }
        Ok(())
    });
    check(
        &scenario,
        "A\nA\nreload 1 -1\nA",
        &expect![[r#"
        +0 A: SET k v → OK
        +0 A: EXISTS k → 1
        +0 reload 1 -1
        +0 A: EXISTS k → 0
    "#]],
    );
}

/// What it held before is gone: nothing written since can be lost.
#[test]
fn a_reload_after_a_restart_brings_nothing_back() {
    let faults = Faults::none().restarts(1).reloads(2).unsynced(1);
    let scenario = Scenario::new("twice").faults(faults).actors(1, |client| async move {
        let mut link = client.connection();
        for value in ["1", "2"] {
            send::<()>(&mut link, &["SET", "k", value]).await?;
        }
        Ok(send(&mut link, &["GET", "k"]).await?)
    });
    check(
        &scenario,
        "A\nA\nrestart 1\nreload 1 -1\nA",
        &expect![[r#"
        +0 A: SET k 1 → OK
        +0 A: SET k 2 → OK
        +0 restart 1
        +0 reload 1
        +0 A: GET k → (nil)
    "#]],
    );
}

/// It restarts again when it has just come back.
#[test]
fn each_restart_of_a_server_has_its_outage() {
    let faults = Faults::none().restarts(2).outage(Duration::from_secs(1));
    let scenario = Scenario::new("restarts").faults(faults).actors(1, |client| async move {
        let mut link = client.connection();
        for _ in 0..2 {
            let pong: RedisResult<()> = send(&mut link, &["PING"]).await;
            assert!(pong.unwrap_err().is_connection_refusal());
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        Ok(send(&mut link, &["CLIENT", "ID"]).await?)
    });
    check(
        &scenario,
        "restart 1\nA\nwait\nrestart 1\nA\nwait\nA",
        &expect![[r#"
        +0 restart 1
        +0 A: PING → connection refused
        +2000 time
        +2000 restart 1
        +2000 A: PING → connection refused
        +4000 time
        +4000 A: CLIENT ID → 1
    "#]],
    );
}

/// The last server of the largest scenario is one like the others.
#[test]
fn a_hundred_servers() {
    let faults = Faults::none().reloads(1).unsynced(1);
    let scenario = Scenario::new("a hundred servers").servers(100).faults(faults).always(Success);
    let scenario = scenario
        .actors(2, |client| async move { Ok(send(&mut client.connection_to(99), &["INCR", "n"]).await?) });
    sample(&scenario, 100, 1).unwrap();
}
