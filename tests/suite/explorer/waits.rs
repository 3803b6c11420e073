//! Commands that wait on a server, and how their waits end.

use std::time::Duration;

use expect_test::expect;
use harness::{Client, Faults, Scenario, from_fn};
use redis::RedisResult;
use tokio::time::{sleep, timeout};

use crate::explorer::executions::check;
use crate::explorer::oracles::send;

/// Waits for an element, and says what it got. It gives up after `patience` ms.
async fn waits(client: Client, seconds: &str, patience: u64) -> RedisResult<()> {
    let mut link = client.connection();
    let words = ["BLPOP", "list", seconds];
    let popped = send::<Option<[String; 2]>>(&mut link, &words);
    let popped = timeout(Duration::from_millis(patience), popped).await;
    sleep(Duration::from_millis(20)).await;
    send(&mut client.connection(), &["ECHO", if popped.is_ok() { "over" } else { "given up" }]).await
}

async fn pushes(client: Client) -> RedisResult<()> {
    let mut link = client.connection();
    send::<()>(&mut link, &["RPUSH", "list", "1"]).await?;
    send(&mut link, &["LLEN", "list"]).await
}

/// A waiter, and a client that pushes an element.
fn scenario(seconds: &'static str, patience: u64, faults: Faults) -> Scenario {
    Scenario::new("waits")
        .faults(faults)
        .actors(1, from_fn(move |client| waits(client, seconds, patience)))
        .actors(1, from_fn(pushes))
}

#[test]
fn an_element_ends_the_wait() {
    check(
        &scenario("0", 50, Faults::none()),
        "A\nB\nB\nwait\nA.2",
        &expect![[r#"
        +0 B: RPUSH list 1 → 1
        +0 A: BLPOP list 0 → ["list", "1"]
        +0 B: LLEN list → 0
        +20 time
        +20 A: ECHO over → "over"
    "#]],
    );
}

/// The connection is as good as before.
#[test]
fn a_wait_that_ends_breaks_no_connection() {
    let waits = |client: Client| async move {
        let mut link = client.connection();
        send::<()>(&mut link, &["BLPOP", "list", "0"]).await?;
        send(&mut link, &["CLIENT", "ID"]).await
    };
    let scenario = Scenario::new("waits").actors(1, from_fn(waits)).actors(1, from_fn(pushes));
    check(
        &scenario,
        "A\nB\nA\nB",
        &expect![[r#"
        +0 B: RPUSH list 1 → 1
        +0 A: BLPOP list 0 → ["list", "1"]
        +0 A: CLIENT ID → 1
        +0 B: LLEN list → 0
    "#]],
    );
}

/// Its client does nothing then, but time stops.
#[test]
fn a_timeout_ends_the_wait() {
    check(
        &scenario("0.005", 50, Faults::none()),
        "A\nwait\nB\nB\nwait\nA.2",
        &expect![[r#"
        +5 A: BLPOP list 0.005 → (nil)
        +5 time
        +5 B: RPUSH list 1 → 1
        +5 B: LLEN list → 1
        +25 time
        +25 A: ECHO over → "over"
    "#]],
    );
}

/// What is pushed later stays for others.
#[test]
fn a_client_that_gives_up_withdraws_its_command() {
    check(
        &scenario("0", 5, Faults::none()),
        "A\nwait\nB\nB\nA.2",
        &expect![[r#"
        +25 time
        +25 B: RPUSH list 1 → 1
        +25 B: LLEN list → 1
        +25 A: ECHO given up → "given up"
    "#]],
    );
}

/// A multiplexed connection stays open, so its command waits on, and takes what nobody gets.
#[test]
fn a_multiplexed_connection_withdraws_nothing() {
    let waits = |client: Client| async move {
        let mut link = client.multiplexed().await?;
        let pop = redis::cmd("BLPOP").arg(&["list", "0"]).to_owned();
        _ = timeout(Duration::from_millis(5), pop.exec_async(&mut link)).await;
        sleep(Duration::from_millis(20)).await;
        send::<()>(&mut client.connection(), &["ECHO", "given up"]).await
    };
    let scenario = Scenario::new("multiplexed").actors(1, from_fn(waits)).actors(1, from_fn(pushes));
    check(
        &scenario,
        "A\nwait\nB\nB\nA.2",
        &expect![[r#"
        +25 time
        +25 B: RPUSH list 1 → 1
        +25 A: BLPOP list 0 → ["list", "1"]
        +25 B: LLEN list → 0
        +25 A: ECHO given up → "given up"
    "#]],
    );
}

#[test]
fn the_command_of_a_client_that_crashes_is_withdrawn() {
    check(
        &scenario("0", 50, Faults::none().crashes(1)),
        "A\ncrash A\nB\nB",
        &expect![[r#"
        +0 crash A
        +0 B: RPUSH list 1 → 1
        +0 B: LLEN list → 1
    "#]],
    );
}

/// The connection broke when the server had begun to wait. It waits no longer, and pops nothing.
#[test]
fn a_connection_that_breaks_withdraws_its_command() {
    check(
        &scenario("0", 50, Faults::none().drops(1)),
        "drop-after A\nB\nB\nwait\nA.2",
        &expect![[r#"
        +0 A: BLPOP list 0 → broken pipe
        +0 drop-after A: BLPOP list 0
        +0 B: RPUSH list 1 → 1
        +0 B: LLEN list → 1
        +20 time
        +20 A: ECHO over → "over"
    "#]],
    );
}

/// Time goes on to where the stall ends.
#[test]
fn a_timeout_amid_a_stall() {
    let scenario = Scenario::new("stall").faults(Faults::none().stalls(1)).actors(1, |client| async move {
        let mut link = client.connection();
        send::<()>(&mut link, &["SET", "k", "v", "PX", "20"]).await?;
        send::<()>(&mut link, &["BLPOP", "list", "0.005"]).await?;
        Ok(send(&mut link, &["PTTL", "k"]).await?)
    });
    check(
        &scenario,
        "A\nA\ntime +20ms\nA",
        &expect![[r#"
        +0 A: SET k v PX 20 → OK
        +5 A: BLPOP list 0.005 → (nil)
        +20 time
        +20 A: PTTL k → 0
    "#]],
    );
}

/// A timer of one client and the timeout of another come at the same time. Both act.
#[test]
fn a_timeout_and_a_timer_at_the_same_time() {
    let sleeps = |client: Client| async move {
        sleep(Duration::from_millis(5)).await;
        send::<()>(&mut client.connection(), &["ECHO", "awake"]).await
    };
    let waits = |client: Client| async move {
        let mut link = client.connection();
        send::<()>(&mut link, &["BLPOP", "list", "0.005"]).await?;
        send::<()>(&mut link, &["ECHO", "over"]).await
    };
    let scenario = Scenario::new("tie").actors(1, from_fn(sleeps)).actors(1, from_fn(waits));
    check(
        &scenario,
        "A\nB\nwait\nB\nA",
        &expect![[r#"
        +5 B: BLPOP list 0.005 → (nil)
        +5 time
        +5 B: ECHO over → "over"
        +5 A: ECHO awake → "awake"
    "#]],
    );
}
