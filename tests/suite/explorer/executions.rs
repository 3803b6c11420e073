//! How an execution treats the code under test: timers are steps, clients may spawn tasks, and a
//! dropped request was never sent. Only the schedule decides what happens.

use std::time::Duration;

use expect_test::{Expect, expect};
use harness::execution::{Choice, Policy, Runner};
use harness::explore::explore_all;
use harness::oracle::{ExclusiveFact, Success};
use harness::schedule::{SPAN_MAX, Step};
use harness::sim::Recording;
use harness::trace::{EventKind, History};
use harness::{Faults, Scenario, Schedule, exhaustive, replay};
use redis::aio::ConnectionLike as _;

use super::oracles::{SOUND, send};

/// Replays a schedule and compares what the clients did, one line each.
#[track_caller]
pub fn check(scenario: &Scenario, schedule: &str, expected: &Expect) {
    let schedule: Schedule = schedule.parse().unwrap();
    let history = replay(&mut Runner::new(), scenario, &schedule, Recording::Full);
    let lines = history.events.iter().filter_map(|event| {
        let at = event.at.as_millis();
        match &event.kind {
            EventKind::Command { actor, text, reply, .. } => {
                Some(format!("+{at} {actor}: {text} → {reply}\n"))
            }
            EventKind::Advanced { .. } => Some(format!("+{at} time\n")),
            EventKind::Fault { fault, request: None } => Some(format!("+{at} {fault}\n")),
            EventKind::Fault { fault, request: Some(request) } => {
                Some(format!("+{at} {fault}: {}\n", request.text))
            }
            EventKind::GaveUp { actor, error } => Some(format!("+{at} {actor} gives up: {error}\n")),
            EventKind::Stuck { actor } => Some(format!("+{at} {actor} is stuck\n")),
            EventKind::Failed { actor, error } => Some(format!("+{at} {actor} failed: {error}\n")),
            _ => None,
        }
    });
    expected.assert_eq(&lines.collect::<String>());
}

pub(super) fn echo(word: &'static str) -> redis::Cmd {
    redis::cmd("ECHO").arg(word).to_owned()
}

/// Two clients that sleep for a minute between two commands.
fn sleepy() -> Scenario {
    Scenario::new("sleepy").actors(2, |client| async move {
        let mut link = client.connection();
        () = echo("before").query_async(&mut link).await?;
        tokio::time::sleep(Duration::from_secs(60)).await;
        () = echo("after").query_async(&mut link).await?;
        Ok(())
    })
}

#[test]
fn time_passes_by_itself_only_when_everybody_sleeps() {
    let sleepy = sleepy();
    check(
        &sleepy,
        "A\nB\nB\nA",
        &expect![[r#"
        +0 A: ECHO before → "before"
        +0 B: ECHO before → "before"
        +60000 time
        +60000 B: ECHO after → "after"
        +60000 A: ECHO after → "after"
    "#]],
    );
    check(
        &sleepy,
        "A\nA\nB",
        &expect![[r#"
        +0 A: ECHO before → "before"
        +0 B: ECHO before → "before"
        +60000 time
        +60000 A: ECHO after → "after"
        +60000 B: ECHO after → "after"
    "#]],
    );
}

#[test]
fn timers_fire_while_a_step_of_the_clock_lasts() {
    let timeout = Scenario::new("timeout").faults(Faults::none().stalls(1)).actors(1, |client| async move {
        let mut link = client.connection();
        () = redis::cmd("SET").arg(&["k", "v", "PX", "10000"]).query_async(&mut link).await?;
        // The client drops this request while it waits at the gate, so the server never gets it.
        let slow =
            tokio::time::timeout(Duration::from_millis(500), echo("slow").query_async::<()>(&mut link)).await;
        () = echo(if slow.is_err() { "gave up" } else { "in time" }).query_async(&mut link).await?;
        Ok(())
    });
    check(
        &timeout,
        "A\nA\nA",
        &expect![[r#"
        +0 A: SET k v PX 10000 → OK
        +0 A: ECHO slow → "slow"
        +0 A: ECHO in time → "in time"
    "#]],
    );
    check(
        &timeout,
        "A\ntime +10001ms\nA\nA",
        &expect![[r#"
        +0 A: SET k v PX 10000 → OK
        +10001 time
        +10001 A: ECHO gave up → "gave up"
    "#]],
    );
    check(
        &timeout,
        "A\nwait\nA",
        &expect![[r#"
        +0 A: SET k v PX 10000 → OK
        +500 time
        +500 A: ECHO gave up → "gave up"
    "#]],
    );
}

#[test]
fn actors_may_spawn_and_use_several_connections() {
    let spawning = Scenario::new("spawning").actors(1, |client| async move {
        let (mut first, mut second) = (client.connection(), client.connection());
        let other = tokio::spawn(async move { echo("second").query_async::<()>(&mut second).await });
        () = echo("first").query_async(&mut first).await?;
        other.await??;
        Ok(())
    });
    // Both requests arrive at the gate when the actor starts. The schedule decides which goes
    // first.
    check(
        &spawning,
        "A\nA.2\nA",
        &expect![[r#"
            +0 A: ECHO second → "second"
            +0 A: ECHO first → "first"
        "#]],
    );
    assert_eq!(explore_all(&mut Runner::new(), &spawning).unwrap().schedules, 2);
    // Texts tell the tasks of a client apart.
    let history = replay(&mut Runner::new(), &spawning, &"A\nA.2\nA".parse().unwrap(), Recording::Full);
    let tasks = history.events.iter().filter_map(|event| match &event.kind {
        EventKind::Command { sent, .. } => Some(sent.task),
        _ => None,
    });
    assert_eq!(tasks.collect::<Vec<_>>(), [1, 0]);
}

#[test]
fn a_sleeper_may_wake_before_another_starts() {
    let sleepy = sleepy();
    check(
        &sleepy,
        "A\nwait\nA\nB",
        &expect![[r#"
            +0 A: ECHO before → "before"
            +60000 time
            +60000 A: ECHO after → "after"
            +60000 B: ECHO before → "before"
            +120000 time
            +120000 B: ECHO after → "after"
        "#]],
    );
}

#[test]
fn an_instant_comes_in_two_steps_at_it_and_past_it() {
    let looking = Scenario::new("looking").faults(Faults::none().stalls(2)).actors(1, |client| async move {
        let mut link = client.connection();
        () = redis::cmd("SET").arg(&["k", "v", "PX", "10000"]).query_async(&mut link).await?;
        for _ in 0..2 {
            () = redis::cmd("EXISTS").arg("k").query_async(&mut link).await?;
        }
        Ok(())
    });
    check(
        &looking,
        "A\ntime +10000ms\nA\ntime +1ms\nA",
        &expect![[r#"
            +0 A: SET k v PX 10000 → OK
            +10000 time
            +10000 A: EXISTS k → 1
            +10001 time
            +10001 A: EXISTS k → 0
        "#]],
    );
}

/// A process stands still until an instant that matters, whatever the time is.
#[test]
fn a_pause_counts_from_now() {
    let timed = Scenario::new("timed").faults(Faults::none().stalls(2)).actors(1, |client| async move {
        let mut link = client.connection();
        () = redis::cmd("SET").arg(&["k", "v", "PX", "10000"]).query_async(&mut link).await?;
        let exists = redis::cmd("EXISTS").arg("k").to_owned();
        _ = tokio::time::timeout(Duration::from_secs(60), exists.exec_async(&mut link)).await;
        Ok(())
    });
    check(
        &timed,
        "A\ntime +10000ms\npause A +1ms\nA",
        &expect![[r#"
        +0 A: SET k v PX 10000 → OK
        +10000 time
        +10001 time
        +10001 pause A +1ms
        +10001 A: EXISTS k → 0
    "#]],
    );
}

#[test]
fn the_state_after_before_is_there_in_every_execution() {
    let prepared = Scenario::new("prepared")
        .before(|client| async move {
            () = redis::cmd("SET").arg(&["n", "41"]).query_async(&mut client.connection()).await?;
            Ok(())
        })
        .actors(1, |client| async move {
            let mut link = client.connection();
            let n: i64 = redis::cmd("INCR").arg("n").query_async(&mut link).await?;
            let id: i64 = redis::cmd("CLIENT").arg("ID").query_async(&mut link).await?;
            assert_eq!((n, id), (42, 1));
            Ok(())
        });
    let mut runner = Runner::new();
    for _ in 0..3 {
        assert_eq!(explore_all(&mut runner, &prepared).unwrap().schedules, 1);
    }
}

#[test]
fn nothing_that_a_crashed_client_does_arrives() {
    let crashing =
        Scenario::new("crashing").faults(Faults::none().crashes(1)).actors(2, |client| async move {
            let mut link = client.connection();
            for _ in 0..2 {
                () = redis::cmd("INCR").arg("n").query_async(&mut link).await?;
            }
            Ok(())
        });
    check(
        &crashing,
        "A\ncrash A\nB\nB",
        &expect![[r#"
            +0 A: INCR n → 1
            +0 crash A
            +0 B: INCR n → 2
            +0 B: INCR n → 3
        "#]],
    );
}

#[test]
fn each_command_of_a_pipeline_is_a_step_and_a_transaction_is_one() {
    let piping = Scenario::new("piping").actors(2, |client| async move {
        let mut pipeline = redis::pipe();
        pipeline.cmd("INCR").arg("n").cmd("INCR").arg("n");
        if client.name() == "B" {
            pipeline.atomic();
        }
        let _: (i64, i64) = pipeline.query_async(&mut client.connection()).await?;
        Ok(())
    });
    check(
        &piping,
        "A\nB\nA",
        &expect![[r#"
        +0 A: INCR n → 1
        +0 B: MULTI; INCR n; INCR n; EXEC → [[2, 3]]
        +0 A: INCR n → 4
    "#]],
    );
}

#[test]
fn a_client_that_waits_for_ever_is_stuck() {
    let stuck = Scenario::new("stuck").actors(1, |client| async move {
        () = echo("hello").query_async(&mut client.connection()).await?;
        std::future::pending().await
    });
    check(
        &stuck,
        "A",
        &expect![[r#"
            +0 A: ECHO hello → "hello"
            +86400000 time
            +172800000 time
            +172800000 A is stuck
        "#]],
    );
}

/// Every command depends on every other, so each order is a trace.
#[test]
fn every_order_is_run_once() {
    let incr = |actors: usize, commands: usize| {
        let scenario = Scenario::new("counting").actors(actors, move |client| async move {
            let mut link = client.connection();
            for _ in 0..commands {
                () = redis::cmd("INCR").arg("n").query_async(&mut link).await?;
            }
            Ok(())
        });
        // The explorer first runs one actor alone, then two, and so on.
        explore_all(&mut Runner::new(), &scenario).unwrap().schedules
    };
    assert_eq!(incr(1, 3), 1);
    assert_eq!(incr(2, 3), 1 + 20);
    assert_eq!(incr(3, 2), 1 + 6 + 90);
}

/// A key still exists at the very end of its time to live.
#[test]
fn a_client_that_spins_at_the_end_of_a_lease_gets_the_lock() {
    const LEASE: Duration = Duration::from_secs(10);
    let scenario = Scenario::new("the last millisecond").always(ExclusiveFact::of("cs"));
    let scenario = scenario.before(|client| async move {
        Ok(send::<()>(&mut client.connection(), &["SET", "lock", "x", "PX", "10000"]).await?)
    });
    let spins = scenario.actors(1, |client| async move {
        let mut link = client.connection();
        tokio::time::sleep(LEASE).await;
        if send::<i64>(&mut link, &["PTTL", "lock"]).await? == 0 {
            while !send(&mut link, SOUND.take).await? {}
            if client.true_time() == LEASE + Duration::from_millis(1) {
                drop(client.hold("cs").enter());
            }
        }
        Ok(())
    });
    exhaustive(&spins.actors(1, |_| async { Ok(()) })).unwrap();
}

/// A connection may select another database than the first.
#[test]
fn changed_keys_are_those_of_their_database() {
    let scenario = Scenario::new("databases").actors(1, |client| async move {
        let mut link = client.connection();
        send::<()>(&mut link, &["SET", "k", "zero"]).await?;
        send::<()>(&mut link, &["SELECT", "1"]).await?;
        send::<()>(&mut link, &["SET", "k", "one", "PX", "10000"]).await?;
        Ok(send(&mut link, &["DEL", "k"]).await?)
    });
    let schedule: Schedule = "A\nA\nA\nA".parse().unwrap();
    let history = replay(&mut Runner::new(), &scenario, &schedule, Recording::Full);
    let changes = history.events.iter().filter_map(|event| match &event.kind {
        EventKind::Command { changed, .. } => Some(changed),
        _ => None,
    });
    expect![[r#"
        k = "zero"
        k (database 1) = "one" (10000 ms left)
        k (database 1) is gone
    "#]]
    .assert_eq(&changes.flatten().map(|change| format!("{change}\n")).collect::<String>());
}

/// Timelines name servers and scripts by what a full history has.
#[test]
fn a_full_history_has_the_names_of_servers_and_scripts() {
    const SCRIPT: &str = "-- count\nreturn redis.call('INCR', 'n')";
    let named = Scenario::new("named").servers_named(["locks", "storage"]).actors(1, |client| async move {
        let mut storage = client.connection_to(1);
        Ok(redis::cmd("EVAL").arg(SCRIPT).arg(0).exec_async(&mut storage).await?)
    });
    let names = |recording| {
        let history = replay(&mut Runner::new(), &named, &"A".parse().unwrap(), recording);
        (history.server_names, history.scripts.into_values().collect::<Vec<String>>())
    };
    assert_eq!(names(Recording::Full), (vec!["locks", "storage"], vec!["count".to_owned()]));
    assert_eq!(names(Recording::Lean), (vec![], vec![]));
}

/// Code can ask its connection which database it has selected.
#[test]
fn a_connection_knows_its_database() {
    let scenario = Scenario::new("selects").always(Success).actors(1, |client| async move {
        let mut link = client.connection();
        assert_eq!(link.get_db(), 0);
        send::<()>(&mut link, &["SELECT", "3"]).await?;
        assert!(send::<()>(&mut link, &["SELECT", "99"]).await.is_err());
        send::<()>(&mut link, &["SET", "5", "5"]).await?;
        assert_eq!(link.get_db(), 3);
        Ok(())
    });
    exhaustive(&scenario).unwrap();
}

/// Code that reads `client.now()` sees the skew of its clock, as code with `client.env()` does.
#[test]
fn the_time_of_a_client_is_that_of_its_own_clock() {
    const START: Duration = Duration::from_millis(1_700_000_000_500);
    let reading = Scenario::new("reading").always(Success).actors(1, |client| async move {
        () = send(&mut client.connection(), &["PING"]).await?;
        assert_eq!(client.now().as_millis() as i64, client.env().now_ms());
        if client.now() == START + client.true_time() { Ok(()) } else { Err("its clock is wrong".into()) }
    });
    exhaustive(&reading.clone().faults(Faults::none().stalls(1))).unwrap();
    for faults in [Faults::none().skew(Duration::from_secs(1)), Faults::none().jump(Duration::from_secs(1))] {
        let report = exhaustive(&reading.clone().faults(faults)).unwrap_err().to_string();
        assert!(report.contains("its clock is wrong"), "{report}");
    }
}

/// To be slow once is one stall, however often another client sleeps meanwhile.
#[test]
fn a_rival_sleeps_twice_while_one_request_is_slow() {
    let scenario = Scenario::new("slow once").faults(Faults::none().stalls(1)).always(Success);
    let scenario = scenario
        .actors(1, |client| async move {
            let mut link = client.connection();
            redis::cmd("SET").arg("begun").arg(1).exec_async(&mut link).await?;
            Ok(redis::cmd("SET").arg("done").arg(1).exec_async(&mut link).await?)
        })
        .actors(1, |client| async move {
            let mut link = client.connection();
            for _ in 0..2 {
                if redis::cmd("EXISTS").arg("begun").query_async::<i32>(&mut link).await? == 0 {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_secs(60)).await;
            }
            match redis::cmd("EXISTS").arg("done").query_async(&mut link).await? {
                0 => Err("not done after two minutes".into()),
                _ => Ok(()),
            }
        });
    let report = exhaustive(&scenario).unwrap_err().to_string();
    assert!(report.contains("60000 ms pass: a client is slow"), "{report}");
    assert!(report.contains("B failed: not done after two minutes"), "{report}");
    exhaustive(&scenario.faults(Faults::none())).unwrap();
}

/// A key's time to live may end later than one step of time reaches, and later than a schedule can
/// express.
#[test]
fn whatever_can_happen_can_be_said() {
    let set = |ttl_ms: u64| {
        Scenario::new("sender").lease(SPAN_MAX).faults(Faults::none().stalls(2)).actors(
            1,
            move |client| async move {
                let mut set = redis::cmd("SET");
                set.arg("key").arg("1").arg("PX").arg(ttl_ms);
                let mut link = client.connection();
                () = set.query_async(&mut link).await?;
                Ok(redis::cmd("GET").arg("key").query_async::<()>(&mut link).await?)
            },
        )
    };
    for ttl_ms in [10_000, SPAN_MAX.as_millis() as u64, 4_000_000_000_000_000_000] {
        Runner::new().run(&set(ttl_ms), &mut Sayable, Recording::Lean);
    }
}

/// Checks that every enabled step can be written in a schedule. It takes the last step, which is a
/// step of time if one is enabled.
struct Sayable;

impl Policy for Sayable {
    fn choose(&mut self, enabled: &[Step], _: &History) -> Choice {
        for &step in enabled {
            let schedule = Schedule { steps: vec![step] };
            assert_eq!(schedule.to_string().parse(), Ok(schedule));
        }
        Choice::Take(enabled.len() - 1)
    }
}
