//! What the judges have in common that run programs by brute force in worlds of their own: the same
//! programs as a scenario, and what the explorer makes of it.

use std::collections::{BTreeMap, BTreeSet};

use harness::actor::Actor;
use harness::execution::{Learning, Runner};
use harness::explore::Dpor;
use harness::sim::Recording;
use harness::trace::{EventKind, History};
use harness::{Client, Scenario, Schedule, replay};
use redis::aio::ConnectionLike;

use crate::explorer::oracles::send;

/// The commands of each client.
pub(super) type Programs = Vec<Vec<&'static str>>;

/// A scenario in which each client sends the commands of its program, and ends at the first error.
/// The number after `@` at the end of a command says to which replica it goes.
pub(super) fn with_programs<C: ConnectionLike + Send + 'static>(
    scenario: Scenario,
    programs: &Programs,
    connect: fn(&Client, Option<usize>) -> C,
) -> Scenario {
    programs.iter().fold(scenario, |scenario, program| {
        let program = program.clone();
        scenario.actors(1, move |client: Client| {
            let program = program.clone();
            async move {
                let mut links = BTreeMap::new();
                for command in program {
                    let (command, replica) = place_of(command);
                    let link = links.entry(replica).or_insert_with(|| connect(&client, replica));
                    let words: Vec<&str> = command.split(' ').collect();
                    if send::<redis::Value>(link, &words).await.is_err() {
                        break;
                    }
                }
                Ok(())
            }
        })
    })
}

/// A command, and the replica to which it goes.
pub(super) fn place_of(command: &str) -> (&str, Option<usize>) {
    match command.split_once(" @") {
        Some((command, replica)) => (command, Some(replica.parse().unwrap())),
        None => (command, None),
    }
}

/// What the client says that judges the end.
fn data_at_end(history: &History) -> Option<&String> {
    history.events.iter().find_map(|event| match &event.kind {
        EventKind::Judged { violation, .. } => violation.as_ref(),
        _ => None,
    })
}

/// The replies of all clients, and the data at the end.
fn outcome(history: &History, clients: usize) -> String {
    let mut replies = vec![Vec::new(); clients];
    for event in &history.events {
        match &event.kind {
            // The client does not see the reply of a connection that has ended.
            EventKind::Command { actor: Actor(actor), reply, .. }
                if *actor < clients && reply != "broken pipe" =>
            {
                replies[*actor].push(reply.clone());
            }
            _ => {}
        }
    }
    format!("{replies:?}\n{}", data_at_end(history).map_or("", String::as_str))
}

/// Explores the programs, whose clients are those of the scenario. Expects the outcomes of brute
/// force.
#[track_caller]
pub(super) fn expect_outcomes(all: &BTreeSet<String>, scenario: &Scenario, programs: &Programs) {
    let mut runner = Runner::new().learning(Learning::Eager);
    let (mut explored, mut dpor) = (BTreeSet::new(), Dpor::default());
    while let Some(executed) = dpor.run_next(&mut runner, scenario) {
        if !dpor.is_blocked() {
            let schedule = Schedule { steps: executed.steps.clone() };
            let history = replay(&mut runner, scenario, &schedule, Recording::Full);
            // What was known of servers and clients led to the same end.
            assert_eq!(data_at_end(&executed.history), data_at_end(&history), "{schedule}");
            explored.insert(outcome(&history, programs.len()));
        }
    }
    let missed: Vec<_> = all.difference(&explored).collect();
    let invented: Vec<_> = explored.difference(all).collect();
    assert!(
        missed.is_empty() && invented.is_empty(),
        "{scenario:?}:\nmissed {missed:#?}\ninvented {invented:#?}"
    );
}
