//! Requests and replies that are lost, and requests that arrive twice. A client that gives up
//! because of such a fault has not failed.

use expect_test::expect;
use harness::execution::Runner;
use harness::explore::explore_all;
use harness::{Faults, Scenario};

use crate::explorer::executions::{check, echo};

/// A client that runs `INCR` twice and records each answer.
fn counting() -> Scenario {
    Scenario::new("counting").faults(Faults::none().lost(1)).actors(2, |client| async move {
        let mut link = client.connection();
        for _ in 0..2 {
            let n = redis::cmd("INCR").arg("n").query_async::<i64>(&mut link).await;
            let heard = n.map_or_else(|error| error.to_string(), |n| n.to_string());
            () = redis::cmd("ECHO").arg(heard).query_async(&mut link).await?;
        }
        Ok(())
    })
}

#[test]
fn a_lost_request_never_runs() {
    check(
        &counting(),
        "lose-request A\nA\nB\nlose-request A\nA\nA",
        &expect![[r#"
        +0 lose-request A: INCR n
        +0 A: ECHO timed out → "timed out"
        +0 B: INCR n → 1
        +0 A: INCR n → 2
        +0 A: ECHO 2 → "2"
        +0 B: ECHO 1 → "1"
        +0 B: INCR n → 3
        +0 B: ECHO 3 → "3"
    "#]],
    );
}

#[test]
fn a_lost_reply_is_never_heard() {
    check(
        &counting(),
        "A\nA\nlose-reply A\nB\nA",
        &expect![[r#"
        +0 A: INCR n → 1
        +0 A: ECHO 1 → "1"
        +0 A: INCR n → 2
        +0 lose-reply A: INCR n
        +0 B: INCR n → 3
        +0 A: ECHO timed out → "timed out"
        +0 B: ECHO 3 → "3"
        +0 B: INCR n → 4
        +0 B: ECHO 4 → "4"
    "#]],
    );
}

#[test]
fn between_a_command_and_the_same_sent_again_others_run() {
    check(
        &counting(),
        "resend A\nB\nA\nA",
        &expect![[r#"
        +0 A: INCR n → 1
        +0 resend A: INCR n
        +0 B: INCR n → 2
        +0 A: INCR n → 3
        +0 A: ECHO 3 → "3"
        +0 A: INCR n → 4
        +0 B: ECHO 2 → "2"
        +0 A: ECHO 4 → "4"
        +0 B: INCR n → 5
        +0 B: ECHO 5 → "5"
    "#]],
    );
}

#[test]
fn commands_after_a_lost_request_are_lost_and_after_a_lost_reply_run() {
    let piping = Scenario::new("piping").faults(Faults::none().lost(1)).actors(1, |client| async move {
        let mut pipeline = redis::pipe();
        (1..=3).for_each(|n| _ = pipeline.cmd("RPUSH").arg("list").arg(n));
        let _: Vec<i64> = pipeline.query_async(&mut client.connection()).await?;
        Ok(())
    });
    check(
        &piping,
        "A\nlose-request A\nA",
        &expect![[r#"
        +0 A: RPUSH list 1 → 1
        +0 lose-request A: RPUSH list 2
        +0 A gives up: timed out
    "#]],
    );
    check(
        &piping,
        "A\nlose-reply A\nA",
        &expect![[r#"
        +0 A: RPUSH list 1 → 1
        +0 A: RPUSH list 2 → 2
        +0 lose-reply A: RPUSH list 2
        +0 A: RPUSH list 3 → 3
        +0 A gives up: timed out
    "#]],
    );
    let atomic = Scenario::new("atomic").faults(Faults::none().lost(1)).actors(1, |client| async move {
        let mut pipeline = redis::pipe();
        pipeline.atomic().cmd("INCR").arg("n").cmd("INCR").arg("n");
        let _: Vec<i64> = pipeline.query_async(&mut client.connection()).await?;
        Ok(())
    });
    check(
        &atomic,
        "resend A\nA",
        &expect![[r#"
        +0 A: MULTI; INCR n; INCR n; EXEC → [[1, 2]]
        +0 resend A: MULTI; INCR n; INCR n; EXEC
        +0 A: MULTI; INCR n; INCR n; EXEC → [[3, 4]]
    "#]],
    );
}

/// If a fault explains an error, the client gave up, and the test has not failed.
#[test]
fn a_client_that_gives_up_because_of_a_fault_has_not_failed() {
    let hoping = |actors| {
        Scenario::new("hoping").faults(Faults::none().lost(1)).actors(actors, |client| async move {
            () = echo("hello").query_async(&mut client.connection()).await?;
            Ok(())
        })
    };
    // The request runs, is lost, runs with its reply lost, or runs and is sent again.
    assert_eq!(explore_all(&mut Runner::new(), &hoping(1)).unwrap().schedules, 4);
    // The order of two clients does not matter, and the fault strikes one of them at most. So there
    // are seven more.
    assert_eq!(explore_all(&mut Runner::new(), &hoping(2)).unwrap().schedules, 4 + 7);
}

/// A client that has not begun has a first request, which need not be on its first connection.
#[test]
fn a_fault_names_the_connection_that_it_strikes() {
    let second = Scenario::new("second").faults(Faults::none().lost(1)).actors(1, |client| async move {
        let (_first, mut second) = (client.connection(), client.connection());
        Ok(echo("hello").query_async::<()>(&mut second).await?)
    });
    check(
        &second,
        "lose-request A",
        &expect![[r#"
            +0 lose-request A.2: ECHO hello
            +0 A gives up: timed out
        "#]],
    );
}

/// A schedule may end while a request is on its way. It still arrives.
#[test]
fn a_delayed_request_arrives_at_the_end() {
    let delayed = Scenario::new("delayed").faults(Faults::none().delays(1)).actors(1, |client| async move {
        Ok(echo("hello").query_async::<()>(&mut client.connection()).await?)
    });
    check(
        &delayed,
        "delay A",
        &expect![[r#"
        +0 delay A: ECHO hello
        +0 A gives up: timed out
        +0 A: ECHO hello → "hello"
    "#]],
    );
}

/// One connection carries requests in their order.
#[test]
fn a_request_behind_a_delayed_one_waits_for_it() {
    let delayed = Scenario::new("behind").faults(Faults::none().delays(1)).actors(1, |client| async move {
        let mut link = client.connection();
        _ = redis::cmd("SET").arg(&["k", "1"]).exec_async(&mut link).await;
        Ok(redis::cmd("EXISTS").arg("k").exec_async(&mut link).await?)
    });
    check(
        &delayed,
        "delay A\nA\nlate A\nA",
        &expect![[r#"
        +0 delay A: SET k 1
        +0 A: SET k 1 → OK
        +0 A: EXISTS k → 1
    "#]],
    );
}
