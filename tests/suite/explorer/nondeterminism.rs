//! The reports of code under test that depends on more than it is told.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use expect_test::{Expect, expect};
use harness::actor::Actor;
use harness::execution::{Learning, Runner};
use harness::explore::{Dpor, Problem, explore_all};
use harness::oracle::{OwnerSafe, Success};
use harness::{Faults, Scenario, exhaustive};
use locks::Subscribe as _;

use crate::bounds::LEARNINGS;

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
            step        time  A  ● acts · not begun │ runs
               1       +0 ms  ●  A: INCR n → 1
                              │      now n = "1"

            Next, in the first execution:
               2       +0 ms  ●  A: INCR n → 2
                              │      now n = "2"

            Next, in the second execution:
            nothing more happened
        "#]],
    );
    check(
        |call| 1 + u64::from(call < 14),
        &expect![[r#"
            After these steps, the possible next steps were B and A. When they ran again: A.
        "#]],
    );
}

/// The second execution shares its first step with the first one, where it reaches the limit.
#[test]
fn code_that_yields_for_ever_only_later_ends_an_execution_early() {
    let is_later = Arc::new(AtomicBool::new(false));
    let seen = is_later.clone();
    let scenario = Scenario::new("later").actors(3, move |client| {
        let seen = seen.clone();
        async move {
            redis::cmd("INCR").arg("n").exec_async(&mut client.connection()).await?;
            while client.name() == "A" && seen.load(Ordering::Relaxed) {
                tokio::task::yield_now().await;
            }
            Ok(())
        }
    });
    let (mut runner, mut dpor) = (Runner::new().learning(Learning::Off), Dpor::default());
    let first = dpor.run_next(&mut runner, &scenario).unwrap();
    assert_eq!((first.is_endless(), first.steps.len()), (false, 3));
    is_later.store(true, Ordering::Relaxed);
    let second = dpor.run_next(&mut runner, &scenario).unwrap();
    assert_eq!((second.is_endless(), second.steps.len()), (true, 1));
    assert_eq!(dpor.nondeterminism(), None);
}

/// A name by chance is a key, so that equal steps touch different keys.
#[test]
fn a_report_of_chance_says_where_names_come_from() {
    let chance = || RandomState::new().build_hasher().finish();
    let drawing = Scenario::new("drawing").always(Success).actors(2, move |client| async move {
        Ok(redis::cmd("INCR").arg(chance()).exec_async(&mut client.connection()).await?)
    });
    let report = exhaustive(&drawing).unwrap_err();
    let Problem::Nondeterminism { .. } = &report.problem else { panic!("{report}") };
    assert!(report.to_string().contains("take names from `client.env().unique()`"), "{report}");
}

/// From some run on, the code ends earlier. The exploration may then expect a step after its end.
#[test]
fn code_that_becomes_shorter_is_noticed() {
    let mut noticed = 0;
    for first in 1..40 {
        let calls = Arc::new(AtomicU64::new(0));
        let shorter = Scenario::new("shorter").always(Success).actors(2, move |client| {
            let commands = 2 - u64::from(calls.fetch_add(1, Ordering::Relaxed) >= first);
            async move {
                let mut link = client.connection();
                for _ in 0..commands {
                    () = redis::cmd("INCR").arg("n").query_async(&mut link).await?;
                }
                Ok(())
            }
        });
        if let Err(report) = exhaustive(&shorter) {
            assert!(matches!(report.problem, Problem::Nondeterminism { .. }), "{first}: {report}");
            noticed += 1;
        }
    }
    assert!(noticed > 10, "{noticed}");
}

/// The second execution ends before a choice of the first one, whose client could crash there.
#[test]
fn an_execution_that_ends_before_a_known_choice_is_noticed() {
    let is_short = Arc::new(AtomicBool::new(false));
    let short = is_short.clone();
    let crashes = Faults::none().crashes(1);
    let shorter = Scenario::new("shorter").faults(crashes).actors(1, move |client| {
        let commands = if short.load(Ordering::Relaxed) { 1 } else { 2 };
        async move {
            let mut link = client.connection();
            for _ in 0..commands {
                () = redis::cmd("INCR").arg("n").query_async(&mut link).await?;
            }
            Ok(())
        }
    });
    let (mut runner, mut dpor) = (Runner::new().learning(Learning::Off), Dpor::default());
    dpor.run_next(&mut runner, &shorter).unwrap();
    assert_eq!(dpor.nondeterminism(), None);
    is_short.store(true, Ordering::Relaxed);
    dpor.run_next(&mut runner, &shorter).unwrap();
    let (before, now) = dpor.nondeterminism().unwrap();
    assert!(!before.is_empty() && now.is_empty(), "{before:?}, {now:?}");
}

/// Code that does something else at times is noticed, although most executions only repeat what it
/// did before. Its runs are compared.
#[test]
fn code_that_differs_from_what_was_learned_is_noticed() {
    let check = |commands: fn(u64) -> &'static [&'static str]| {
        let runs = Arc::new(AtomicU64::new(0));
        let write = |scenario: Scenario| {
            scenario.actors(1, |client| async move {
                let mut link = client.connection();
                // Few schedules run on one core, so that the runs have an order.
                for _ in 0..3 {
                    () = redis::cmd("INCR").arg("n").query_async(&mut link).await?;
                }
                Ok(())
            })
        };
        let fickle = write(Scenario::new("fickle").always(Success)).actors(1, move |client| {
            let commands = commands(runs.fetch_add(1, Ordering::Relaxed));
            async move {
                let mut link = client.connection();
                for command in commands {
                    let (name, key) = command.split_once(' ').unwrap();
                    () = redis::cmd(name).arg(key).query_async(&mut link).await?;
                }
                Ok(())
            }
        });
        let report = exhaustive(&write(fickle)).unwrap_err();
        assert!(matches!(report.problem, Problem::Nondeterminism { .. }), "{report}");
    };
    // As by the parity of the system's clock: most executions that follow each other are equal.
    check(|run| if run / 40 % 2 == 0 { &["INCR n", "GET n"] } else { &["INCR n", "TTL n"] });
    check(|run| if run % 90 == 50 { &["INCR n", "PING x"] } else { &["INCR n", "GET n"] });
}

/// Clients that wait for each other in their process are no nondeterminism.
#[test]
fn clients_may_share_a_mutex() {
    let shared = Arc::new(tokio::sync::Mutex::new(()));
    let scenario = Scenario::new("sharing a mutex").always(Success).actors(2, move |client| {
        let shared = shared.clone();
        async move {
            let mut link = client.connection();
            let _guard = shared.lock().await;
            for _ in 0..2 {
                () = redis::cmd("INCR").arg("n").query_async(&mut link).await?;
            }
            Ok(())
        }
    });
    exhaustive(&scenario).unwrap();
}

/// A client tells in its process, not in Redis, when it is busy, and another one in that process
/// fails then. In the second case the first hundred schedules show nothing.
#[test]
fn state_that_clients_share_outside_of_redis_is_noticed() {
    let check = |sets: usize, is_busy: fn(usize) -> bool| {
        let set = || redis::Cmd::set("k", "v");
        let busy = Arc::new(AtomicBool::new(false));
        let other = busy.clone();
        let scenario = Scenario::new("sharing").always(OwnerSafe).actors(1, move |client| {
            let busy = busy.clone();
            async move {
                let mut link = client.connection();
                for nth in 0..sets {
                    busy.store(is_busy(nth), Ordering::Relaxed);
                    () = set().query_async(&mut link).await?;
                }
                Ok(())
            }
        });
        let scenario = scenario.actors(1, move |client| {
            let busy = other.clone();
            async move {
                () = set().query_async(&mut client.connection()).await?;
                if busy.load(Ordering::Relaxed) { Err("the other one is busy".into()) } else { Ok(()) }
            }
        });
        let report = exhaustive(&scenario).unwrap_err();
        let Problem::Failed { actor: Actor(1), what, .. } = &report.problem else { panic!("{report}") };
        assert_eq!(what, "failed: the other one is busy");
    };
    check(6, |nth| nth % 2 == 0);
    check(150, |nth| nth < 50);
}

/// Once its client has crashed, a task reads, sends and closes nothing, whether the code runs or is
/// repeated.
#[test]
fn a_task_that_outlives_a_crashed_client_is_no_chance() {
    let outliving = Scenario::new("outliving")
        .always(Success)
        .faults(Faults::none().crashes(1).stalls(1))
        .actors(2, |client| async move {
            let mut link = client.connection();
            let incr = || redis::cmd("INCR").arg("n").to_owned();
            incr().exec_async(&mut link).await?;
            let mut renewing = link.clone();
            let mut subscription = client.connection().subscribe("c").await?;
            tokio::spawn(async move {
                for _ in 0..2 {
                    tokio::time::sleep(Duration::from_secs(3)).await;
                    _ = incr().exec_async(&mut renewing).await;
                    _ = tokio::time::timeout(Duration::from_secs(1), subscription.message()).await;
                }
            });
            Ok(incr().exec_async(&mut link).await?)
        });
    let ways = [Learning::Cautious, Learning::Off, Learning::Eager];
    for learning in ways.into_iter().take(LEARNINGS.get() as usize) {
        let explored = explore_all(&mut Runner::new().learning(learning), &outliving);
        explored.unwrap_or_else(|report| panic!("{learning:?}: {report}"));
    }
}
