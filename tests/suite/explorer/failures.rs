//! The reports of code under test that fails, panics or waits for ever. Their saved schedules show
//! the failure again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use expect_test::expect;
use harness::actor::Actor;
use harness::execution::Runner;
use harness::explore::Problem;
use harness::oracle::{ExclusiveFact, NoLeak, Oracle, Success, Violation};
use harness::trace::{History, Reached};
use harness::{Faults, Limits, Record, SavedSchedule, Scenario, exhaustive, replay_saved, sample};

use crate::explorer::executions::echo;

#[test]
fn an_error_of_an_actor_is_a_report() {
    let failing = Scenario::new("failing").actors(1, |client| async move {
        () = echo("hello").query_async(&mut client.connection()).await?;
        () = redis::cmd("NOSUCH").query_async(&mut client.connection()).await?;
        Ok(())
    });
    let report = exhaustive(&failing).unwrap_err();
    let Problem::Failed { actor: Actor(0), what, schedule, saved, .. } = &report.problem else {
        panic!("{report}")
    };
    assert!(what.starts_with("failed: ResponseError: unknown command"), "{what}");
    assert_eq!(schedule.to_string(), "A\nA\n");
    expect_replay(&failing, saved);
}

#[test]
fn a_panic_of_an_actor_is_a_report() {
    let panicking = Scenario::new("panicking").actors(1, |client| async move {
        let answer: String = echo("hello").query_async(&mut client.connection()).await?;
        assert_eq!(answer, "good bye", "nobody says");
        Ok(())
    });
    let report = exhaustive(&panicking).unwrap_err();
    let Problem::Failed { what, saved, .. } = &report.problem else { panic!("{report}") };
    let expected = "failed: its code panicked: assertion `left == right` failed: nobody says\n  left: \"hello\"\n right: \"good bye\"";
    assert_eq!(what, expected);
    expect_replay(&panicking, saved);
}

#[test]
fn a_server_that_does_not_exist_is_a_report() {
    let to_second = Scenario::new("to another server")
        .actors(1, |client| async move { Ok(echo("hello").exec_async(&mut client.connection_to(1)).await?) });
    let report = exhaustive(&to_second).unwrap_err().to_string();
    let expected = "its code panicked: there is no server 1: `Scenario::servers` says 1, counted from 0";
    assert!(report.contains(expected), "{report}");
}

/// Expects that the saved schedule still shows the failure for which it was saved.
#[track_caller]
fn expect_replay(scenario: &Scenario, saved: &SavedSchedule) {
    let replayed = replay_saved(&mut Runner::new(), scenario, &saved.to_string().parse().unwrap()).unwrap();
    assert!(replayed.is_as_stated() && replayed.divergences.is_empty(), "{replayed}");
}

#[test]
fn a_client_that_waits_for_ever_is_a_report() {
    let stuck = Scenario::new("stuck").actors(1, |client| async move {
        () = echo("hello").query_async(&mut client.connection()).await?;
        std::future::pending().await
    });
    let report = exhaustive(&stuck).unwrap_err();
    let Problem::Failed { what, saved, .. } = &report.problem else { panic!("{report}") };
    assert_eq!(what, "waits for something that never comes");
    expect_replay(&stuck, saved);
}

/// Stalls need executions beforehand that find the timers. The code before the actors fails in the
/// first of them.
#[test]
fn an_error_before_the_actors_is_a_report() {
    for faults in [Faults::none(), Faults::none().stalls(1)] {
        let scenario = Scenario::new("failing before")
            .faults(faults)
            .always(Success)
            .before(|client| async move {
                () = redis::cmd("NOSUCH").query_async(&mut client.connection()).await?;
                Ok(())
            })
            .actors(2, |client| async move {
                () = echo("hello").query_async(&mut client.connection()).await?;
                Ok(())
            });
        for report in [exhaustive(&scenario).unwrap_err(), sample(&scenario, 1, 0).unwrap_err()] {
            let Problem::Failed { actor, what, .. } = &report.problem else { panic!("{report}") };
            assert_eq!(actor.to_string(), "before");
            assert!(what.starts_with("failed: ResponseError: unknown command"), "{what}");
        }
    }
}

/// The client does not await the tasks that it spawns.
#[test]
fn a_panic_of_a_spawned_task_is_a_report() {
    let at_once = Scenario::new("a task panics").always(Success).actors(1, |client| async move {
        tokio::spawn(async { panic!("at once") });
        () = echo("hello").query_async(&mut client.connection()).await?;
        Ok(())
    });
    let after_a_timer = Scenario::new("a task panics").always(Success).actors(2, |client| async move {
        tokio::spawn(async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            panic!("after a timer")
        });
        tokio::time::sleep(Duration::from_secs(2)).await;
        () = echo("hello").query_async(&mut client.connection()).await?;
        Ok(())
    });
    for (scenario, text) in [(at_once, "at once"), (after_a_timer, "after a timer")] {
        let report = exhaustive(&scenario).unwrap_err();
        let Problem::Failed { what, saved, .. } = &report.problem else { panic!("{report}") };
        assert_eq!(*what, format!("failed: a task that it spawned panicked: {text}"));
        expect_replay(&scenario, saved);
    }
}

/// The code connects by itself, in place of taking its connection from outside.
#[test]
fn a_real_connection_is_a_report() {
    let connecting = Scenario::new("connecting").always(Success).actors(1, |_| async move {
        let client = redis::Client::open("redis://127.0.0.1:1/")?;
        Ok(redis::cmd("PING").exec_async(&mut client.get_multiplexed_async_connection().await?).await?)
    });
    let report = exhaustive(&connecting).unwrap_err();
    let Problem::Failed { what, .. } = &report.problem else { panic!("{report}") };
    expect!["failed: its code panicked: the code opens a connection by itself, and an exploration has no network: let it take its connection from outside, and pass it `client.connection()` or `client.multiplexed().await?`"].assert_eq(what);
}

/// A panic that the code of an actor catches is part of the code.
#[test]
fn a_panic_that_is_caught_is_no_failure() {
    let catching = Scenario::new("catching").always(Success).actors(1, |client| async move {
        std::panic::catch_unwind(|| panic!("caught")).unwrap_err();
        () = echo("hello").query_async(&mut client.connection()).await?;
        Ok(())
    });
    exhaustive(&catching).unwrap();
}

#[test]
fn a_scenario_without_an_oracle_does_not_pass() {
    let unjudged = Scenario::new("unjudged").actors(1, |client| async move {
        () = echo("hello").query_async(&mut client.connection()).await?;
        Ok(())
    });
    for report in [exhaustive(&unjudged).unwrap_err(), sample(&unjudged, 1, 0).unwrap_err()] {
        assert!(matches!(report.problem, Problem::Vacuous(_)), "{report}");
        assert!(report.to_string().contains("no oracle judged anything"), "{report}");
    }
}

/// An oracle that objects only once. Such a violation cannot be shown, but it must not be a pass.
#[test]
fn a_violation_that_does_not_happen_again_is_a_report() {
    #[derive(Debug, Default)]
    struct Once(AtomicBool);
    impl Oracle for Once {
        fn name(&self) -> &'static str {
            "once"
        }

        fn judges(&self, _: &History) -> bool {
            true
        }

        fn check(&self, _: &History) -> Option<Violation> {
            let is_first = !self.0.swap(true, Ordering::Relaxed);
            is_first.then(|| Violation { step: 1, what: "only now".into() })
        }
    }
    let scenario = || {
        Scenario::new("objecting once").always(Once::default()).actors(1, |client| async move {
            () = echo("hello").query_async(&mut client.connection()).await?;
            Ok(())
        })
    };
    for report in [exhaustive(&scenario()).unwrap_err(), sample(&scenario(), 1, 0).unwrap_err()] {
        assert!(report.to_string().contains("It violated once. When it ran again, it did not."), "{report}");
    }
}

/// Expects that the actor is reported as one that does not come to its end. Returns the whole
/// report.
#[track_caller]
fn expect_endless(scenario: &Scenario) -> String {
    let report = exhaustive(scenario).unwrap_err();
    let Problem::Endless { actor: Actor(0), .. } = &report.problem else { panic!("{report}") };
    report.to_string()
}

#[test]
fn code_that_polls_a_key_that_nobody_writes_is_a_report() {
    let polling = |faults| {
        Scenario::new("polling").always(Success).faults(faults).actors(1, |client| async move {
            let mut link = client.connection();
            while redis::cmd("GET").arg("k").query_async::<Option<i64>>(&mut link).await?.is_none() {}
            Ok(())
        })
    };
    expect![[r#"
        polling: actor A does not come to its end: the execution has 5000 steps (found after 1 schedule)

        It repeats:
          GET k → (nil)

        If the code needs more, raise the limit by `Scenario::limits`."#]]
    .assert_eq(&expect_endless(&polling(Faults::none())));
    expect_endless(&polling(Faults::none().stalls(1)));
    expect_endless(&polling(Faults::none().crashes(1)));
}

/// The two commands change something each time, so the client does not wait for a change.
#[test]
fn code_that_writes_for_ever_is_a_report() {
    let limits = Limits { steps: 100, ..Limits::default() };
    let writing = Scenario::new("writing").always(Success).limits(limits).actors(2, |client| async move {
        let mut link = client.connection();
        loop {
            () = redis::cmd("INCR").arg("n").query_async(&mut link).await?;
            () = redis::cmd("SET").arg("k").arg(client.name()).query_async(&mut link).await?;
        }
    });
    expect![[r#"
        writing: actor A does not come to its end: the execution has 100 steps (found after 2 schedules)

        It repeats:
          INCR n → 50
          SET k A → OK

        If the code needs more, raise the limit by `Scenario::limits`."#]]
    .assert_eq(&expect_endless(&writing));
}

#[test]
fn code_that_yields_for_ever_is_a_report() {
    let yielding = Scenario::new("yielding").always(Success).actors(2, |client| async move {
        () = echo("hello").query_async(&mut client.connection()).await?;
        loop {
            tokio::task::yield_now().await;
        }
    });
    let report = expect_endless(&yielding);
    assert!(report.contains("in one step, it was polled 100000 times"), "{report}");
}

/// Each of the three steps has its own limit. In the first one, the client also starts.
#[test]
fn polls_are_counted_in_each_step() {
    let yields = |times| {
        let limits = Limits { polls: 100, ..Limits::default() };
        Scenario::new("yields").limits(limits).always(Success).actors(1, move |client| async move {
            let mut link = client.connection();
            for _ in 0..3 {
                () = echo("hello").query_async(&mut link).await?;
                for _ in 0..times {
                    tokio::task::yield_now().await;
                }
            }
            Ok(())
        })
    };
    exhaustive(&yields(98)).unwrap();
    exhaustive(&yields(99)).unwrap_err();
}

/// A client may give up when its lease has ended, and not before.
#[test]
fn a_client_may_give_up_at_the_end_of_its_lease() {
    let holds_for = |ms| {
        let lease = Duration::from_millis(10);
        let scenario = Scenario::new("holds").always(ExclusiveFact::of("cs")).lease(lease);
        let scenario = scenario.actors(1, move |client| async move {
            () = echo("taken").query_async(&mut client.connection()).await?;
            client.hold("cs").during(tokio::time::sleep(Duration::from_millis(ms))).await;
            Err("the work took too long".into())
        });
        exhaustive(&scenario).map_err(|report| report.to_string())
    };
    holds_for(10).unwrap();
    let report = holds_for(9).unwrap_err();
    assert!(report.contains("A failed: the work took too long"), "{report}");
}

/// So it may when another client has ended its grant.
#[test]
fn a_client_may_give_up_if_its_grant_was_ended() {
    let scenario = Scenario::new("ended").always(ExclusiveFact::of("cs"));
    let scenario = scenario.actors(1, |client| async move {
        let mut link = client.connection();
        () = redis::cmd("SET").arg("lock").arg(1).query_async(&mut link).await?;
        let _guard = client.hold("cs").record(Record::Key("lock".into())).enter();
        match redis::cmd("EXISTS").arg("lock").query_async(&mut link).await? {
            1 => Ok(()),
            _ => Err("the lock is gone".into()),
        }
    });
    let scenario = scenario.actors(1, |client| async move {
        Ok(redis::cmd("DEL").arg("lock").query_async::<()>(&mut client.connection()).await?)
    });
    exhaustive(&scenario).unwrap();
}

#[test]
fn a_task_that_yields_for_ever_is_a_report() {
    let limits = Limits { wall_time: Duration::from_millis(300), ..Limits::default() };
    let yielding = Scenario::new("yielding").always(Success).limits(limits).actors(1, |client| async move {
        tokio::spawn(async {
            loop {
                tokio::task::yield_now().await;
            }
        });
        () = echo("hello").query_async(&mut client.connection()).await?;
        Ok(())
    });
    let report = expect_endless(&yielding);
    assert!(report.contains("the execution took 0.3 seconds of real time"), "{report}");
}

/// Nothing can stop a loop without an `await`, so the process of the test exits. That process is
/// this test again, in a process of its own.
#[test]
fn a_loop_without_an_await_ends_the_process() {
    const IS_CHILD: &str = "LOCKSTEP_LOOP_WITHOUT_AN_AWAIT";
    if std::env::var_os(IS_CHILD).is_some() {
        let limits = Limits { wall_time: Duration::from_millis(100), ..Limits::default() };
        let looping =
            Scenario::new("looping").always(Success).limits(limits).actors(1, |client| async move {
                () = echo("hello").query_async(&mut client.connection()).await?;
                loop {
                    std::hint::spin_loop();
                }
            });
        exhaustive(&looping).unwrap();
    }
    let name = "explorer::failures::a_loop_without_an_await_ends_the_process";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", name, "--nocapture"]).env(IS_CHILD, "1").output().unwrap();
    assert_eq!(output.status.code(), Some(101), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("looping: actor A does not come to its end: its code has run for"), "{said}");
}

/// A lock that is tried again and again without a pause. A client waits like that until the holder
/// releases the lock, or until its time to live ends.
fn spin_lock(clients: usize, lease: &'static [&'static str]) -> Scenario {
    Scenario::new("spin lock")
        .interchangeable()
        .always(ExclusiveFact::of("section"))
        .always(NoLeak)
        .must_reach(Reached { contention: true, ..Reached::default() })
        .actors(clients, move |client| async move {
            let mut link = client.connection();
            loop {
                // Each try has a token of its own.
                let mut take = redis::cmd("SET");
                take.arg("lock").arg(client.env().unique()).arg("NX").arg(lease);
                if take.query_async(&mut link).await? {
                    break;
                }
            }
            let mut release = redis::cmd("DEL");
            release.arg("lock");
            client.hold("section").until(release.query_async::<()>(&mut link)).await?;
            Ok(())
        })
        .probe(1, |client| async move {
            Ok(!redis::cmd("EXISTS").arg("lock").query_async::<bool>(&mut client.connection()).await?)
        })
}

#[test]
fn a_spin_lock_is_explored_as_one_that_waits() {
    let two = exhaustive(&spin_lock(2, &[])).unwrap();
    let three = exhaustive(&spin_lock(3, &[])).unwrap();
    expect!["5 schedules with up to two clients, 70 with up to three"].assert_eq(&format!(
        "{} schedules with up to two clients, {} with up to three",
        two.schedules, three.schedules
    ));
    // If a holder crashes, others wait until the time to live ends.
    exhaustive(&spin_lock(2, &["PX", "10000"]).faults(Faults::none().crashes(1))).unwrap();
    // Without a time to live they wait for ever.
    let report = exhaustive(&spin_lock(2, &[]).faults(Faults::none().crashes(1))).unwrap_err();
    assert!(matches!(report.problem, Problem::Endless { .. }), "{report}");
}

/// A client that gives up after some tries is no client that waits for a change. All of its tries
/// are explored.
#[test]
fn all_tries_of_a_client_that_gives_up_are_explored() {
    let trying = |tries: usize| {
        Scenario::new("trying")
            .always(Success)
            .actors(1, |client| async move {
                () = redis::cmd("SET").arg("lock").arg("1").query_async(&mut client.connection()).await?;
                Ok(())
            })
            .actors(1, move |client| async move {
                let mut link = client.connection();
                for _ in 0..tries {
                    if redis::cmd("EXISTS").arg("lock").query_async(&mut link).await? {
                        return Ok(());
                    }
                }
                () = redis::cmd("SET").arg("gave up").arg("1").query_async(&mut link).await?;
                Ok(())
            })
    };
    for tries in 1..=6 {
        assert_eq!(exhaustive(&trying(tries)).unwrap().schedules, tries as u64 + 1);
    }
}

#[test]
fn a_probe_that_repeats_commands_for_ever_reaches_the_limit_of_time() {
    let limits = Limits { wall_time: Duration::from_millis(300), ..Limits::default() };
    let scenario = Scenario::new("probe").limits(limits).always(harness::oracle::NoLeak);
    let scenario = scenario.actors(1, |client| async move {
        Ok(redis::cmd("PING").exec_async(&mut client.connection()).await?)
    });
    let probed = scenario.probe(1, |client| async move {
        loop {
            redis::cmd("PING").exec_async(&mut client.connection()).await?;
        }
    });
    let report = exhaustive(&probed).unwrap_err();
    assert!(matches!(report.problem, Problem::Endless { .. }), "{report}");
}
