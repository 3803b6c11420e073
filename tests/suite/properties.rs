//! `proptest` over schedules and over the parameters of scenarios.

use harness::explorer::Plan;
use harness::oracle::{ExclusiveFact, NoLeak, OverIssue, OwnerSafe, Recovers};
use harness::strategy::plans;
use harness::{Client, Faults, Runner, Scenario, run};
use locks::{Algorithm, AnyConnection, Terms};
use proptest::prelude::*;
use proptest::test_runner::{
    Config, FileFailurePersistence, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner,
};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(10);
/// More clients than any of these scenarios has, and more wishes than it needs to run them all.
const CLIENTS_MAX: usize = 5;
const WISHES_MAX: usize = 60;

/// Failures that were found once are run first from then on.
fn config(cases: u32) -> Config {
    let regressions = FileFailurePersistence::Direct("suite/data/properties.proptest-regressions");
    Config { cases, failure_persistence: Some(Box::new(regressions)), ..Config::default() }
}

/// Clients that each take one of the permits twice.
fn scenario(algorithm: &'static Algorithm, clients: usize, permits: u32, faults: Faults) -> Scenario {
    let terms = Terms { key: "lock".into(), lease: LEASE, permits };
    let open = move |client: &Client| {
        algorithm.open(vec![AnyConnection::new(client.connection())], client.env(), &terms)
    };
    let open_probe = open.clone();
    Scenario::new(algorithm.name)
        .lease(LEASE)
        .faults(faults)
        .actors(clients, move |client| {
            let mut lock = open(&client);
            async move {
                for _ in 0..2 {
                    let since = client.now();
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
        .always(OwnerSafe)
        .always(Recovers)
        .always(NoLeak)
}

fn algorithm(name: &str) -> &'static Algorithm {
    locks::ALGORITHMS.iter().find(|algorithm| algorithm.name == name).unwrap()
}

fn passes(scenario: &Scenario, mut plan: Plan) -> Result<(), TestCaseError> {
    run(&mut Runner::new(), scenario, &mut plan)
        .map(drop)
        .map_err(|report| TestCaseError::fail(report.to_string()))
}

proptest! {
    #![proptest_config(config(500))]

    /// Over schedules: whatever happens, in whatever order, with all faults at once.
    #[test]
    fn mutex_is_exclusive_under_every_schedule(plan in plans(CLIENTS_MAX, WISHES_MAX)) {
        let faults = Faults::none().crashes(1).stalls(2).skew(LEASE);
        passes(&scenario(algorithm("mutex"), 3, 1, faults).always(ExclusiveFact::of("cs")), plan)?;
    }

    /// Over the parameters too.
    #[test]
    fn semaphore_never_over_issues(
        plan in plans(CLIENTS_MAX, WISHES_MAX),
        clients in 1..=CLIENTS_MAX,
        permits in 1u32..=4,
        crashes in 0u32..=2,
        skew_ms in 0u64..=30_000,
    ) {
        let faults = Faults::none().crashes(crashes).stalls(2).skew(Duration::from_millis(skew_ms));
        passes(&scenario(algorithm("semaphore"), clients, permits, faults).always(OverIssue::of("cs", permits)), plan)?;
    }
}

/// The same property must fail for a semaphore that is broken, and what is left of the failure is as small as it can be: two
/// clients, one permit, and no step too many.
#[test]
fn a_broken_semaphore_fails_and_shrinks_to_the_minimum() {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config { failure_persistence: None, ..config(500) }, rng);
    // The schedule first: the parameters shrink better once it is short.
    let parameters = (plans(CLIENTS_MAX, WISHES_MAX), 1usize..=4, 1u32..=3);
    let broken = |clients, permits| {
        scenario(algorithm("fair_semaphore_comment"), clients, permits, Faults::none())
            .always(OverIssue::of("cs", permits))
    };
    let outcome = runner.run(&parameters, |(plan, clients, permits)| passes(&broken(clients, permits), plan));
    let Err(TestError::Fail(_, (mut plan, clients, permits))) = outcome else {
        panic!("not found: {outcome:?}")
    };
    assert_eq!((clients, permits), (2, 1));
    let report = run(&mut Runner::new(), &broken(clients, permits), &mut plan).unwrap_err();
    let harness::Problem::Violated { property, schedule, .. } = report.problem else { panic!("{report}") };
    assert_eq!((property, schedule.steps.len()), ("over-issue", 12), "{schedule}");
}
