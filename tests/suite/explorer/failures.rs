//! The reports of code under test that fails, panics, waits for ever or is not deterministic. Their
//! saved schedules show the failure again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use expect_test::{Expect, expect};
use harness::actor::Actor;
use harness::execution::Runner;
use harness::explore::Problem;
use harness::oracle::{Oracle, OwnerSafe, Success, Violation};
use harness::trace::History;
use harness::{Faults, SavedSchedule, Scenario, exhaustive, replay_saved, sample};

use crate::explorer::executions::echo;

#[test]
fn code_that_depends_on_anything_else_is_noticed() {
    let check = |commands: fn(u64) -> u64, expected: &Expect| {
        let calls = Arc::new(AtomicU64::new(0));
        let fickle = Scenario::new("fickle").always(OwnerSafe).actors(2, move |client| {
            let commands = commands(calls.fetch_add(1, Ordering::Relaxed));
            async move {
                let mut link = client.connection();
                for _ in 0..commands {
                    () = redis::cmd("INCR").arg("n").query_async(&mut link).await?;
                }
                Ok(())
            }
        });
        let report = exhaustive(&fickle).unwrap_err();
        let Problem::Nondeterminism { what, .. } = &report.problem else { panic!("{report}") };
        expected.assert_eq(what);
    };
    // The first case changes when the same execution runs again. The second changes in an execution
    // that shares its first steps with another.
    check(
        |call| 1 + call % 3,
        &expect![[r#"
        step        time  A
           1       +0 ms  ●  A: INCR n → 1
                          │      now n = "1"
           2       +0 ms  ●  A: INCR n → 2
                          │      now n = "2"

        Next, in the first execution:
        nothing more happened

        Next, in the second execution:
           3       +0 ms  ●  A: INCR n → 3
                          │      now n = "3"
    "#]],
    );
    check(
        |call| 1 + u64::from(call < 9),
        &expect![[r#"
            After these steps, the possible next steps were A and B. When they ran again: B.
        "#]],
    );
}

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
