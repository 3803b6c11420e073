//! The reports of code under test that fails, panics, waits for ever or is not deterministic. Their
//! saved schedules show the failure again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use expect_test::{Expect, expect};
use harness::actor::Actor;
use harness::execution::Runner;
use harness::explore::Problem;
use harness::oracle::OwnerSafe;
use harness::{SavedSchedule, Scenario, exhaustive, replay_saved};

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
