//! Subscriptions: those of the harness, where every message is a step, and those of redis-rs's own
//! connections.

use std::time::Duration;

use emulator::{Emulator, Reply};
use expect_test::{Expect, expect};
use harness::execution::Runner;
use harness::sim::Recording;
use harness::trace::EventKind;
use harness::{Faults, Scenario, replay};
use locks::published::redisson::Redisson;
use locks::{Env, Lock as _, PubSubConnection, Release, Subscribe as _, Terms};
use redis::AsyncCommands as _;
use redis::aio::ConnectionLike;

use crate::explorer::oracles::send;
use crate::redis_server;

/// B publishes once. A subscribes and waits a minute for the message, at most twice.
fn news() -> Scenario {
    Scenario::new("news")
        .faults(Faults::none().stalls(2).drops(1).restarts(1))
        .actors(1, |client| async move {
            let mut link = client.connection();
            let mut subscription = link.subscribe("news").await?;
            for _ in 0..2 {
                let heard = tokio::time::timeout(Duration::from_secs(60), subscription.message()).await;
                if let Ok(message) = heard {
                    return Ok(send(&mut link, &["ECHO", str::from_utf8(&message?)?]).await?);
                }
                send::<()>(&mut link, &["ECHO", "nothing"]).await?;
            }
            Ok(())
        })
        .actors(1, |client| async move {
            Ok(send(&mut client.connection(), &["PUBLISH", "news", "hello"]).await?)
        })
}

#[track_caller]
fn check(schedule: &str, expected: &Expect) {
    let history = replay(&mut Runner::new(), &news(), &schedule.parse().unwrap(), Recording::Full);
    let lines = history.events.iter().filter_map(|event| match &event.kind {
        EventKind::Command { actor, text, reply, .. } => Some(format!("{actor}: {text} → {reply}\n")),
        EventKind::Message { actor, text, .. } => Some(format!("{actor} hears {text}\n")),
        EventKind::Fault { fault, request } => {
            let request = request.as_ref().map_or("", |request| &request.text);
            Some(format!("{}: {} {request}\n", fault.target, fault.kind.word()))
        }
        EventKind::SubscriptionEnded { actor, channel } => {
            Some(format!("{actor} hears no more of {channel}\n"))
        }
        EventKind::GaveUp { actor, error } => Some(format!("{actor} gives up: {error}\n")),
        EventKind::Advanced { by, .. } => Some(format!("+{} ms\n", by.as_millis())),
        _ => None,
    });
    let steps: Vec<_> = history.steps.iter().map(ToString::to_string).collect();
    expected.assert_eq(&format!("{}\n{}", steps.join("; "), lines.collect::<String>()));
}

#[test]
fn a_message_is_heard_in_a_step_of_its_own() {
    check(
        "A\nB\nA.2\nA",
        &expect![[r#"
        A; B; A.2; A
        A: SUBSCRIBE news → ["subscribe", "news", 1]
        B: PUBLISH news hello → 1
        A hears news: "hello"
        A: ECHO hello → "hello"
    "#]],
    );
}

/// If a client stops waiting for a message, the client receives that message when it waits again.
#[test]
fn a_message_that_comes_too_late_is_still_to_come() {
    check(
        "A\nB\nwait\nA\nA.2\nA",
        &expect![[r#"
            A; B; wait; A; A.2; A
            A: SUBSCRIBE news → ["subscribe", "news", 1]
            B: PUBLISH news hello → 1
            +60000 ms
            A: ECHO nothing → "nothing"
            A hears news: "hello"
            A: ECHO hello → "hello"
        "#]],
    );
}

#[test]
fn a_message_published_before_the_subscription_is_never_received() {
    check(
        "B\nA\nwait\nA\nwait\nA",
        &expect![[r#"
        B; A; wait; A; wait; A
        B: PUBLISH news hello → 0
        A: SUBSCRIBE news → ["subscribe", "news", 1]
        +60000 ms
        A: ECHO nothing → "nothing"
        +60000 ms
        A: ECHO nothing → "nothing"
    "#]],
    );
}

#[test]
fn a_connection_that_breaks_while_a_message_is_on_its_way_hears_no_more() {
    check(
        "A\nB\ndrop-before A.2",
        &expect![[r#"
            A; B; drop-before A.2
            A: SUBSCRIBE news → ["subscribe", "news", 1]
            B: PUBLISH news hello → 1
            A.2: drop-before news: "hello"
            A gives up: the subscription has ended: its connection is closed - Io
        "#]],
    );
}

#[test]
fn a_subscriber_of_a_server_that_restarts_receives_only_messages_under_way() {
    check(
        "A\nB\nrestart 1\nA.2\nA",
        &expect![[r#"
            A; B; restart 1; A.2; A
            A: SUBSCRIBE news → ["subscribe", "news", 1]
            B: PUBLISH news hello → 1
            1: restart 
            A hears news: "hello"
            A: ECHO hello → "hello"
        "#]],
    );
    check(
        "A\nwait\nB\nrestart 1\nA\nA.2\nA",
        &expect![[r#"
            A; wait; B; restart 1; A; A.2; A
            A: SUBSCRIBE news → ["subscribe", "news", 1]
            +60000 ms
            B: PUBLISH news hello → 1
            1: restart 
            A: ECHO nothing → "nothing"
            A hears news: "hello"
            A: ECHO hello → "hello"
        "#]],
    );
    check(
        "A\nrestart 1\nB",
        &expect![[r#"
            A; restart 1; B
            A: SUBSCRIBE news → ["subscribe", "news", 1]
            1: restart 
            A hears no more of news
            A gives up: the subscription has ended: its connection is closed - Io
            B: PUBLISH news hello → 0
        "#]],
    );
}

/// A client that waits for the lock wakes when another releases it, long before the lease of a
/// minute ends.
async fn woken_by_redisson(client: &redis::Client) {
    let terms = Terms { key: "lock".into(), lease: Duration::from_secs(60), permits: 1 };
    let connection = PubSubConnection::open(client).await.unwrap();
    let open = || Redisson::new(connection.clone(), &Env::system(), &terms);
    let (mut a, mut b) = (open(), open());
    assert!(a.acquire().await.unwrap());
    assert!(!b.try_acquire().await.unwrap());
    let waiting = tokio::spawn(async move {
        assert!(b.acquire().await.unwrap());
        b.release().await.unwrap()
    });
    let mut observer = connection.clone();
    until_listened_to(&mut observer, "redisson_lock__channel:{lock}", 1).await;
    assert_eq!(a.release().await.unwrap(), Release::Released);
    let release = tokio::time::timeout(Duration::from_secs(30), waiting).await;
    assert_eq!(release.expect("it is woken long before the lease is over").unwrap(), Release::Released);
    until_listened_to(&mut observer, "redisson_lock__channel:{lock}", 0).await;
}

/// A subscription receives every message in order until its connection is closed.
async fn hears(client: &redis::Client) {
    let mut connection = PubSubConnection::open(client).await.unwrap();
    let mut subscription = connection.subscribe("news").await.unwrap();
    for n in 0..100 {
        assert_eq!(connection.publish::<_, _, i64>("news", n).await.unwrap(), 1);
    }
    for n in 0..100 {
        assert_eq!(subscription.message().await.unwrap(), n.to_string().as_bytes());
    }
    let kill = redis::cmd("CLIENT").arg(&["KILL", "TYPE", "PUBSUB"]).to_owned();
    assert_eq!(kill.query_async::<i64>(&mut connection).await.unwrap(), 1);
    let error = subscription.message().await.unwrap_err().to_string();
    assert!(error.contains("the subscription has ended"), "{error}");
}

async fn until_listened_to(connection: &mut impl ConnectionLike, channel: &str, count: i64) {
    loop {
        let asked = redis::cmd("PUBSUB").arg(&["NUMSUB", channel]).to_owned();
        let (_, listeners): (String, i64) = asked.query_async(connection).await.unwrap();
        if listeners == count {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn over_redis_rs_to_the_emulator() {
    let emulator = Emulator::new();
    let client = emulator.client();
    hears(&client).await;
    leaves(&client).await;
    woken_by_redisson(&client).await;
}

#[tokio::test]
async fn over_redis_rs_to_a_real_server() {
    let [server] = &redis_server::start_own(1)[..] else { return };
    let client = redis::Client::open(format!("redis://{}/", server.addr())).unwrap();
    hears(&client).await;
    leaves(&client).await;
    woken_by_redisson(&client).await;
}

/// A subscription that is ended frees its channel, and the server says so.
async fn leaves(client: &redis::Client) {
    let mut connection = PubSubConnection::open(client).await.unwrap();
    let subscription = connection.subscribe("left").await.unwrap();
    let numsub = redis::cmd("PUBSUB").arg(&["NUMSUB", "left"]).to_owned();
    let mut listeners = async || numsub.query_async::<(String, i64)>(&mut connection).await.unwrap().1;
    assert_eq!(listeners().await, 1);
    subscription.unsubscribe().await.unwrap();
    assert_eq!(listeners().await, 0);
}

/// There are so many channels that the test would be very slow if the end of one subscription
/// visited all others.
#[test]
fn any_number_of_subscriptions_end_at_once() {
    const CHANNELS: usize = 200_000;
    let emulator = Emulator::new();
    let names: Vec<String> = (0..CHANNELS).map(|nth| format!("c{nth}")).collect();
    let mut subscribe = vec![&b"SUBSCRIBE"[..]];
    subscribe.extend(names.iter().map(String::as_bytes));
    let [mut early, mut late, mut other] = [(); 3].map(|()| emulator.connection());
    // Nobody reads the confirmations, so the output buffers must have no limit.
    other.execute(&[b"CONFIG", b"SET", b"client-output-buffer-limit", b"pubsub 0 0 0"]);
    let mut listeners = |channel: &[u8]| other.execute(&[b"PUBLISH", channel, b"text"]);
    for connection in [&mut early, &mut late] {
        connection.execute(&subscribe);
    }
    assert_eq!(listeners(b"c0"), Reply::Integer(2));
    early.execute(&[b"UNSUBSCRIBE"]);
    assert_eq!(listeners(b"c0"), Reply::Integer(1));
    drop(late);
    assert_eq!(listeners(b"c0"), Reply::Integer(0));
}
