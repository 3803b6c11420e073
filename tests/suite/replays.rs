//! Counterexamples of the emulator, replayed on a real server: the same replies, the same violation.

use harness::history::{History, What};
use harness::oracle::{Oracle as _, OverIssue};
use harness::verdict::{Size, scenario};
use harness::{Recording, Replay, Runner, Schedule, Server, explore_all};
use locks::{ALGORITHMS, FaultClass};

use crate::redis_server;

/// What each client sent and got, in order.
fn conversation(history: &History) -> Vec<String> {
    let lines = history.events.iter().filter_map(|event| match &event.what {
        What::Command { actor, text, reply, .. } => Some(format!("{actor}: {text} → {reply}")),
        _ => None,
    });
    lines.collect()
}

/// The ZINTERSTORE bug on both: each step is one command, and after it the two servers have said the same.
#[test]
fn the_counterexample_of_fair_semaphore_comment_is_real() {
    let algorithm = ALGORITHMS.iter().find(|algorithm| algorithm.name == "fair_semaphore_comment").unwrap();
    let scenario = scenario(algorithm, FaultClass::Order, Size { clients: 2, permits: 1 });
    let mut runner = Runner::new();
    let exploration = explore_all(&mut runner, &scenario).unwrap();
    let schedule: &Schedule = &exploration.finding("over-issue").unwrap().schedule;
    let emulated = runner.run(&scenario, &mut Replay::new(schedule), Recording::Full);
    let over_issue = OverIssue::of("cs", 1);
    let violation = over_issue.check(&emulated).unwrap();
    assert_eq!(violation.what, "A and B hold 2 of 1 permits, each with a lease that still runs");

    let Some(server) = redis_server::borrow() else { return };
    let real = Server::Redis(redis::Client::open(server.url()).unwrap());
    let real = runner.run_on(real, &scenario, &mut Replay::new(schedule), Recording::Full);
    assert_eq!(conversation(&real), conversation(&emulated));
    assert_eq!(over_issue.check(&real), Some(violation));
}
