//! The way to a first test: actors that are functions, scripts that are loaded, errors about a lost
//! lease, and explorations that end early and say what they did.

use std::time::Duration;

use expect_test::expect;
use harness::explore::{Division, Problem, Shard, exhaustive_shard, explore_all};
use harness::oracle::{ExclusiveBelief, ExclusiveFact, NoLeak, OwnerSafe, Success};
use harness::{Client, Faults, Record, Scenario, exhaustive, from_fn, sample};
use redis::{RedisResult, Script};

use crate::explorer::oracles::{SOUND, send};

const LEASE: Duration = Duration::from_secs(10);

async fn take_and_release(client: Client) -> RedisResult<()> {
    if send(&mut client.connection(), SOUND.take).await? {
        client.hold("cs").until(send::<()>(&mut client.connection(), &["DEL", "lock"])).await?;
    }
    Ok(())
}

async fn take(client: Client) -> RedisResult<bool> {
    send(&mut client.connection(), SOUND.take).await
}

/// The message of the panic that a builder ends with.
#[track_caller]
fn refused(build: impl FnOnce() -> Scenario + std::panic::UnwindSafe) -> String {
    let panic = std::panic::catch_unwind(build).expect_err("the parameter is refused");
    panic
        .downcast_ref::<String>()
        .cloned()
        .unwrap_or_else(|| panic.downcast_ref::<&str>().unwrap().to_string())
}

/// Parameters that no execution can have are refused where they are set. Those at the limit run.
#[test]
fn extreme_parameters_are_refused_or_run() {
    let scenario =
        || Scenario::new("extreme").actors(2, from_fn(take_and_release)).always(ExclusiveFact::of("cs"));
    let decade = Duration::from_secs(10 * 365 * 24 * 60 * 60);
    let none = Faults::none();
    expect![[r#"
        a scenario has from 1 to 100 servers, not 0
        a scenario has from 1 to 100 servers, not 18446744073709551615
        a lease lasts for at least a millisecond and at most ten years, not 18446744073709551615.999999999s
        a lease lasts for at least a millisecond and at most ten years, not 0ns
        a lease lasts for at least a millisecond and at most ten years, not 18446744073709551615.999999999s
        a scenario has at most 26 actors
        a scenario has at most 26 actors
        a response timeout lasts for at least a millisecond and at most ten years, not 18446744073709551615.999999999s
        a scenario has at most 1000 probes, not 4294967295
        `Faults::skew` is at most ten years, not 18446744073709551615.999999999s
        `Faults::outage` is at most ten years, not 18446744073709551615.999999999s
        `Faults::drift` is at most 999000000 ppm, not 4294967295
        `Faults::unsynced` is at most 100, not 4294967295"#]].assert_eq(
        &[
            refused(|| scenario().servers(0)),
            refused(|| scenario().servers(usize::MAX)),
            refused(|| scenario().lease(Duration::MAX)),
            refused(|| scenario().lease(Duration::ZERO)),
            refused(|| scenario().actors_with_lease(1, Duration::MAX, from_fn(take_and_release))),
            refused(|| scenario().actors_with_lease(usize::MAX, LEASE, from_fn(take_and_release))),
            refused(|| scenario().actors(usize::MAX, from_fn(take_and_release))),
            refused(|| scenario().response_timeout(Duration::MAX)),
            refused(|| scenario().probe(u32::MAX, from_fn(take))),
            refused(|| scenario().faults(none.skew(Duration::MAX))),
            refused(|| scenario().faults(none.outage(Duration::MAX))),
            refused(|| scenario().faults(none.drift(u32::MAX))),
            refused(|| scenario().faults(none.unsynced(u32::MAX))),
        ]
        .join("\n"),
    );
    let longest = harness::Limits { steps: usize::MAX, polls: u64::MAX, wall_time: Duration::MAX };
    for extreme in [
        scenario().servers(100),
        scenario().lease(decade).faults(none.stalls(1)),
        scenario().lease(Duration::from_millis(1)).faults(none.stalls(1).crashes(1)).probe(1, from_fn(take)),
        scenario().response_timeout(decade).faults(none.stalls(1)),
        scenario().response_timeout(Duration::from_millis(1)).faults(none.lost(1)),
        scenario().faults(none.skew(decade)),
        scenario().faults(none.server_skew(decade)),
        scenario().faults(none.jump(decade)),
        scenario().faults(none.server_jump(decade)),
        scenario().faults(none.drift(999_000_000)),
        scenario().faults(none.server_drift(999_000_000)),
        scenario().faults(none.restarts(1).outage(decade)),
        scenario().faults(none.reloads(1).unsynced(100)),
        scenario().faults(Faults { crashes: u32::MAX, ..none }),
        scenario().limits(longest),
        scenario().rounds(0),
    ] {
        // It ends, with whatever verdict.
        _ = exhaustive(&extreme).map_err(|report| report.to_string());
    }
}

#[test]
fn functions_are_actors_beside_closures() {
    let functions = Scenario::new("functions")
        .before(from_fn(async |client: Client| send::<()>(&mut client.connection(), &["PING"]).await))
        .actors(1, from_fn(take_and_release))
        .actors_with_lease(1, LEASE, from_fn(take_and_release))
        .actors(1, |client| async move { Ok(take_and_release(client).await?) })
        .probe(1, from_fn(take))
        .always(ExclusiveFact::of("cs"))
        .always(NoLeak);
    exhaustive(&functions).unwrap();

    async fn fail(_: Client) -> Result<(), String> {
        Err("no luck".into())
    }
    let report = exhaustive(&Scenario::new("failing").actors(1, from_fn(fail)).always(Success)).unwrap_err();
    let Problem::Failed { what, .. } = &report.problem else { panic!("{report}") };
    assert_eq!(what, "failed: no luck");
}

const ACQUIRE: &str = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 10000) and 1 or 0";
const RELEASE: &str = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0";

/// Two clients with a lock of two scripts.
fn scripted() -> Scenario {
    Scenario::new("scripted").always(ExclusiveFact::of("cs")).actors(2, |client| async move {
        let mut link = client.connection();
        if Script::new(ACQUIRE).key("lock").arg(client.name()).invoke_async(&mut link).await? {
            let (release, name) = (Script::new(RELEASE), client.name());
            client.hold("cs").until(release.key("lock").arg(name).invoke_async::<()>(&mut link)).await?;
        }
        Ok(())
    })
}

/// Each script that is not loaded costs each client two more steps.
#[test]
fn scripts_that_are_loaded_make_explorations_smaller() {
    let with = |scripts: &[&str]| {
        scripts.iter().fold(scripted(), |scenario, script| scenario.script(&Script::new(script)))
    };
    let passed = [&[][..], &[ACQUIRE], &[RELEASE, ACQUIRE]]
        .map(|scripts| exhaustive(&with(scripts)).unwrap().to_string());
    expect![[r#"
        no violation of exclusive-fact in 17 schedules; reached: contention; clients had to load "return redis.call('GET',…" and "return redis.call('SET',…": Scenario::script leaves that out
        no violation of exclusive-fact in 5 schedules; reached: contention; clients had to load "return redis.call('GET',…": Scenario::script leaves that out
        no violation of exclusive-fact in 5 schedules; reached: contention"#]].assert_eq(&passed.join("\n"));
    // A script that a fault makes a server forget is no script that was not loaded.
    let flushing = with(&[RELEASE, ACQUIRE]).faults(Faults::none().flushes(1));
    assert!(exhaustive(&flushing).unwrap().unloaded.is_empty());
}

/// `before` and `script` do not replace each other, and every server has the scripts.
#[test]
fn code_before_the_actors_adds_up() {
    let scenario = Scenario::new("before")
        .script(&Script::new(ACQUIRE))
        .before(|client| async move { Ok(send(&mut client.connection(), &["SET", "key", "1"]).await?) })
        .script(&Script::new(RELEASE))
        .servers(2)
        .always(Success)
        .actors(1, |client| async move {
            for server in 0..2 {
                let mut exists = redis::cmd("SCRIPT");
                exists
                    .arg("EXISTS")
                    .arg([ACQUIRE, RELEASE].map(|code| Script::new(code).get_hash().to_owned()).to_vec());
                let exists: Vec<bool> = exists.query_async(&mut client.connection_to(server)).await?;
                assert_eq!(exists, [true, true]);
            }
            assert_eq!(send::<i32>(&mut client.connection(), &["GET", "key"]).await?, 1);
            Ok(())
        });
    exhaustive(&scenario).unwrap();
}

/// A lock whose release returns an error if the client no longer holds the lock.
fn strict(faults: Faults) -> Scenario {
    Scenario::new("strict").faults(faults).always(OwnerSafe).actors(2, |client| async move {
        let mut link = client.connection();
        if send(&mut link, &["SET", "lock", &client.name(), "NX", "PX", "10000"]).await? {
            let hold = client.hold("cs").record(Record::Value("lock".into(), client.name()));
            let name = client.name();
            if !hold.until(send::<bool>(&mut link, &["EVAL", RELEASE, "1", "lock", &name])).await? {
                return Err("the lock was lost".into());
            }
        }
        Ok(())
    })
}

#[test]
fn an_error_about_a_lost_lease_fails_no_test() {
    let passed = exhaustive(&strict(Faults::none().stalls(1))).unwrap();
    assert!(passed.reached.overrun);
    // The server loses the grant.
    exhaustive(&strict(Faults::none().restarts(1))).unwrap();
}

/// An error about it is a failure if the client was inside with a lease that ran.
#[test]
fn an_error_without_a_lost_lease_fails_the_test() {
    let deluded = Scenario::new("deluded").faults(Faults::none().stalls(1)).always(OwnerSafe).actors(
        2,
        |client| async move {
            let hold = client.hold("cs").enter();
            () = send(&mut client.connection(), &["PING"]).await?;
            drop(hold);
            if client.true_time() < LEASE { Err("the lock was lost".into()) } else { Ok(()) }
        },
    );
    let report = exhaustive(&deluded).unwrap_err();
    let Problem::Failed { what, .. } = &report.problem else { panic!("{report}") };
    assert_eq!(what, "failed: the lock was lost");
}

#[test]
fn an_exploration_is_one_line() {
    let scenario = scripted().script(&Script::new(ACQUIRE)).script(&Script::new(RELEASE));
    let line = |scenario: &Scenario| exhaustive(scenario).unwrap().to_string();
    expect!["no violation of exclusive-fact in 5 schedules; reached: contention"].assert_eq(&line(&scenario));
    // `unwrap_err` prints it if what has to fail passes.
    assert_eq!(format!("{:?}", exhaustive(&scenario).unwrap()), format!("\n{}", line(&scenario)));
    expect!["no violation of exclusive-fact in 24 schedules; reached: contention, crash"]
        .assert_eq(&line(&scenario.clone().faults(Faults::none().crashes(1))));
    let broken = Scenario::new("broken")
        .actors(2, |client| async move {
            let mut link = client.connection();
            let _inside = client.hold("cs").enter();
            () = send(&mut link, &["INCR", "n"]).await?;
            Ok(send(&mut link, &["INCR", "n"]).await?)
        })
        .always(ExclusiveFact::of("cs"));
    let found = explore_all(&mut harness::execution::Runner::new(), &broken).unwrap();
    expect!["violations of exclusive-fact (after 2 steps) in 7 schedules; reached: contention"]
        .assert_eq(&found.to_string());
}

/// One shard has all of few schedules. The other one has judged nothing, and names no oracle.
#[test]
fn a_shard_without_branches_is_one_line() {
    let shards = ["1/2", "2/2"].map(|shard| {
        let division = Division::from(shard.parse::<Shard>().unwrap());
        exhaustive_shard(&scripted(), &division).unwrap()
    });
    let idle = shards.iter().find(|explored| explored.schedules == 0).unwrap();
    assert!(idle.to_string().starts_with("nothing was judged in 0 schedules"), "{idle}");
}

/// A renewal that stops although the holder works on. No two clients have leases that run, so
/// only the belief of the clients shows it, and a pass without that says so.
#[test]
fn a_pass_says_that_no_oracle_was_asked_about_an_overrun() {
    let scenario = Scenario::new("a renewal that stops").lease(LEASE).actors(2, |client| async move {
        let (mut link, take) = (client.connection(), &["SET", "lock", "1", "NX", "PX", "10000"]);
        if send(&mut link, take).await? {
            let inside = client.hold("cs").enter();
            tokio::time::sleep(LEASE / 2).await;
            let since = client.true_time();
            send::<()>(&mut link, &["PEXPIRE", "lock", "10000"]).await?;
            inside.extend(since, Record::Key("lock".into()));
            tokio::time::sleep(2 * LEASE).await;
            drop(inside);
        } else {
            tokio::time::sleep(2 * LEASE).await;
            if send(&mut link, take).await? {
                client.hold("cs").until(async {}).await;
            }
        }
        Ok(())
    });
    let passed = exhaustive(&scenario.clone().always(ExclusiveFact::of("cs"))).unwrap();
    expect!["no violation of exclusive-fact in 9 schedules; reached: contention, overrun; a holder was still inside when its lease had ended, and no oracle was asked about that: ask ExclusiveBelief, or Fenced"].assert_eq(&passed.to_string());
    let report = exhaustive(&scenario.always(ExclusiveBelief::of("cs", 1))).unwrap_err();
    assert!(report.to_string().contains("are inside at once"), "{report}");
}

/// Clients that work beside a lock that anybody is granted, so that there are many schedules.
fn large() -> Scenario {
    Scenario::new("large").always(ExclusiveFact::of("cs")).actors(3, |client| async move {
        let mut link = client.connection();
        for _ in 0..3 {
            () = send(&mut link, &["INCR", "n"]).await?;
        }
        let others: i64 = send(&mut link, &["INCR", "inside"]).await?;
        // The bug shows only with three clients.
        if others != 2 {
            client.hold("cs").until(send::<()>(&mut link, &["DECR", "inside"])).await?;
        }
        Ok(())
    })
}

#[test]
fn an_exploration_ends_at_the_first_find() {
    let report = exhaustive(&large()).unwrap_err();
    let all = explore_all(&mut harness::execution::Runner::new(), &large()).unwrap();
    assert_eq!(all.findings.len(), 1);
    assert!(report.schedules < all.schedules / 2, "{} of {}", report.schedules, all.schedules);
    expect!["large: exclusive-fact is violated (found after 163 of 1081 schedules)"]
        .assert_eq(report.to_string().lines().next().unwrap());
    // The result does not depend on the threads.
    let again = exhaustive(&large()).unwrap_err();
    assert_eq!((again.schedules, again.found_after), (report.schedules, report.found_after));
}

/// A sample runs on, and says which schedule showed the violation first.
#[test]
fn a_sample_says_what_was_needed() {
    let report = sample(&large(), 500, 1).unwrap_err();
    expect!["large: exclusive-fact is violated (found after 15 of 500 schedules)"]
        .assert_eq(report.to_string().lines().next().unwrap());
}
