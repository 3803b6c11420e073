//! `proptest` over schedules and over the parameters of scenarios.

use std::path::Path;
use std::time::Duration;

use expect_test::expect;
use harness::execution::Runner;
use harness::fault::FaultKind;
use harness::oracle::{ExclusiveBelief, ExclusiveFact, NoLeak, OverIssue, OwnerSafe, Recovers};
use harness::proptest::{Parameters, RegressionFile, Trial, schedules, trials};
use harness::schedule::Step;
use harness::sim::Recording;
use harness::{Client, Faults, Scenario, replay};
use locks::registry::Algorithm;
use locks::{Connection, Terms};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::bounds;

/// The regression file: later runs begin with the trials that failed once.
const KEPT: &str = "suite/data/properties.trials";

fn config(cases: u32) -> Config {
    Config { cases, failure_persistence: Some(Box::new(RegressionFile::in_file(KEPT))), ..Config::default() }
}

/// Clients that each acquire one permit twice.
fn scenario(name: &str, parameters: &Parameters) -> Scenario {
    let algorithm: &'static Algorithm =
        locks::registry::ALGORITHMS.iter().find(|algorithm| algorithm.name == name).unwrap();
    let Parameters { clients, permits, lease, faults } = *parameters;
    let terms = Terms { key: "lock".into(), lease, permits };
    let open = move |client: &Client| {
        algorithm.open(vec![Connection::new(client.connection())], client.env(), &terms)
    };
    let open_probe = open.clone();
    Scenario::new(name)
        .lease(lease)
        .faults(faults)
        .actors(clients, move |client| {
            let mut lock = open(&client);
            async move {
                for _ in 0..2 {
                    let since = client.true_time();
                    if lock.try_acquire().await? {
                        client.hold("cs").since(since).record(lock.record()).until(lock.release()).await?;
                    }
                }
                Ok(())
            }
        })
        .probe(permits, move |client| {
            let mut lock = open_probe(&client);
            async move { Ok(lock.try_acquire().await?) }
        })
}

/// The properties that every lock must have.
fn sound(scenario: Scenario) -> Scenario {
    scenario.always(OwnerSafe).always(Recovers).always(NoLeak)
}

prop_compose! {
    /// The clients come last, because shrinking reduces the parameters in this order and the fewest
    /// clients depend on the permits.
    fn parameters()(
        permits in 1u32..=3,
        lease_s in 1u64..=30,
        skew_ms in 0u64..=30_000,
        crashes in 0u32..=2,
        stalls in 0u32..=2,
        clients in 1usize..=4,
    ) -> Parameters {
        let faults = Faults::none().crashes(crashes).stalls(stalls).skew(Duration::from_millis(skew_ms));
        Parameters { clients, permits, lease: Duration::from_secs(lease_s), faults }
    }
}

fn mutex(parameters: &Parameters) -> Scenario {
    sound(scenario("mutex", parameters)).always(ExclusiveFact::of("cs"))
}

fn semaphore(parameters: &Parameters) -> Scenario {
    sound(scenario("semaphore", parameters)).always(OverIssue::of("cs", parameters.permits))
}

fn broken_semaphore(parameters: &Parameters) -> Scenario {
    scenario("fair_semaphore_comment", parameters).always(OverIssue::of("cs", parameters.permits))
}

fn broken_lock(parameters: &Parameters) -> Scenario {
    scenario("set_nx_ex_del", parameters).always(ExclusiveBelief::of("cs", parameters.permits))
}

fn two_clients() -> Parameters {
    Parameters { clients: 2, permits: 1, lease: Duration::from_secs(1), ..Parameters::default() }
}

fn all_faults() -> Parameters {
    let faults = Faults::none().crashes(1).stalls(2).skew(Duration::from_secs(10));
    Parameters { clients: 3, faults, ..Parameters::default() }
}

proptest! {
    #![proptest_config(config(bounds::TRIALS.get() as u32))]

    /// Random schedules, with all faults at once.
    #[test]
    fn mutex_is_exclusive_under_every_schedule(trial in trials(Just(all_faults()), mutex).regression_file(KEPT)) {
        trial.run()?;
    }

    /// Random schedules, and random parameters.
    #[test]
    fn semaphore_never_over_issues(trial in trials(parameters(), semaphore).regression_file(KEPT)) {
        trial.run()?;
    }
}

fn passes(trial: &Trial) -> Result<(), TestCaseError> {
    trial.run()?;
    Ok(())
}

fn runner(seed: u8, config: Config) -> TestRunner {
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]))
}

fn unkept() -> Config {
    Config { cases: 2_000, failure_persistence: None, ..Config::default() }
}

/// The minimal failing trial that `proptest` returns.
fn shrunk(
    seed: u8,
    strategy: &impl Strategy<Value = Trial>,
    test: impl Fn(&Trial) -> Result<(), TestCaseError>,
) -> Trial {
    match runner(seed, unkept()).run(strategy, |trial| test(&trial)) {
        Err(TestError::Fail(_, trial)) => trial,
        outcome => panic!("not found: {outcome:?}"),
    }
}

/// A shrunk failure is as small as possible, whatever the first failure was. That holds for the
/// parameters and for the schedule, which is the one that explorers show.
#[track_caller]
fn check_minimum(make: fn(&Parameters) -> Scenario, faults: Faults, shortest: &str) {
    let expected = Parameters { clients: 2, permits: 1, lease: Duration::from_secs(1), faults };
    for seed in 0..bounds::MINIMA.get() as u8 {
        let trial = shrunk(seed, &trials(parameters(), make), passes);
        assert_eq!(
            (trial.parameters, &*trial.schedule.to_string()),
            (expected, shortest),
            "from seed {seed}"
        );
    }
}

#[test]
fn a_broken_semaphore_shrinks_to_the_minimum() {
    check_minimum(broken_semaphore, Faults::none(), &("A\n".repeat(6) + &"B\n".repeat(6)));
}

/// Without a stall, nobody is inside for longer than the lease.
#[test]
fn a_broken_lock_shrinks_to_the_minimum() {
    check_minimum(broken_lock, Faults::none().stalls(1), "A\ntime +1001ms\nB\n");
}

/// A test may fail for reasons of its own that no oracle covers.
#[test]
fn whatever_fails_loses_the_steps_that_it_does_not_need() {
    let strategy = trials(Just(all_faults()), mutex);
    let trial = shrunk(0, &strategy, |trial| {
        let is_crash = |step: &&Step| kind(step) == Some(FaultKind::Crash);
        let crash = trial.schedule.steps.iter().find(is_crash);
        crash.map_or(Ok(()), |step| Err(TestCaseError::fail(step.to_string())))
    });
    assert!(matches!(&trial.schedule.steps[..], [step] if kind(step) == Some(FaultKind::Crash)), "{trial:?}");
    // The trial also violates an oracle, but the test fails only if there are many steps. If any
    // one step is removed, the test passes.
    let strategy = trials(Just(Parameters::default()), broken_semaphore);
    let test = |trial: &Trial| if trial.schedule.steps.len() >= 15 { passes(trial) } else { Ok(()) };
    let trial = shrunk(0, &strategy, test);
    assert!(test(&trial).is_err(), "{trial:?}");
    for place in 0..trial.schedule.steps.len() {
        let mut shorter = trial.clone();
        shorter.schedule.steps.remove(place);
        assert!(test(&shorter).is_ok(), "{shorter:?}");
    }
}

/// A regression file holds parameters and steps as text, which people can read and edit. The next
/// run tries these trials first, whatever the seed is.
#[test]
fn a_failure_is_kept_as_steps() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kept.trials");
    _ = std::fs::remove_file(&path);
    let strategy = || (trials(Just(two_clients()), broken_semaphore).regression_file(&path), 0..3);
    for seed in 0..2 {
        let config =
            Config { failure_persistence: Some(Box::new(RegressionFile::in_file(&path))), ..unkept() };
        let outcome = runner(seed, config).run(&strategy(), |(trial, _)| passes(&trial));
        assert!(matches!(outcome, Err(TestError::Fail(..))), "{outcome:?}");
        // The second run finds the same failure and adds nothing.
        expect![[r#"
            # Trials that failed once: the parameters of the scenario, and the schedule. Every run begins with them, as
            # long as `Trials::regression_file` names this file. Read and edit them as you like.

            parameters clients 2, permits 1, lease 1000ms
            A
            A
            A
            A
            A
            A
            B
            B
            B
            B
            B
            B
        "#]]
        .assert_eq(&std::fs::read_to_string(&path).unwrap());
        let (first, _) = strategy().new_tree(&mut runner(7, unkept())).unwrap().current();
        assert_eq!(first.schedule.to_string(), "A\n".repeat(6) + &"B\n".repeat(6));
        assert_eq!(first.parameters.to_string(), "clients 2, permits 1, lease 1000ms");
    }
    // A trial that only begins like another one is a different trial.
    let kept = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{kept}B\n")).unwrap();
    let config = Config { failure_persistence: Some(Box::new(RegressionFile::in_file(&path))), ..unkept() };
    _ = runner(0, config)
        .run(&(trials(Just(two_clients()), broken_semaphore), 0..3), |(trial, _)| passes(&trial));
    let shorter = kept.split_once("\n\n").unwrap().1;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{kept}B\n\n{shorter}"));

    std::fs::write(&path, "parameters clients 2\nA\nskip B\n").unwrap();
    let wrong = std::panic::catch_unwind(|| drop(strategy())).unwrap_err();
    let message = wrong.downcast::<String>().unwrap();
    assert!(message.contains("kept.trials:3: line 1: \"skip B\" is not a step"), "{message}");
}

/// Draws schedules of one scenario. Each is possible without a change, and not all are equal.
#[test]
fn schedules_of_a_scenario() {
    let scenario = mutex(&all_faults());
    let strategy = schedules(&scenario);
    let (mut proptest, mut runner) = (runner(0, unkept()), Runner::new());
    let drawn: Vec<_> = (0..50).map(|_| strategy.new_tree(&mut proptest).unwrap().current()).collect();
    for schedule in &drawn {
        let history = replay(&mut runner, &scenario, schedule, Recording::Lean);
        assert_eq!(history.steps, schedule.steps);
    }
    assert!(drawn.iter().any(|schedule| schedule != &drawn[0]));
    assert!(
        drawn.iter().flat_map(|schedule| &schedule.steps).any(|step| kind(step) == Some(FaultKind::Skew))
    );
}

fn kind(step: &Step) -> Option<FaultKind> {
    step.fault().map(|fault| fault.kind)
}
