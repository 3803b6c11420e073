//! A service that polls, beside brute force. There it is an actor that polls a few times, and the
//! rest comes at the end: more polls in between would find nothing, and so change nothing.

use std::collections::BTreeSet;

use harness::client::GatedConnection;
use harness::execution::{Learning, Runner};
use harness::explore::{DepthFirst, Dpor};
use harness::sim::Recording;
use harness::trace::{EventKind, History};
use harness::{Client, Scenario, Schedule, replay};
use redis::{AsyncCommands as _, RedisResult};

use super::traces::commands::{of, sends};
use crate::bounds;

/// As many as the others can push, so that the service can take each element when it likes.
const POLLS: usize = 3;

const COMMANDS: [&str; 10] = [
    "RPUSH l x",
    "RPUSH l y",
    "LPOP l",
    "LLEN l",
    "LLEN d",
    "DEL l",
    "RPUSH d z",
    "LMOVE l d LEFT RIGHT",
    "RENAME d l",
    "LRANGE d 0 -1",
];

/// Moves an element of one list to another, if there is one.
async fn poll(link: &mut GatedConnection, looks_first: bool) -> RedisResult<bool> {
    if looks_first && link.llen::<_, u64>("l").await? == 0 {
        return Ok(false);
    }
    let Some(found) = link.lpop::<_, Option<String>>("l", None).await? else { return Ok(false) };
    () = link.rpush("d", &found).await?;
    Ok(true)
}

/// An actor for each of these programs, whatever its replies are.
fn others(programs: &[Vec<String>; 2]) -> Scenario {
    let scenario = Scenario::new(format!("polled beside {programs:?}")).servers(2);
    programs.iter().cloned().fold(scenario, sends)
}

/// Ends with an error that tells the data, after the polls that are left.
fn told(scenario: Scenario, polls: bool) -> Scenario {
    scenario.finally("the data", move |client, _| async move {
        let mut link = client.connection();
        while polls && poll(&mut link, false).await? {}
        let [l, d] = [link.lrange("l", 0, -1).await?, link.lrange("d", 0, -1).await?];
        let data: [Vec<String>; 2] = [l, d];
        Err(format!("{data:?}").into())
    })
}

/// Everything that the others see, and the data at the end.
fn outcome(history: &History) -> String {
    let seen = |actor: &str| -> String {
        let own = history.events.iter().filter_map(|event| match &event.kind {
            EventKind::Command { actor: of, text, reply, .. } if of.to_string() == actor => {
                Some(format!("{actor}: {text} -> {reply}\n"))
            }
            _ => None,
        });
        own.collect()
    };
    let data = history.events.iter().find_map(|event| match &event.kind {
        EventKind::Judged { violation, .. } => violation.clone(),
        _ => None,
    });
    seen("A") + &seen("B") + &data.expect("the end is judged")
}

/// The outcomes of a scenario whose third client is a service that polls.
fn explored(scenario: &Scenario) -> BTreeSet<String> {
    let (mut runner, mut dpor) = (Runner::new().learning(Learning::Eager), Dpor::default());
    let mut outcomes = BTreeSet::new();
    while let Some(history) = dpor.run_next(&mut runner, scenario) {
        if !dpor.is_blocked() {
            let schedule = Schedule { steps: history.steps.clone() };
            outcomes.insert(outcome(&replay(&mut runner, scenario, &schedule, Recording::Full)));
        }
    }
    outcomes
}

/// The outcomes of all orders.
fn brute_force(scenario: &Scenario) -> BTreeSet<String> {
    let (mut runner, mut depth_first) = (Runner::new(), DepthFirst::default());
    let mut outcomes = BTreeSet::new();
    while depth_first.next_schedule(usize::MAX) {
        outcomes.insert(outcome(&runner.run(scenario, &mut depth_first, Recording::Full)));
    }
    outcomes
}

fn compare(programs: &[Vec<String>; 2], looks_first: bool) -> usize {
    let serves = move |client: Client| async move {
        let mut link = client.connection();
        loop {
            poll(&mut link, looks_first).await?;
        }
    };
    let polls = move |client: Client| async move {
        let mut link = client.connection();
        for _ in 0..POLLS {
            poll(&mut link, looks_first).await?;
        }
        Ok(())
    };
    let explored = explored(&told(others(programs).services(1, serves), false));
    let all = brute_force(&told(others(programs).actors(1, polls), true));
    assert_eq!(explored, all, "{programs:?}");
    all.len()
}

#[test]
fn brute_force_finds_the_same_outcomes_beside_a_service_that_polls() {
    let (mut outcomes, mut programs) = (0, 0);
    let all = COMMANDS.len().pow(3);
    // The factor has no divisor in common with the number of all, so none comes twice.
    for nth in (0..bounds::POLLED.get() as usize).map(|n| n * 377 % all) {
        let command = |digit: u32| COMMANDS[nth / COMMANDS.len().pow(digit) % COMMANDS.len()];
        let programs_of = [of(&[command(0), command(1)]), of(&[command(2)])];
        outcomes += compare(&programs_of, nth % 2 == 1);
        programs += 1;
    }
    println!("{programs} programs, {outcomes} outcomes");
    assert!(outcomes > 2 * programs, "most programs have one outcome");
}
