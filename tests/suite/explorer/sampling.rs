//! Random schedules: equal seeds give equal schedules, and every sampling method finds the bugs
//! that it is for.

use std::time::Duration;

use harness::check::{Participants, scenario};
use harness::execution::Runner;
use harness::explore::{Method, Sampler, explore_random};
use harness::{Client, Faults, Scenario};
use locks::registry::{ALGORITHMS, FaultClass, Property};
use redis::cmd;

use FaultClass::{Crash, Order, Skew, Slow};
use Property::{ExclusiveFact, OverIssue, OwnerSafe, Recovers};

const METHODS: [&[Method]; 6] = [
    &[Method::Pos],
    &[Method::Pct(3)],
    &[Method::Pct(5)],
    &[Method::UniformWalk],
    &[Method::RandomWalk],
    Method::PORTFOLIO,
];

fn of_three(name: &str, class: FaultClass) -> Scenario {
    let algorithm = ALGORITHMS.iter().find(|algorithm| algorithm.name == name).unwrap();
    scenario(algorithm, class, Participants { clients: 3, permits: 1, readers: None }).prompt_replies()
}

/// The number of schedules up to the first that violates the property, at most `most`.
fn schedules_to(
    runner: &mut Runner,
    scenario: &Scenario,
    property: Property,
    (sampler, most): (&mut Sampler, u64),
) -> u64 {
    let is_violated = |runner: &mut Runner, sampler: &mut Sampler| {
        let (history, _) = sampler.run(runner, scenario);
        scenario.oracles().any(|oracle| oracle.name() == property.name() && oracle.check(&history).is_some())
    };
    (1..most).find(|_| is_violated(runner, sampler)).unwrap_or(most)
}

const MAX: u64 = 2_000;
const SEEDS: u64 = 5;

/// The number of schedules that each method needs to find each bug, as the median over `SEEDS`
/// seeds. The upper bounds are in the order of `METHODS`. A method that seldom switches between
/// clients rarely stalls a client, runs others, and then resumes it.
#[test]
fn schedules_to_the_known_bugs() {
    let mut runner = Runner::new();
    let mut wrong = Vec::new();
    for (name, class, property, bounds) in [
        ("exists_set", Order, ExclusiveFact, [20, 60, 60, 20, 20, 30]),
        ("setnx_expire", Crash, Recovers, [30; 6]),
        ("set_nx_ex_del", Slow, OwnerSafe, [600, MAX, MAX, MAX, 1_200, 600]),
        ("set_nx_ex_del", Slow, ExclusiveFact, [1_500, MAX, MAX, MAX, 1_500, 1_500]),
        ("set_nx_get_del", Slow, OwnerSafe, [1_500, MAX, MAX, MAX, MAX, 1_500]),
        ("zset_semaphore", Order, OverIssue, [60; 6]),
        ("zset_semaphore", Skew, OverIssue, [60; 6]),
        ("fair_semaphore_posted", Order, OverIssue, [80; 6]),
        ("fair_semaphore_posted", Crash, Recovers, [200, 60, 60, 60, MAX, 120]),
        ("fair_semaphore_weighted", Order, OverIssue, [80; 6]),
    ] {
        let scenario = of_three(name, class);
        let medians = METHODS.map(|methods| {
            let mut needed: Vec<u64> = (0..SEEDS)
                .map(|seed| {
                    let mut sampler = Sampler::new(methods, seed);
                    schedules_to(&mut runner, &scenario, property, (&mut sampler, MAX))
                })
                .collect();
            needed.sort_unstable();
            needed[needed.len() / 2]
        });
        println!("{name} {class} {property}: {medians:?}");
        if medians.iter().zip(bounds).any(|(median, bound)| *median > bound) {
            wrong.push(format!("{name} {class} {property}: {medians:?} instead of {bounds:?}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// The steps of 200 schedules.
fn sampled_steps(methods: &'static [Method], seed: u64) -> Vec<Vec<harness::schedule::Step>> {
    let (mut runner, scenario) = (Runner::new(), of_three("zset_semaphore", Slow));
    let mut sampler = Sampler::new(methods, seed);
    (0..200).map(|_| sampler.run(&mut runner, &scenario).0.into_history().steps).collect()
}

#[test]
fn the_same_seed_gives_the_same_schedules() {
    for methods in METHODS {
        assert_eq!(sampled_steps(methods, 7), sampled_steps(methods, 7), "{methods:?}");
        assert_ne!(sampled_steps(methods, 7), sampled_steps(methods, 8), "{methods:?}");
    }
}

/// The sampler also draws the number of faults, from none to the whole budget.
#[test]
fn faults_are_drawn_within_the_budgets() {
    let scenario = of_three("set_nx_ex_del", Slow).faults(harness::Faults::none().crashes(2).stalls(1));
    let (mut runner, mut sampler) = (Runner::new(), Sampler::new(Method::PORTFOLIO, 0));
    let mut crashes = [0; 3];
    for _ in 0..300 {
        let (history, _) = sampler.run(&mut runner, &scenario);
        crashes[history.steps.iter().filter(|step| step.to_string().starts_with("crash")).count()] += 1;
    }
    assert!(crashes.iter().all(|&schedules| schedules > 20), "{crashes:?}");
}

/// A sample of a small scenario sees all of its traces, so the curve ends flat.
#[test]
fn coverage_is_the_number_of_different_traces() {
    let mut runner = Runner::new();
    let scenario = of_three("setnx", Order);
    let sampled = explore_random(&mut runner, &scenario, 2_000, 0).unwrap();
    println!("{}", sampled.coverage);
    let curve = sampled.coverage.curve();
    assert_eq!(curve[0], (1, 1));
    assert_eq!(curve.last(), Some(&(2_000, sampled.coverage.traces())));
    assert!(curve.is_sorted_by_key(|&(_, traces)| traces), "{curve:?}");
}

/// The samples of ten seeds all find bugs of five steps that need a stall at the right place.
#[test]
fn every_seed_finds_a_stall_at_the_right_place() {
    let mut runner = Runner::new();
    let unchecked_del = of_three("set_nx_ex_del", Slow);
    let of_leases = leases_of_different_length();
    for (name, scenario) in [("unchecked DEL", unchecked_del), ("leases", of_leases)] {
        runner.learn_thresholds(&scenario);
        let needed: Vec<u64> = (0..10)
            .map(|seed| {
                let mut sampler = Sampler::new(Method::PORTFOLIO, seed);
                schedules_to(&mut runner, &scenario, ExclusiveFact, (&mut sampler, 1_000))
            })
            .collect();
        println!("{name}: {needed:?}");
        assert!(needed.iter().all(|&schedules| schedules < 1_000), "{name}: {needed:?}");
    }
}

/// Each client removes the grants that are over by its own lease. So the client with the shorter
/// lease ends those of the others.
fn leases_of_different_length() -> Scenario {
    const TAKE: &str = "
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, ARGV[1] - ARGV[2])
if redis.call('ZCARD', KEYS[1]) > 0 then return 0 end
return redis.call('ZADD', KEYS[1], ARGV[1], ARGV[3])";
    let act = |client: Client| async move {
        let (mut link, mut again) = (client.connection(), client.connection());
        cmd("PING").exec_async(&mut link).await?;
        let since = client.true_time();
        let mut take = cmd("EVAL");
        take.arg(TAKE).arg(1).arg("permits").arg(since.as_millis() as u64);
        take.arg(client.lease().as_millis() as u64).arg(client.name());
        if take.query_async(&mut link).await? {
            let release =
                async { cmd("ZREM").arg("permits").arg(client.name()).exec_async(&mut again).await };
            client.hold("section").since(since).until(release).await?;
        }
        Ok(())
    };
    Scenario::new("leases of different length")
        .faults(Faults::none().stalls(1))
        .lease(Duration::from_secs(10))
        .always(harness::oracle::ExclusiveFact::of("section"))
        .actors(2, act)
        .actors_with_lease(1, Duration::from_secs(1), act)
        .prompt_replies()
}
