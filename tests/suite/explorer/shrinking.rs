//! A shrunk schedule is the simplest one for its bug. Different schedules that show one bug shrink
//! to the same schedule.

use std::collections::BTreeMap;

use harness::check::{Participants, scenario};
use harness::execution::Runner;
use harness::explore::{DepthFirst, Method, Sampler, explore_all};
use harness::oracle::{self, Oracle};
use harness::shrink::{Cost, shrink};
use harness::sim::Recording;
use harness::{Faults, Scenario, Schedule};
use locks::Record;
use locks::registry::{ALGORITHMS, FaultClass, Property};

use super::oracles::{SOUND, send};
use crate::bounds;

use FaultClass::{Crash, Lost, Order, Server, Skew, Slow};
use Property::{ExclusiveBelief, ExclusiveFact, OverIssue, OwnerSafe, Recovers};

/// This share of the random failing schedules must shrink to the simplest one.
const SIMPLEST_PERCENT: usize = 99;
/// The most steps for which brute force is used.
const BRUTE_FORCE_STEPS_MAX: usize = 6;

fn of(name: &str, class: FaultClass, clients: usize) -> Scenario {
    let algorithm = ALGORITHMS.iter().find(|algorithm| algorithm.name == name).unwrap();
    scenario(algorithm, class, Participants { clients, permits: 1, readers: None })
}

/// The fewest steps that violate the oracle, found by brute force.
fn fewest_steps(runner: &mut Runner, scenario: &Scenario, oracle: &dyn Oracle) -> usize {
    let is_violated_within = |&steps_max: &usize| {
        let mut depth_first = DepthFirst::default();
        while depth_first.next_schedule(steps_max) {
            if oracle.check(&runner.run(scenario, &mut depth_first, Recording::Lean)).is_some() {
                return true;
            }
        }
        false
    };
    (1..).find(is_violated_within).unwrap()
}

#[test]
fn random_schedules_become_the_simplest() {
    let schedules = bounds::SHRUNK.get() as usize;
    let mut runner = Runner::new();
    let mut wrong = Vec::new();
    for (name, class, property, clients) in [
        ("exists_set", Order, ExclusiveFact, 3),
        ("exists_set", Order, OwnerSafe, 3),
        ("setnx_expire", Crash, Recovers, 3),
        ("set_nx_ex_del", Slow, ExclusiveBelief, 3),
        ("set_nx_ex_del", Slow, OwnerSafe, 3),
        ("set_nx_ex_del", Slow, ExclusiveFact, 3),
        ("set_nx_get_del", Slow, OwnerSafe, 3),
        ("set_nx_get_del", Slow, ExclusiveFact, 3),
        ("zset_semaphore", Order, OverIssue, 3),
        ("zset_semaphore", Skew, OverIssue, 2),
        ("zset_semaphore", Slow, ExclusiveBelief, 2),
        ("fair_semaphore_comment", Order, OverIssue, 2),
        ("getset_takeover", Slow, ExclusiveBelief, 2),
        ("renewed_hash", Slow, ExclusiveBelief, 2),
        ("setnx", Lost, ExclusiveFact, 3),
        ("set_nx_get_del", Lost, OwnerSafe, 3),
        ("reentrant_hash", Lost, ExclusiveFact, 2),
        ("mutex", Server, ExclusiveFact, 2),
    ] {
        let scenario = of(name, class, clients);
        let explored = explore_all(&mut runner, &scenario).unwrap();
        let simplest = explored.finding(property.name()).unwrap();
        let oracle = &simplest.oracle;
        // In other classes time may move. There a start is a step of its own, so brute force counts
        // more steps.
        if simplest.cost.steps <= BRUTE_FORCE_STEPS_MAX && class == Order {
            assert_eq!(
                fewest_steps(&mut runner, &scenario, &**oracle),
                simplest.cost.steps,
                "{name} {property}"
            );
        }
        let mut sampler = Sampler::new(Method::PORTFOLIO, 0);
        let mut shrunk: BTreeMap<(Cost, String), usize> = BTreeMap::new();
        while shrunk.values().sum::<usize>() < schedules {
            let (history, _) = sampler.run(&mut runner, &scenario);
            if let Some(violation) = oracle.check(&history) {
                let failing = Schedule { steps: history.steps[..violation.step].to_vec() };
                let found = shrink(&mut runner, &scenario, &failing, oracle).unwrap();
                *shrunk.entry((found.cost, found.schedule.to_string())).or_default() += 1;
            }
        }
        let expected = (simplest.cost.clone(), simplest.schedule.to_string());
        let same = shrunk.get(&expected).copied().unwrap_or_default();
        println!("{name} {class} {property}: {same} of {schedules} as {:?}", expected.1);
        // A schedule that is simpler than the simplest of all traces means that the explorer missed
        // it.
        if same * 100 < schedules * SIMPLEST_PERCENT || shrunk.keys().any(|other| *other < expected) {
            let all: Vec<_> = shrunk.iter().map(|((_, text), n)| (n, text)).collect();
            wrong.push(format!("{name} {class} {property}: {:?}, and {all:?}", expected.1));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// Actors are renamed in the order of their first steps, and time moves no further than necessary.
#[test]
fn equal_bugs_look_equal() {
    let mut runner = Runner::new();
    let scenario = of("set_nx_ex_del", Slow, 3);
    let oracle = scenario.oracles().find(|oracle| oracle.name() == "exclusive-belief").unwrap();
    let mut shrunk = |text: &str| {
        let found = shrink(&mut runner, &scenario, &text.parse().unwrap(), oracle).unwrap();
        (found.actors, found.schedule.to_string())
    };
    let expected = (2, "A\ntime +10001ms\nB\n".to_owned());
    assert_eq!(shrunk("C\nB\ntime +10001ms\nA"), expected);
    assert_eq!(shrunk("start A\nB\nstart C\nB\nA\ntime +10001ms\nC"), expected);
}

/// An actor with other code stays, even if it does nothing in the schedule.
#[test]
fn only_actors_with_equal_code_are_removed() {
    let scenario = Scenario::new("two codes").always(oracle::ExclusiveFact::of("cs"));
    let scenario = scenario.actors(2, |client| async move {
        let (_hold, mut connection) = (client.hold("cs").enter(), client.connection());
        redis::cmd("INCR").arg("first").exec_async(&mut connection).await?;
        Ok(redis::cmd("INCR").arg("second").exec_async(&mut connection).await?)
    });
    let alike = explore_all(&mut Runner::new(), &scenario).unwrap();
    assert_eq!(alike.findings[0].actors, 2);
    let of_two_codes = scenario.actors(1, |_| async { Ok(()) });
    let explored = explore_all(&mut Runner::new(), &of_two_codes).unwrap();
    assert_eq!(explored.findings[0].actors, 3);
}

/// If several spans of time show the violation, the shortest one is left. The client that gets the
/// lock then has a second command, which it would not send without that time.
#[test]
fn time_moves_no_further_than_necessary() {
    let scenario = Scenario::new("two leases").faults(Faults::none().stalls(1)).always(oracle::OwnerSafe);
    let scenario = scenario.before(|client| async move {
        Ok(send::<()>(&mut client.connection(), &["SET", "other", "1", "PX", "20000"]).await?)
    });
    let scenario = scenario.actors(2, |client| async move {
        let mut link = client.connection();
        if send(&mut link, SOUND.take).await? {
            send::<()>(&mut link, &["INCR", "grants"]).await?;
            let hold = client.hold("cs").record(Record::Key("lock".into()));
            hold.until(send::<()>(&mut link, &["DEL", "lock"])).await?;
        }
        Ok(())
    });
    let long = "A\nA\ntime +20001ms\nB\nB\nA".parse().unwrap();
    let oracle = scenario.oracles().next().unwrap();
    let found = shrink(&mut Runner::new(), &scenario, &long, oracle).unwrap();
    assert_eq!(found.schedule.to_string(), "A\nA\ntime +10001ms\nB\nB\nA\n");
}
