//! Partitions: a client and a server that do not reach each other for a while.

use std::time::Duration;

use expect_test::expect;
use harness::oracle::Success;
use harness::{Client, Faults, Scenario, exhaustive};
use locks::Subscribe as _;
use redis::RedisResult;
use tokio::time::sleep;

use super::the_end::violated;
use super::traces::commands::call;
use super::tracking::tracking;
use crate::explorer::executions::check;
use crate::explorer::oracles::send;

const LEASE: Duration = Duration::from_secs(10);

fn parted(name: &str) -> Scenario {
    Scenario::new(name).lease(LEASE).faults(Faults::none().partitions(1))
}

/// Sends a command until there is a reply, with this pause after each error.
async fn insist(client: &Client, words: &[&str], pause: Duration) -> RedisResult<i64> {
    loop {
        match send(&mut client.connection(), words).await {
            Err(_) => sleep(pause).await,
            reply => return reply,
        }
    }
}

/// A counts twice, and B once.
fn counting(pause: Duration) -> Scenario {
    let count = move |client: Client, times: usize| async move {
        for _ in 0..times {
            insist(&client, &["INCR", "n"], pause).await?;
        }
        Ok(())
    };
    parted("counting").actors(1, move |client| count(client, 2)).actors(1, move |client| count(client, 1))
}

#[test]
fn nothing_passes_until_the_partition_ends() {
    check(
        &counting(LEASE / 2),
        "A\npartition A\nB",
        &expect![[r#"
            +0 A: INCR n → 1
            +0 partition A: INCR n
            +0 B: INCR n → 2
            +5000 time
            +5000 lose-request A: INCR n
            +10000 time
            +10000 lose-request A: INCR n
            +15000 time
            +15000 A: INCR n → 3
        "#]],
    );
}

#[test]
fn a_request_may_have_run_before_its_client_is_parted() {
    check(
        &counting(LEASE),
        "partition-after A",
        &expect![[r#"
        +0 A: INCR n → 1
        +0 partition-after A: INCR n
        +10000 time
        +10000 lose-request A: INCR n
        +20000 time
        +20000 A: INCR n → 2
        +20000 A: INCR n → 3
    "#]],
    );
}

#[test]
fn through_a_partition_that_is_one_way_requests_pass() {
    check(
        &counting(LEASE / 2),
        "one-way A",
        &expect![[r#"
        +0 A: INCR n → 1
        +0 one-way A: INCR n
        +5000 time
        +5000 A: INCR n → 2
        +5000 lose-reply A: INCR n
        +10000 time
        +10000 A: INCR n → 3
        +10000 lose-reply A: INCR n
        +15000 time
        +15000 A: INCR n → 4
        +15000 A: INCR n → 5
    "#]],
    );
}

/// Time moves to the end of the partition: a client that tries in vain waits for that. If what it
/// does changes something each time, the partition ends when it has lost enough.
#[test]
fn a_client_that_tries_without_a_pause_comes_to_its_end() {
    check(
        &counting(Duration::ZERO),
        "partition A",
        &expect![[r#"
        +0 partition A: INCR n
        +0 lose-request A: INCR n
        +0 lose-request A: INCR n
        +0 lose-request A: INCR n
        +11999 time
        +11999 lose-request A: INCR n
        +12000 time
        +12000 A: INCR n → 1
        +12000 A: INCR n → 2
    "#]],
    );
    check(
        &counting(Duration::ZERO),
        "one-way A",
        &expect![[r#"
        +0 A: INCR n → 1
        +0 one-way A: INCR n
        +0 A: INCR n → 2
        +0 lose-reply A: INCR n
        +0 A: INCR n → 3
        +0 lose-reply A: INCR n
        +0 A: INCR n → 4
        +0 lose-reply A: INCR n
        +0 A: INCR n → 5
        +0 lose-reply A: INCR n
        +0 A: INCR n → 6
        +0 lose-reply A: INCR n
        +0 A: INCR n → 7
        +0 lose-reply A: INCR n
        +0 A: INCR n → 8
        +0 lose-reply A: INCR n
        +0 A: INCR n → 9
        +0 lose-reply A: INCR n
        +0 A: INCR n → 10
        +0 lose-reply A: INCR n
        +0 A: INCR n → 11
        +0 A: INCR n → 12
    "#]],
    );
    exhaustive(&counting(Duration::ZERO).always(Success)).unwrap();
}

#[test]
fn a_partition_lasts_as_long_as_the_scenario_says() {
    let short = Faults::none().partitions(1).parted_for(Duration::from_millis(30));
    let scenario = counting(Duration::from_millis(20)).faults(short);
    check(
        &scenario,
        "partition A",
        &expect![[r#"
        +0 partition A: INCR n
        +20 time
        +20 lose-request A: INCR n
        +40 time
        +40 A: INCR n → 1
        +40 A: INCR n → 2
    "#]],
    );
}

/// One message that is lost does no harm to a client that tries once more.
#[test]
fn a_partition_takes_what_no_single_loss_takes() {
    let set_twice = |client: Client| async move {
        for _ in 0..2 {
            if send::<()>(&mut client.connection(), &["SET", "a", "1"]).await.is_ok() {
                break;
            }
        }
        Ok(())
    };
    let scenario = Scenario::new("twice").actors(1, set_twice).finally("it is set", |client, _| async move {
        match send(&mut client.connection(), &["EXISTS", "a"]).await? {
            true => Ok(()),
            false => Err("it is not".into()),
        }
    });
    exhaustive(&scenario.clone().faults(Faults::none().lost(1))).unwrap();
    let report = exhaustive(&scenario.faults(Faults::none().partitions(1))).unwrap_err();
    let (property, _, schedule) = violated(&report);
    assert_eq!((property, schedule.to_string().trim()), ("it is not", "partition A\nA"));
    let text = report.to_string();
    assert!(text.contains("A: SET a 1 is lost. A and its server are parted"), "{text}");
}

/// Of three servers, a client always reaches two.
#[test]
fn a_client_reaches_the_other_servers() {
    let scenario = |partitions| {
        let everywhere = |client: Client| async move {
            for server in 0..3 {
                _ = send::<()>(&mut client.connection_to(server), &["SET", "a", "1"]).await;
            }
            Ok(())
        };
        let scenario = Scenario::new("everywhere").servers(3).actors(1, everywhere);
        scenario.faults(Faults::none().partitions(partitions)).finally(
            "most have it",
            |client, _| async move {
                let mut have_it = 0;
                for server in 0..3 {
                    have_it += send::<u32>(&mut client.connection_to(server), &["EXISTS", "a"]).await?;
                }
                if have_it < 2 { Err("too few have it".into()) } else { Ok(()) }
            },
        )
    };
    exhaustive(&scenario(1)).unwrap();
    let report = exhaustive(&scenario(2)).unwrap_err();
    assert_eq!(violated(&report).2.to_string().trim(), "A\npartition A.2\npartition A.3");
}

/// The new primary is another server.
#[test]
fn a_client_that_is_parted_from_a_primary_reaches_its_replica() {
    let faults = Faults::none().partitions(1).failovers(1);
    let scenario = counting(LEASE / 2).replicas(1).faults(faults);
    check(
        &scenario,
        "A\npartition A\nB\nfailover 2\nA",
        &expect![[r#"
        +0 A: INCR n → 1
        +0 partition A: INCR n
        +0 B: INCR n → 2
        +0 failover 2
        +5000 time
        +5000 A: INCR n → 3
    "#]],
    );
}

/// The server gives the element to a client that it does not reach.
#[test]
fn an_element_is_lost_with_the_reply_to_a_command_that_waited() {
    let take = |client: Client| async move {
        let reply = send::<Option<(String, String)>>(&mut client.connection(), &["BLPOP", "l", "5"]).await;
        let heard = if reply.is_ok() { "a reply" } else { "nothing" };
        Ok(send(&mut client.connection(), &["ECHO", heard]).await?)
    };
    let give =
        |client: Client| async move { Ok(send(&mut client.connection(), &["RPUSH", "l", "x"]).await?) };
    let scenario = parted("jobs").actors(1, take).actors(1, give);
    check(
        &scenario,
        "one-way A\nB",
        &expect![[r#"
            +0 B: RPUSH l x → 1
            +0 A: BLPOP l 5 → ["l", "x"]
            +0 one-way A: BLPOP l 5
            +0 A: ECHO nothing → "nothing"
            +0 lose-reply A: ECHO nothing
            +0 A gives up: timed out
        "#]],
    );
    // The partition is over when the server replies.
    let short = Faults::none().partitions(1).parted_for(Duration::from_secs(1));
    check(
        &scenario.faults(short),
        "partition-after A\nwait\nB",
        &expect![[r#"
        +5000 A: BLPOP l 5 → (nil)
        +5000 time
        +5000 B: RPUSH l x → 1
        +5000 A: ECHO a reply → "a reply"
    "#]],
    );
}

#[test]
fn a_message_that_is_lost_ends_its_subscription() {
    let hear = |client: Client| async move {
        let mut subscription = client.connection().subscribe("news").await?;
        let heard = if subscription.message().await.is_ok() { "a message" } else { "no more" };
        Ok(send(&mut client.connection(), &["ECHO", heard]).await?)
    };
    let tell =
        |client: Client| async move { Ok(send(&mut client.connection(), &["PUBLISH", "news", "x"]).await?) };
    let scenario = parted("news").actors(1, hear).actors(1, tell);
    check(
        &scenario,
        "A\nB\npartition A.2",
        &expect![[r#"
        +0 A: SUBSCRIBE news → ["subscribe", "news", 1]
        +0 B: PUBLISH news x → 1
        +0 partition A.2: news: "x"
        +0 lose-request A: ECHO no more
        +0 A gives up: timed out
    "#]],
    );
}

#[test]
fn a_message_between_replies_that_is_lost_ends_its_connection() {
    let track = |client: Client| async move {
        let (mut link, mut pushes) = tracking(&client).await?;
        call(&mut link, "GET a").await?;
        _ = send::<()>(&mut client.connection(), &["ECHO", "here"]).await;
        let push = pushes.recv().await.map_or("nothing".into(), |push| push.kind.to_string());
        Ok(send(&mut client.connection(), &["ECHO", &push]).await?)
    };
    let write = |client: Client| async move { Ok(send(&mut client.connection(), &["SET", "a", "1"]).await?) };
    let short = Faults::none().partitions(1).parted_for(Duration::from_secs(1));
    let scenario = Scenario::new("tracking").faults(short).actors(1, track).actors(1, write);
    check(
        &scenario,
        "A\nA\nA\npartition A.2\nB\nreceive A",
        &expect![[r#"
        +0 A: HELLO 3 → {"proto": 3}
        +0 A: CLIENT TRACKING ON → OK
        +0 A: GET a → (nil)
        +0 partition A.2: ECHO here
        +0 B: SET a 1 → OK
        +0 lose-request A: ECHO disconnection
        +0 A gives up: timed out
    "#]],
    );
}
