//! Client-side caching over redis-rs's own connection: each invalidation is a step.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use expect_test::expect;
use harness::execution::Runner;
use harness::oracle::{ExclusiveFact, NoLostWakeUp};
use harness::sim::Recording;
use harness::trace::EventKind;
use harness::{Client, Faults, Scenario, exhaustive, replay};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands as _, AsyncConnectionConfig, Commands, PushInfo, RedisResult, Value, cmd};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use super::outcomes::compare_outcomes;
use super::traces::commands::call;

/// A connection that tracks what it reads, and the messages that it receives.
pub(super) async fn tracking(
    client: &Client,
) -> RedisResult<(MultiplexedConnection, UnboundedReceiver<PushInfo>)> {
    let (sender, pushes) = unbounded_channel();
    let config = AsyncConnectionConfig::new().set_push_sender(sender);
    let mut link = client.multiplexed_resp3(config).await?;
    call(&mut link, "CLIENT TRACKING ON").await?;
    Ok((link, pushes))
}

/// Reads two keys, and then a third one. Says in which order it heard of the third reply and of
/// invalidations.
pub(super) fn reads(scenario: Scenario) -> Scenario {
    scenario.actors(1, |client| async move {
        let (mut link, mut pushes) = tracking(&client).await?;
        call(&mut link, "MGET a c").await?;
        let heard = Mutex::new(String::new());
        let hears = |what: &str| heard.lock().unwrap().push_str(what);
        let mut other = link.clone();
        let reply = async {
            if other.get::<_, Option<String>>("b").await.is_ok() {
                hears("reply");
            }
        };
        let push = async {
            while let Ok(Some(_)) = timeout(Duration::from_millis(400), pushes.recv()).await {
                hears("push");
            }
        };
        tokio::join!(reply, push);
        let heard = heard.into_inner().unwrap();
        call(&mut link, &format!("ECHO {heard}")).await?;
        Ok(())
    })
}

pub(super) fn writes(scenario: Scenario, keys: &'static [&'static str]) -> Scenario {
    scenario.actors(1, move |client| async move {
        let mut link = client.connection();
        for key in keys {
            () = link.set(key, "new").await?;
        }
        Ok(())
    })
}

fn told(scenario: &Scenario, schedule: &str) -> String {
    let history = replay(&mut Runner::new(), scenario, &schedule.parse().unwrap(), Recording::Full);
    let lines = history.events.iter().filter_map(|event| match &event.kind {
        EventKind::Command { actor, text, .. } if text.starts_with("HELLO") => {
            Some(format!("{actor}: {text}\n"))
        }
        EventKind::Command { actor, text, reply, sent, .. } => {
            let behind = if sent.is_behind { ", behind messages" } else { "" };
            Some(format!("{actor}: {text} → {reply}{behind}\n"))
        }
        EventKind::Message { actor, text, .. } => Some(format!("{actor} receives {text}\n")),
        EventKind::Received { actor } => Some(format!("{actor} receives the reply\n")),
        EventKind::Fault { fault, .. } => Some(format!("{}: {}\n", fault.target, fault.kind.word())),
        EventKind::GaveUp { actor, error } => Some(format!("{actor} gives up: {error}\n")),
        _ => None,
    });
    let steps: Vec<_> = history.steps.iter().map(ToString::to_string).collect();
    format!("{}\n{}", steps.join("; "), lines.collect::<String>())
}

#[test]
fn replies_and_invalidations_arrive_as_the_server_wrote_them() {
    let scenario = writes(reads(Scenario::new("order")), &["a"]);
    expect![[r#"
        A; A; A; A; B; receive A; wait; A
        A: HELLO 3
        A: CLIENT TRACKING ON → OK
        A: MGET a c → [(nil), (nil)]
        A: GET b → (nil)
        B: SET a new → OK
        A receives invalidate: ["a"]
        A: ECHO replypush → "replypush"
    "#]]
    .assert_eq(&told(&scenario, "A\nA\nA\nA\nB\nreceive A"));
    expect![[r#"
        A; A; A; B; A; receive A; receive A; wait; A
        A: HELLO 3
        A: CLIENT TRACKING ON → OK
        A: MGET a c → [(nil), (nil)]
        B: SET a new → OK
        A: GET b → (nil), behind messages
        A receives invalidate: ["a"]
        A receives the reply
        A: ECHO pushreply → "pushreply"
    "#]]
    .assert_eq(&told(&scenario, "A\nA\nA\nB\nA\nreceive A\nreceive A"));
}

#[test]
fn an_invalidation_comes_before_the_reply_to_a_command_that_waited() {
    let scenario = Scenario::new("waits")
        .actors(1, |client| async move {
            let (mut link, mut pushes) = tracking(&client).await?;
            call(&mut link, "GET a").await?;
            call(&mut link, "BLPOP l 0").await?;
            let heard = pushes.try_recv().map_or("nothing".into(), |push| push.kind.to_string());
            call(&mut link, &format!("ECHO {heard}")).await?;
            Ok(())
        })
        .actors(1, |client| async move {
            let mut link = client.connection();
            () = link.set("a", "new").await?;
            Ok(link.rpush("l", "x").await?)
        });
    expect![[r#"
        A; A; A; A; B; B; receive A; receive A; A
        A: HELLO 3
        A: CLIENT TRACKING ON → OK
        A: GET a → (nil)
        B: SET a new → OK
        B: RPUSH l x → 1
        A: BLPOP l 0 → ["l", "x"], behind messages
        A receives invalidate: ["a"]
        A receives the reply
        A: ECHO invalidate → "invalidate"
    "#]]
    .assert_eq(&told(&scenario, "A\nA\nA\nA\nB\nB\nreceive A\nreceive A\nA"));
}

#[test]
fn a_client_hears_of_its_own_change_after_the_reply() {
    let scenario = Scenario::new("own change").actors(1, |client| async move {
        let (mut link, mut pushes) = tracking(&client).await?;
        call(&mut link, "GET a").await?;
        () = link.set("a", "new").await?;
        let push = pushes.recv().await.expect("the connection is open");
        call(&mut link, &format!("ECHO {}", push.kind)).await?;
        Ok(())
    });
    expect![[r#"
        A; A; A; A; receive A; A
        A: HELLO 3
        A: CLIENT TRACKING ON → OK
        A: GET a → (nil)
        A: SET a new → OK
        A receives invalidate: ["a"]
        A: ECHO invalidate → "invalidate"
    "#]]
    .assert_eq(&told(&scenario, "A\nA\nA\nA\nreceive A\nA"));
}

#[test]
fn a_server_that_restarts_ends_the_connection() {
    let faults = Faults::none().restarts(1);
    let scenario = writes(reads(Scenario::new("restart").faults(faults)), &["a"]);
    expect![[r#"
        A; A; A; restart 1; receive A; B
        A: HELLO 3
        A: CLIENT TRACKING ON → OK
        A: MGET a c → [(nil), (nil)]
        1: restart
        A receives the end of its connection
        A gives up: broken pipe
        B: SET a new → OK
    "#]]
    .assert_eq(&told(&scenario, "A\nA\nA\nrestart 1\nreceive A\nB"));
}

/// Brute force, which knows no dependencies, finds the same outcomes.
#[test]
fn invalidations_are_in_the_footprint() {
    let check = |scenario: Scenario, expected: (usize, usize)| {
        assert_eq!(compare_outcomes(&scenario), Some(expected), "{scenario:?}");
    };
    let scenario = || reads(Scenario::new("tracking"));
    check(writes(scenario(), &["a"]), (7, 9));
    check(writes(scenario(), &["b", "a"]), (11, 30));
    check(writes(scenario(), &["a", "c"]), (16, 36));
    check(writes(writes(scenario(), &["a"]), &["a"]), (12, 94));
    check(writes(scenario().faults(Faults::none().crashes(1)), &["a"]), (16, 76));
    check(writes(scenario().faults(Faults::none().restarts(1)), &["a"]), (25, 89));
    check(writes(scenario().faults(Faults::none().drops(1)), &["a"]), (31, 73));
}

/// A cache that a client keeps beside its server.
#[derive(Default)]
struct Cache(BTreeMap<&'static str, String>);

/// Reads two keys into a cache, from which invalidations take them. It fills the cache when it has
/// read both. If it `marks` keys before it reads them, an invalidation takes the mark, and then the
/// value is not kept.
pub(super) fn caches(marks: bool) -> Scenario {
    let scenario = Scenario::new("cache")
        .before(|client| async move { Ok(client.connection().mset(&[("a", "old"), ("b", "old")]).await?) })
        .invariant("no read is stale", |data| match Commands::get::<_, Option<String>>(data, "stale")? {
            Some(key) => Err(format!("{key} is stale in the cache").into()),
            None => Ok(()),
        });
    let scenario = scenario.actors(1, move |client| async move {
        let (mut link, mut pushes) = tracking(&client).await?;
        let cache = Arc::new(Mutex::new(Cache::default()));
        let kept = cache.clone();
        tokio::spawn(async move {
            while let Some(push) = pushes.recv().await {
                let keys: RedisResult<(Vec<String>,)> =
                    redis::from_redis_value(Value::Array(push.data)).map_err(Into::into);
                let Ok((keys,)) = keys else { continue };
                kept.lock().unwrap().0.retain(|key, _| !keys.iter().any(|gone| gone == key));
            }
        });
        let keys = ["a", "b"];
        if marks {
            cache.lock().unwrap().0.extend(keys.map(|key| (key, String::new())));
        }
        let mut values = Vec::new();
        for key in keys {
            values.push((key, link.get::<_, String>(key).await?));
        }
        for (key, value) in values {
            let Cache(cache) = &mut *cache.lock().unwrap();
            if !marks || cache.contains_key(key) {
                cache.insert(key, value);
            }
        }
        // By the second reply, everything has arrived that was on its way.
        for key in keys {
            let current: String = link.get(key).await?;
            let cached = cache.lock().unwrap().0.get(key).cloned();
            if cached.is_some_and(|cached| cached != current) {
                () = link.set("stale", key).await?;
            }
        }
        Ok(())
    });
    writes(scenario, &["a"])
}

#[test]
fn a_value_that_is_kept_after_its_invalidation_is_found() {
    let report = exhaustive(&caches(false)).unwrap_err().to_string();
    expect![[r#"
        cache: no read is stale is violated (found after 6 of 9 schedules)

        step        time  A B  ● acts · not begun │ runs
           1       +0 ms  ● ·  A: HELLO 3 → {"proto": 3}
           2       +0 ms  ● ·  A: CLIENT TRACKING ON → OK
           3       +0 ms  ● ·  A: GET a → "old"
           4       +0 ms  │ ●  B: SET a new → OK
                          │ │      now a = "new"
           5       +0 ms  ● │  A receives invalidate: ["a"]
           6       +0 ms  ● │  A: GET b → "old"
           7       +0 ms  ● │  A: GET a → "new"
           8       +0 ms  ● │  A: SET stale a → OK
                          │ │      now stale = "a"
                          │ │    ▸ This breaks «no read is stale»: a is stale in the cache.

        ✗ a is stale in the cache.

        Save this schedule, and replay it with harness::replay_saved:

        lockstep schedule 1
        scenario cache
        clients 2
        lease 10000ms
        property no read is stale
        must fail

        A 1 HELLO
        A 2 CLIENT
        A 3 GET a
        B 1 SET a
        receive A
        A 5 GET b
        A 6 GET a
        A 7 SET stale
    "#]]
    .assert_eq(&report);
    let passed = exhaustive(&caches(true)).unwrap();
    expect!["no violation of no read is stale in 9 schedules"].assert_eq(&passed.to_string());
}

const LEASE: Duration = Duration::from_secs(10);

/// Waits for the lock until it is told that its key has changed, as rueidislock does. It reads the
/// key to be told. If it `looks` at what it read, it does not wait for a lock that is free.
fn waits(looks: bool) -> Scenario {
    Scenario::new("lock")
        .lease(LEASE)
        .always(ExclusiveFact::of("cs"))
        .always(NoLostWakeUp::of("cs", LEASE))
        .actors(2, move |client| async move {
            let (mut link, mut pushes) = tracking(&client).await?;
            let take = cmd("SET").arg("lock").arg(client.name()).arg("NX").arg("PX").arg(10_000).to_owned();
            while !take.query_async::<bool>(&mut link).await? {
                let held: Option<String> = link.get("lock").await?;
                if !looks || held.is_some() {
                    _ = timeout(LEASE, pushes.recv()).await;
                }
            }
            Ok(client.hold("cs").until(cmd("DEL").arg("lock").exec_async(&mut link)).await?)
        })
}

#[test]
fn a_client_that_tracks_the_lock_too_late_waits_in_vain() {
    let report = exhaustive(&waits(false)).unwrap_err();
    assert!(report.to_string().contains("no-lost-wake-up is violated"), "{report}");
    let passed = exhaustive(&waits(true)).unwrap();
    expect!["no violation of exclusive-fact and no-lost-wake-up in 53 schedules; reached: contention; lints: plain-del"].assert_eq(&passed.to_string());
}
