//! Explorations repeat what clients, servers and probes did before. Their histories are those of
//! explorations in which everything runs.

use std::sync::Arc;
use std::time::Duration;

use harness::execution::{Learning, Runner};
use harness::explore::Dpor;
use harness::oracle::Success;
use harness::trace::History;
use harness::{Client, Faults, Record, Scenario};
use locks::Subscribe as _;

use super::oracles::send;
use super::outcomes::{probed, watched};
use super::traces::kinds::kinds;
use super::traces::programs::rarities;
use crate::bounds;

/// Explores again and again, and expects the histories of an exploration in which everything runs.
#[track_caller]
fn expect_equal_histories(scenario: &Scenario) {
    let real = histories(&mut Runner::new().learning(Learning::Off), scenario);
    let mut runner = Runner::new().learning(Learning::Eager);
    for exploration in 1..=4 {
        let again = histories(&mut runner, scenario);
        assert!(again == real, "exploration {exploration}: {scenario:?}");
    }
}

/// The histories of an exploration, but not of one that is large.
fn histories(runner: &mut Runner, scenario: &Scenario) -> Vec<Arc<History>> {
    runner.learn_thresholds(scenario);
    let mut dpor = Dpor::default();
    std::iter::from_fn(|| Some(dpor.run_next(runner, scenario)?.history)).take(200).collect()
}

#[test]
fn random_programs() {
    let kinds = kinds().into_iter().map(|(_, kind)| kind).chain(rarities());
    for (nth, kind) in (1..).zip(kinds) {
        for seed in 0..bounds::REPEATS.get() {
            // Libraries of functions are more than a server learns.
            let program = probed(kind.program(seed + 10_000_000 * nth).servers(3));
            expect_equal_histories(&if seed % 3 == 1 { watched(program) } else { program });
        }
    }
}

/// The server has the subscription until the request to end it arrives. The client has closed the
/// connection before.
#[test]
fn a_subscription_lasts_until_its_late_end() {
    let subscribes = |client: Client| async move {
        let subscription = client.connection().subscribe("c").await?;
        _ = subscription.unsubscribe().await;
        Ok(())
    };
    let counts = |client: Client| async move {
        send::<redis::Value>(&mut client.connection(), &["PUBSUB", "NUMSUB", "c"]).await?;
        Ok(())
    };
    let scenario = Scenario::new("late end").actors(1, subscribes).actors(1, counts).always(Success);
    expect_equal_histories(&scenario.faults(Faults::none().delays(1)));
}

/// Two executions end with equal data. In one of them a client is still inside, and a probe ends
/// its grant.
#[test]
fn a_probe_ends_a_grant() {
    let scenario = Scenario::new("inside at the end").actors(1, |client| async move {
        let mut link = client.connection();
        send::<()>(&mut link, &["SET", "k", "v"]).await?;
        if !send(&mut link, &["EXISTS", "other"]).await? {
            std::mem::forget(client.hold("cs").record(Record::Key("k".into())).enter());
        }
        Ok(())
    });
    let scenario = scenario
        .actors(1, |client| async move { Ok(send(&mut client.connection(), &["SET", "other", "1"]).await?) });
    let probed =
        scenario.probe(1, |client| async move { Ok(send(&mut client.connection(), &["DEL", "k"]).await?) });
    expect_equal_histories(&probed);
}

/// Two executions end with equal data, and at equal times. In one of them a clock has jumped.
#[test]
fn a_probe_depends_on_the_clock_of_the_server() {
    let jumps = Faults::none().server_jump(Duration::from_secs(6));
    let scenario = Scenario::new("jump").servers(2).faults(jumps).actors(1, |client| async move {
        for server in 0..2 {
            send::<()>(&mut client.connection_to(server), &["SET", "k", "v", "PX", "10000"]).await?;
        }
        send::<()>(&mut client.connection_to(0), &["PTTL", "k"]).await?;
        Ok(send(&mut client.connection_to(1), &["PTTL", "k"]).await?)
    });
    let probed = scenario.probe(1, |client| async move {
        Ok(send::<i64>(&mut client.connection(), &["PTTL", "k"]).await? > 5_000)
    });
    expect_equal_histories(&probed);
}

/// Two timers of a client fire together: its response timeout, and one of its own. It sends its
/// next request in the same turn, and that has a reply of its own.
#[test]
fn a_client_that_gives_up_and_leaves_waits_for_its_next_reply() {
    let limit = Duration::from_millis(5);
    let scenario = Scenario::new("leaves").response_timeout(limit).faults(Faults::none().stalls(1));
    let leaves = scenario.always(Success).actors(2, move |client| async move {
        let mut link = client.connection();
        _ = tokio::time::timeout(limit, send::<()>(&mut link, &["SET", "k", "v"])).await;
        _ = send::<redis::Value>(&mut link, &["GET", "k"]).await;
        Ok(())
    });
    expect_equal_histories(&leaves);
}

/// If timers fire together, the one that was armed first fires first.
#[test]
fn timers_that_fire_together() {
    let scenario = Scenario::new("together").actors(2, |client| async move {
        send::<()>(&mut client.connection(), &["INCR", "n"]).await?;
        tokio::time::sleep(Duration::from_millis(5)).await;
        drop(client.hold("cs").enter());
        Ok(())
    });
    expect_equal_histories(&scenario);
}

/// B's timer fires at 12 ms. First it is known only that it does not fire before the one of A,
/// which may be at 5 ms. In other executions, the one of A is at 20 ms.
#[test]
fn a_timer_that_is_not_known_may_be_the_next() {
    let sleeps = |scenario: Scenario, early, late| {
        scenario.actors(1, move |client| async move {
            let mut link = client.connection();
            let is_late = send(&mut link, &["EXISTS", "late"]).await?;
            tokio::time::sleep(Duration::from_millis(if is_late { late } else { early })).await;
            Ok(send(&mut link, &["INCR", "n"]).await?)
        })
    };
    for faults in [Faults::none(), Faults::none().stalls(1)] {
        let scenario = sleeps(Scenario::new("unknown timers").faults(faults), 5, 20);
        let scenario = sleeps(scenario, 12, 12).actors(1, |client| async move {
            Ok(send(&mut client.connection(), &["SET", "late", "1"]).await?)
        });
        expect_equal_histories(&scenario);
    }
}

/// A client that stands still has a task that runs on. What it does then is not what it does at the
/// same time if it goes on before.
#[test]
fn a_task_runs_on_while_its_client_stands_still() {
    let scenario = Scenario::new("heartbeat").lease(Duration::from_millis(10));
    let scenario = scenario.faults(Faults::none().stalls(1)).actors(1, |client| async move {
        let (mut link, mut other) = (client.connection(), client.connection());
        let alive = tokio::spawn(async move {
            loop {
                _ = send::<()>(&mut other, &["SET", "alive", "1", "PX", "5"]).await;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        let popped = send::<Option<[String; 2]>>(&mut link, &["BLPOP", "jobs", "0.005"]);
        _ = tokio::time::timeout(Duration::from_millis(8), popped).await;
        alive.abort();
        Ok(())
    });
    expect_equal_histories(&scenario);
}

/// Commands wait on a server, in an order. They end by what others push, by their timeouts, because
/// their clients no longer wait, and because the server hangs up.
#[test]
fn commands_that_wait_on_a_server() {
    let blocks = |scenario: Scenario, seconds: &'static str, patience| {
        scenario.actors(1, move |client| async move {
            let mut link = client.connection();
            let words = ["BLPOP", "jobs", seconds];
            let popped = send::<Option<[String; 2]>>(&mut link, &words);
            let popped = tokio::time::timeout(Duration::from_millis(patience), popped).await;
            if let Ok(Ok(Some([_, job]))) = popped {
                send::<()>(&mut link, &["SADD", "done", &job]).await?;
            }
            Ok(())
        })
    };
    for faults in
        [Faults::none(), Faults::none().stalls(1), Faults::none().crashes(1), Faults::none().restarts(1)]
    {
        let scenario =
            blocks(Scenario::new("workers").lease(Duration::from_millis(8)).faults(faults), "0.01", 20);
        let scenario = blocks(scenario, "0", 6).actors(1, |client| async move {
            let mut link = client.connection();
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok(send::<()>(&mut link, &["RPUSH", "jobs", "one"]).await?)
        });
        expect_equal_histories(&scenario);
    }
}
