//! redis-rs's multiplexed connection at the gate gives the same results as a `GatedConnection`. The
//! tests also cover what only the multiplexed connection does.

use std::time::Duration;

use expect_test::{Expect, expect};
use harness::execution::Runner;
use harness::explore::explore_all;
use harness::oracle::{ExclusiveBelief, ExclusiveFact, NoLeak, OwnerSafe};
use harness::sim::Recording;
use harness::trace::EventKind;
use harness::{Client, Exploration, Faults, Scenario, replay};
use locks::registry::ALGORITHMS;
use locks::{Connection, Terms};
use redis::aio::ConnectionLike;
use redis::{AsyncConnectionConfig, RedisResult};

const LEASE: Duration = Duration::from_secs(10);

/// How the clients of a scenario connect.
#[derive(Clone, Copy)]
enum FrontEnd {
    GatedConnection,
    Multiplexed,
    /// A multiplexed connection without a response timeout.
    Patient,
}

impl FrontEnd {
    async fn open(self, client: &Client) -> RedisResult<Connection> {
        let patient = AsyncConnectionConfig::new().set_response_timeout(None);
        Ok(match self {
            FrontEnd::GatedConnection => Connection::new(client.connection()),
            FrontEnd::Multiplexed => Connection::new(client.multiplexed().await?),
            FrontEnd::Patient => Connection::new(client.multiplexed_with_config(patient).await?),
        })
    }
}

/// Clients that acquire once each, and release what they got.
fn lock(name: &str, front_end: FrontEnd, clients: usize, faults: Faults) -> Scenario {
    let algorithm = ALGORITHMS.iter().find(|algorithm| algorithm.name == name).unwrap();
    let terms = Terms { key: "lock".into(), lease: LEASE, permits: 1 };
    Scenario::new(name)
        .lease(LEASE)
        .faults(faults)
        .always(ExclusiveFact::of("cs"))
        .always(ExclusiveBelief::of("cs", 1))
        .always(OwnerSafe)
        .always(NoLeak)
        .before(move |client| async move {
            for script in algorithm.scripts {
                () = redis::cmd("SCRIPT")
                    .arg("LOAD")
                    .arg(script)
                    .query_async(&mut client.connection())
                    .await?;
            }
            Ok(())
        })
        .actors(clients, move |client| {
            let terms = terms.clone();
            async move {
                let connection = front_end.open(&client).await?;
                let mut lock = algorithm.open(vec![connection], client.env(), &terms);
                let since = client.true_time();
                if lock.try_acquire().await? {
                    let hold = client.hold("cs").since(since).record(lock.record());
                    hold.until(lock.release()).await?;
                }
                Ok(())
            }
        })
        .probe(1, |client| async move {
            Ok(!redis::cmd("EXISTS").arg("lock").query_async::<bool>(&mut client.connection()).await?)
        })
}

/// The name of each violated property, and the number of steps to its violation.
fn found(exploration: &Exploration) -> Vec<(&'static str, usize)> {
    exploration.findings.iter().map(|found| (found.oracle.name(), found.violation.step)).collect()
}

#[test]
fn the_same_traces_as_those_of_a_link() {
    let mut runner = Runner::new();
    for (name, clients, faults) in [
        ("exists_set", 3, Faults::none()),
        ("set_nx_px_cad", 3, Faults::none()),
        ("set_nx_get_del", 3, Faults::none()),
        ("set_nx_px_cad", 3, Faults::none().skew(LEASE)),
        ("exists_set", 2, Faults::none().crashes(1)),
        ("set_nx_px_cad", 2, Faults::none().crashes(1)),
    ] {
        let [link, multiplexed, patient] =
            [FrontEnd::GatedConnection, FrontEnd::Multiplexed, FrontEnd::Patient].map(|front_end| {
                explore_all(&mut runner, &lock(name, front_end, clients, faults))
                    .unwrap_or_else(|e| panic!("{name} {faults:?}: {e}"))
            });
        for other in [&multiplexed, &patient] {
            assert_eq!((other.schedules, found(other)), (link.schedules, found(&link)), "{name} {faults:?}");
        }
    }
}

/// A broken connection looks like a missing reply. A client notices a stall only if it has a
/// response timeout.
#[test]
fn the_same_verdicts_as_those_of_a_link() {
    let mut runner = Runner::new();
    let mut explore = |name, front_end, faults| {
        let exploration = explore_all(&mut runner, &lock(name, front_end, 2, faults));
        found(&exploration.unwrap_or_else(|report| panic!("{name} {faults:?}: {report}")))
    };
    let (stalls, lost) = (Faults::none().stalls(1), Faults::none().lost(1));
    for name in ["set_nx_px_cad", "set_nx_ex_del"] {
        assert_eq!(
            explore(name, FrontEnd::Patient, stalls),
            explore(name, FrontEnd::GatedConnection, stalls),
            "{name}"
        );
    }
    for name in ["set_nx_px_cad", "exists_set"] {
        for front_end in [FrontEnd::Multiplexed, FrontEnd::Patient] {
            assert_eq!(
                explore(name, front_end, lost),
                explore(name, FrontEnd::GatedConnection, lost),
                "{name}"
            );
        }
    }
    // If the client times out, its `SET` still runs, and nobody releases the lock: the reply counts
    // as lost. If the whole process stands still, there is no timeout, and the client is inside
    // after its lease.
    let found = explore("set_nx_px_cad", FrontEnd::Multiplexed, stalls);
    assert_eq!(found, [("exclusive-belief", 3)]);
}

async fn send<C: ConnectionLike>(connection: &mut C, words: &[&str]) -> RedisResult<redis::Value> {
    redis::cmd(words[0]).arg(&words[1..]).query_async(connection).await
}

/// If the response timeout passes, the client gets an error, but its request still runs.
fn impatient(front_end: FrontEnd) -> Scenario {
    Scenario::new("impatient").faults(Faults::none().stalls(1)).actors(1, move |client| async move {
        let mut connection = front_end.open(&client).await?;
        send(&mut connection, &["SET", "lock", "1"]).await?;
        Ok(())
    })
}

#[track_caller]
fn check(scenario: &Scenario, schedule: &str, expected: &Expect) {
    let history = replay(&mut Runner::new(), scenario, &schedule.parse().unwrap(), Recording::Full);
    let lines = history.events.iter().filter_map(|event| match &event.kind {
        EventKind::Command { actor, text, reply, .. } => Some(format!("{actor}: {text} → {reply}\n")),
        EventKind::Advanced { by, .. } => Some(format!("+{} ms\n", by.as_millis())),
        EventKind::GaveUp { actor, error } => Some(format!("{actor} gives up: {error}\n")),
        EventKind::Failed { actor, error } => Some(format!("{actor} failed: {error}\n")),
        _ => None,
    });
    expected.assert_eq(&lines.collect::<String>());
}

#[test]
fn half_a_second_is_the_patience_of_redis_rs() {
    check(
        &impatient(FrontEnd::Multiplexed),
        "start A\nwait\nA",
        &expect![[r#"
        A gives up: timed out
        +500 ms
        A: SET lock 1 → OK
    "#]],
    );
    check(
        &impatient(FrontEnd::Patient),
        "start A\nwait\nA",
        &expect![[r#"
        +86400000 ms
        A: SET lock 1 → OK
    "#]],
    );
}

/// Requests on one connection run in the order in which they were sent, whichever clone sent them.
/// Requests on other connections can run between them.
#[test]
fn clones_share_a_connection() {
    let scenario = Scenario::new("clones")
        .actors(1, |client| async move {
            let connection = client.multiplexed().await?;
            let (mut one, mut other) = (connection.clone(), connection);
            let both = tokio::join!(send(&mut one, &["INCR", "n"]), send(&mut other, &["INCR", "n"]));
            assert_eq!((both.0?, both.1?), (redis::Value::Int(1), redis::Value::Int(2)));
            let mut pipeline = redis::pipe();
            pipeline.atomic().cmd("INCR").arg("m").cmd("LPUSH").arg("m").arg("x");
            let error = pipeline.query_async::<redis::Value>(&mut one).await.unwrap_err().to_string();
            assert!(error.contains("WRONGTYPE"), "{error}");
            Ok(())
        })
        .actors(1, |client| async move {
            send(&mut client.multiplexed().await?, &["GET", "n"]).await?;
            Ok(())
        });
    assert_eq!(explore_all(&mut Runner::new(), &scenario).unwrap().schedules, 3);
}
