//! Replays schedules on a real server: what is compared, what is refused, and what is left behind.

use std::sync::{Arc, Mutex};

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use expect_test::expect;
use harness::execution::Runner;
use harness::explore::Problem;
use harness::oracle::{ExclusiveFact, OwnerSafe, Success};
use harness::replay::{Comparison, OnRedis, OnRedisError, replay_on_redis};
use harness::{Faults, SavedSchedule, Scenario, exhaustive};
use locks::{Record, Subscribe as _};
use redis::AsyncCommands as _;

use super::oracles::send;
use super::tracking::{caches, reads, writes};
use crate::bounds::SILENT_SERVER;
use crate::redis_server;

/// One client that sends one command.
fn sender(words: &'static [&'static str]) -> Scenario {
    Scenario::new("sender").always(ExclusiveFact::of("cs")).actors(1, move |client| async move {
        let send = redis::cmd(words[0]).arg(&words[1..]).to_owned();
        Ok(send.query_async::<()>(&mut client.connection()).await?)
    })
}

/// A saved schedule of one client that must pass.
fn passing(steps: &str) -> SavedSchedule {
    let header = "lockstep schedule 1\nscenario sender\nclients 1\nlease 10000ms\nproperty exclusive-fact\nmust pass\n";
    format!("{header}{steps}").parse().unwrap()
}

fn replay(
    url: String,
    saved: &SavedSchedule,
    scenario: impl Fn(Duration) -> Scenario,
) -> Result<OnRedis, OnRedisError> {
    replay_on_redis(&mut Runner::new(), &redis::Client::open(url).unwrap(), saved, scenario)
}

#[test]
fn a_database_that_holds_anything_is_left_alone() {
    let Some(server) = redis_server::borrow() else { return };
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    () = redis::cmd("SET").arg("dear").arg("1").query(&mut connection).unwrap();
    let error = replay(server.url(), &passing("A"), |_| sender(&["SET", "lock", "1"])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the database holds 1 keys, and a replay needs an empty one: name another, for example redis://host:6379/9"
    );
    assert_eq!(redis::cmd("GET").arg("dear").query::<i64>(&mut connection).unwrap(), 1);
    () = redis::cmd("DEL").arg("dear").query(&mut connection).unwrap();
    let on_redis = replay(server.url(), &passing("A"), |_| sender(&["SET", "lock", "1"])).unwrap();
    assert_eq!(on_redis.to_string(), "lease 1000 ms: no violation on both servers; 1 replies are the same");
    assert_eq!(redis::cmd("DBSIZE").query::<i64>(&mut connection).unwrap(), 0);
}

#[test]
fn a_difference_is_reported_with_its_step() {
    let Some(server) = redis_server::borrow() else { return };
    // This code behaves differently each time, so the server's replies differ from the emulator's.
    let calls = Arc::new(AtomicU64::new(0));
    let fickle = |_| {
        let calls = calls.clone();
        Scenario::new("sender").always(ExclusiveFact::of("cs")).actors(1, move |client| {
            let call = calls.fetch_add(1, Ordering::Relaxed);
            async move {
                let mut link = client.connection();
                () = redis::cmd("SET").arg("key").arg("me").query_async(&mut link).await?;
                Ok(redis::cmd("ECHO").arg(call).query_async::<()>(&mut link).await?)
            }
        })
    };
    let on_redis = replay(server.url(), &passing("A\nA"), fickle).unwrap();
    assert_eq!(
        on_redis.to_string(),
        r#"lease 1000 ms: different in step 2: A: ECHO 1 → "1" on the emulator, A: ECHO 2 → "2" on the server"#
    );
}

#[test]
fn times_and_names_drawn_by_chance_may_differ() {
    let Some(server) = redis_server::borrow() else { return };
    let calls = Arc::new(AtomicU64::new(0));
    let drawing = |lease: Duration| {
        let calls = calls.clone();
        Scenario::new("sender").always(ExclusiveFact::of("cs")).actors(1, move |client| {
            let name = format!("{:08x}", 0xA0_0000_0000 + calls.fetch_add(1, Ordering::Relaxed));
            async move {
                let mut link = client.connection();
                let mut send = async |cmd: &redis::Cmd| cmd.query_async::<redis::Value>(&mut link).await;
                send(redis::cmd("SET").arg("key").arg(name).arg("PX").arg(lease.as_millis() as u64)).await?;
                send(redis::cmd("GET").arg("key")).await?;
                send(redis::cmd("PTTL").arg("key")).await?;
                send(&redis::cmd("TIME")).await?;
                send(redis::cmd("ECHO").arg(client.env().now_ms())).await?;
                // The clocks of clients agree with that of the server.
                send(redis::cmd("PEXPIREAT").arg("key").arg(client.env().now_ms() + 60_000)).await?;
                send(redis::cmd("EXISTS").arg("key")).await?;
                Ok(())
            }
        })
    };
    let saved = passing("A\nA\nA\ntime +5000ms\nA\nA\nA\nA");
    let on_redis = replay(server.url(), &saved, drawing).unwrap();
    assert_eq!((on_redis.comparison, on_redis.replies), (Comparison::Same(None), 7));
}

/// A subscriber on a real server receives a message as soon as it is published. The message then
/// waits for its step, as on the emulator.
/// What must hold always, and at the end, is judged by the data of the real server.
#[test]
fn the_data_of_a_real_server_is_judged() {
    let Some(server) = redis_server::borrow() else { return };
    let shop = || {
        Scenario::new("shop")
            .before(|client| async move { Ok(client.connection().set("stock", 1).await?) })
            .actors(2, |client| async move {
                let mut link = client.connection();
                if link.get::<_, i64>("stock").await? > 0 {
                    () = link.decr("stock", 1).await?;
                    () = link.rpush("sold", client.name()).await?;
                }
                Ok(())
            })
    };
    let always = shop().invariant("the stock is never below 0", |data| {
        use redis::Commands as _;
        let stock: i64 = data.get("stock")?;
        if stock < 0 { Err(format!("the stock is {stock}").into()) } else { Ok(()) }
    });
    let last = shop().finally("one is sold", |client, _| async move {
        let sold: u64 = client.connection().llen("sold").await?;
        if sold == 1 { Ok(()) } else { Err(format!("{sold} are sold").into()) }
    });
    for (scenario, what) in [(always, "the stock is -1"), (last, "2 are sold")] {
        let report = exhaustive(&scenario).unwrap_err();
        let Problem::Violated { saved, .. } = &report.problem else { panic!("{report}") };
        let on_redis = replay(server.url(), saved, |lease| scenario.clone().lease(lease)).unwrap();
        let Comparison::Same(Some(violation)) = on_redis.comparison else { panic!("{on_redis}") };
        assert_eq!(violation.what, what);
    }
}

#[test]
fn messages_of_a_real_server() {
    let Some(server) = redis_server::borrow() else { return };
    let telling = |_| {
        Scenario::new("sender")
            .faults(Faults::none().drops(1))
            .always(ExclusiveFact::of("cs"))
            .actors(1, |client| async move {
                let mut link = client.connection();
                let mut subscription = link.subscribe("news").await?;
                loop {
                    let message = subscription.message().await?;
                    () = redis::cmd("ECHO").arg(&message).query_async(&mut link).await?;
                    if message == b"goodbye" {
                        return Ok(());
                    }
                }
            })
            .actors(1, |client| async move {
                let mut link = client.connection();
                for word in ["hello", "goodbye"] {
                    () = redis::cmd("PUBLISH").arg("news").arg(word).query_async(&mut link).await?;
                }
                Ok(())
            })
    };
    // In the second case the subscriber's connection breaks, and nobody receives the second
    // message.
    for (steps, replies) in [("A\nB\nB\nA.2\nA\nA.2\nA", 7), ("A\nB\ndrop-before A.2\nB", 3)] {
        let saved = SavedSchedule { clients: 2, ..passing(steps) };
        let on_redis = replay(server.url(), &saved, telling).unwrap();
        assert_eq!((on_redis.comparison, on_redis.replies), (Comparison::Same(None), replies));
    }
}

/// A real server is asked for each kind of record, to see whose command ends a grant.
#[test]
fn a_grant_is_ended_on_a_real_server() {
    let Some(server) = redis_server::borrow() else { return };
    let (key, name) = (|| "k".to_owned(), || "A".to_owned());
    let rows: [(Record, [&[&str]; 2]); 4] = [
        (Record::Key(key()), [&["SET", "k", "A"], &["DEL", "k"]]),
        (Record::Value(key(), name()), [&["SET", "k", "A"], &["SET", "k", "B"]]),
        (Record::Member(key(), name()), [&["ZADD", "k", "1", "A"], &["ZREM", "k", "A"]]),
        (Record::Field(key(), name()), [&["HSET", "k", "A", "1"], &["HDEL", "k", "A"]]),
    ];
    let steps = "A\nB\nA";
    let saved = SavedSchedule { clients: 2, property: "owner-safe".into(), ..passing(steps) };
    for (record, [take, end]) in rows {
        for (command, is_ended) in [(end, true), (&["PEXPIRE", "k", "60000"], false)] {
            let scenario = |_| {
                let (record, scenario) = (record.clone(), Scenario::new("sender").always(OwnerSafe));
                let takes = scenario.actors(1, move |client| {
                    let record = record.clone();
                    async move {
                        let mut link = client.connection();
                        send::<()>(&mut link, take).await?;
                        let _hold = client.hold("cs").record(record).enter();
                        Ok(send(&mut link, &["PING"]).await?)
                    }
                });
                takes.actors(1, move |client| async move {
                    Ok(send::<()>(&mut client.connection(), command).await?)
                })
            };
            let on_redis = replay(server.url(), &saved, scenario).unwrap();
            let text = on_redis.to_string();
            assert!(
                text.contains(if is_ended { "same violation" } else { "no violation" }),
                "{record:?}: {text}"
            );
        }
    }
}

#[test]
fn some_schedules_cannot_run_on_a_real_server() {
    let Some(server) = redis_server::borrow() else { return };
    let error = replay(server.url(), &passing("A"), |_| sender(&["BLPOP", "queue", "1"])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "step 2: BLPOP may block, and a replay on a real server runs only commands that reply at once"
    );
    let error = replay(server.url(), &passing("restart 1\nA"), |_| sender(&["PING"])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the schedule has the step `restart 1`: a replay on real servers sets no clocks of theirs, restarts nothing, flushes no scripts, and delays no replica but one that takes over"
    );
    let sleepy = |_| {
        Scenario::new("sender").always(ExclusiveFact::of("cs")).actors(1, |client| async move {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Ok(redis::cmd("PING").query_async::<()>(&mut client.connection()).await?)
        })
    };
    let on_redis = replay(server.url(), &passing("A\nA"), sleepy).unwrap();
    assert_eq!(
        on_redis.to_string(),
        "lease 8000 ms: inconclusive in step 2: the execution takes 3600 s, and a replay waits for at most 60 s"
    );
}

/// Whether the client's code runs on a real server. The emulator's time begins in 2023.
async fn is_real(link: &mut harness::client::GatedConnection) -> bool {
    let (seconds, _): (i64, i64) = redis::cmd("TIME").query_async(link).await.unwrap();
    seconds > 1_750_000_000
}

/// A client that writes a key, and a `disturb` that runs before its next command.
fn disturbed(disturb: impl Fn() + Clone + Send + Sync + 'static) -> Scenario {
    Scenario::new("sender").always(ExclusiveFact::of("cs")).actors(1, move |client| {
        let disturb = disturb.clone();
        async move {
            let mut link = client.connection();
            () = redis::cmd("SET").arg("key").arg("1").query_async(&mut link).await?;
            if is_real(&mut link).await {
                // A thread of its own, because a runtime already runs on this one.
                std::thread::spawn(disturb).join().expect("nothing goes wrong there");
            }
            Ok(redis::cmd("DBSIZE").query_async::<()>(&mut link).await?)
        }
    })
}

/// The kernel accepts connections of a socket that listens, and nobody answers.
#[test]
fn a_server_that_never_answers_is_an_error() {
    if SILENT_SERVER.is_left_out() {
        return;
    }
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}/", silent.local_addr().unwrap());
    let error = replay(url, &passing("A"), |_| sender(&["SET", "lock", "1"])).unwrap_err();
    assert!(error.to_string().starts_with("the server does not answer: check its URL"), "{error}");
}

/// The server ends amid the execution: the client finds its connection broken, and gets no new one.
/// Or it ends before, when the database is claimed already and the scenario is made for a lease.
#[test]
fn a_server_that_dies_is_an_error() {
    for is_early in [false, true] {
        let emulator = emulator::Emulator::new();
        let url = emulator.url();
        let (server, made) = (Arc::new(Mutex::new(Some(emulator))), AtomicU64::new(0));
        let dying = |_| {
            if is_early && made.fetch_add(1, Ordering::Relaxed) == 1 {
                drop(server.lock().unwrap().take());
            }
            let server = server.clone();
            Scenario::new("sender").always(ExclusiveFact::of("cs")).actors(1, move |client| {
                let server = server.clone();
                async move {
                    let mut link = client.connection();
                    () = redis::cmd("SET").arg("key").arg("1").query_async(&mut link).await?;
                    if is_real(&mut link).await {
                        std::thread::spawn(move || drop(server.lock().unwrap().take())).join().unwrap();
                    }
                    let ping = redis::cmd("PING");
                    _ = ping.query_async::<()>(&mut client.connection()).await;
                    Ok(ping.query_async::<()>(&mut link).await?)
                }
            })
        };
        let error = replay(url, &passing("A\nA\nA.2\nA"), dying).unwrap_err().to_string();
        assert!(
            error.starts_with("the server no longer answers: ") && error.ends_with(": DEL key"),
            "{error}"
        );
    }
}

/// A real server sends invalidations in the same places.
#[test]
fn invalidations_are_real() {
    let Some(server) = redis_server::borrow() else { return };
    let report = exhaustive(&caches(false)).unwrap_err();
    let Problem::Violated { saved, .. } = &report.problem else { panic!("{report}") };
    let replayed = replay(server.url(), saved, |_| caches(false)).unwrap();
    expect!["lease 1000 ms: same violation; 9 replies are the same"].assert_eq(&replayed.to_string());
    // Here the invalidation comes before the reply to another request.
    let order = |_| writes(reads(Scenario::new("order").always(Success)), &["a"]);
    let saved = "lockstep schedule 1\nscenario order\nclients 2\nlease 10000ms\nproperty success\nmust pass\n\
                 A\nA\nA\nB\nA\nreceive A\nreceive A\nA\n";
    let replayed = replay(server.url(), &saved.parse().unwrap(), order).unwrap();
    expect!["lease 1000 ms: no violation on both servers; 7 replies are the same"]
        .assert_eq(&replayed.to_string());
}

#[test]
fn of_two_replays_at_once_one_is_refused() {
    let Some(server) = redis_server::borrow() else { return };
    let url = server.url();
    let errors = Arc::new(Mutex::new(Vec::new()));
    let (other, noted) = (url.clone(), errors.clone());
    let disturb = move || {
        let error = replay(other.clone(), &passing("A"), |_| sender(&["SET", "lock", "1"])).unwrap_err();
        noted.lock().unwrap().push(error.to_string());
    };
    let on_redis = replay(url.clone(), &passing("A\nA\nA"), |_| disturbed(disturb.clone())).unwrap();
    // `DBSIZE` does not count what marks the database as claimed.
    assert_eq!((on_redis.comparison, on_redis.replies), (Comparison::Same(None), 3));
    let database = url.rsplit('/').next().unwrap();
    let refused = format!(
        "another replay runs in database {database}: wait for its end, or name another database, as in redis://host:6379/9"
    );
    assert_eq!(*errors.lock().unwrap(), [refused]);
    let on_redis = replay(url, &passing("A"), |_| sender(&["SET", "lock", "1"])).unwrap();
    assert_eq!(on_redis.comparison, Comparison::Same(None), "the claim is given back");
}

#[test]
fn keys_of_another_client_are_not_lost() {
    let Some(server) = redis_server::borrow() else { return };
    let url = server.url();
    let client = redis::Client::open(url.as_str()).unwrap();
    let writer = client.clone();
    let disturb = move || {
        () = redis::cmd("SET").arg("dear").arg("1").query(&mut writer.get_connection().unwrap()).unwrap();
    };
    let error = replay(url.clone(), &passing("A\nA"), |_| disturbed(disturb.clone())).unwrap_err();
    let database = url.rsplit('/').next().unwrap();
    assert_eq!(
        error.to_string(),
        format!(
            "database {database} holds 1 keys that this replay did not write and does not delete, for example \"dear\": \
             name a database without other clients"
        )
    );
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut client.get_connection().unwrap()).unwrap();
    assert_eq!(keys, ["dear"]);
}

/// The replay deletes keys that scripts write without declaring them, and keys of setup code,
/// probes and transactions.
#[test]
fn whatever_a_replay_writes_it_deletes() {
    let Some(server) = redis_server::borrow() else { return };
    let writing = |_| {
        Scenario::new("sender")
            .always(ExclusiveFact::of("cs"))
            .before(|client| async move {
                Ok(redis::cmd("MSET")
                    .arg(&["a", "1", "b", "2"])
                    .query_async::<()>(&mut client.connection())
                    .await?)
            })
            .actors(1, |client| async move {
                let mut link = client.connection();
                let script = "redis.call('set', 'c', 1) redis.call('rename', 'c', 'd')";
                () = redis::cmd("EVAL").arg(script).arg(0).query_async(&mut link).await?;
                let mut pipeline = redis::pipe();
                pipeline.atomic().cmd("SET").arg("e").arg("1").cmd("SUNIONSTORE").arg("f").arg("g");
                Ok(pipeline.query_async::<()>(&mut link).await?)
            })
            .probe(1, |client| async move {
                Ok(redis::cmd("SADD").arg("h").arg("1").query_async::<bool>(&mut client.connection()).await?)
            })
    };
    let on_redis = replay(server.url(), &passing("A\nA"), writing).unwrap();
    assert_eq!(on_redis.comparison, Comparison::Same(None), "{on_redis}");
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    assert_eq!(redis::cmd("DBSIZE").query::<i64>(&mut connection).unwrap(), 0);
}

/// As by Ctrl-C.
#[test]
fn a_replay_that_is_stopped_deletes_what_it_wrote() {
    let Some(server) = redis_server::borrow() else { return };
    let mut runner = Runner::new();
    runner.stopper().stop();
    let client = redis::Client::open(server.url()).unwrap();
    let replayed = replay_on_redis(&mut runner, &client, &passing("A"), |_| sender(&["SET", "lock", "1"]));
    let error = replayed.unwrap_err().to_string();
    assert_eq!(error, "the replay was stopped; nothing that it wrote is left");
}
