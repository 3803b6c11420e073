//! Compares the verdicts of the harness with those of the literature.

use std::time::Duration;

use harness::check::{Effort, LEASE, Outcome, Participants, check, scenario};
use harness::execution::Runner;
use harness::explore::{explore_all, explore_random};
use harness::oracle::{self, Oracle};
use harness::shrink::shrink;
use harness::sim::Recording;
use harness::{Faults, Scenario, replay};
use locks::registry::{ALGORITHMS, Algorithm, FaultClass, Property};

use crate::bounds::{SHORTEST, VERDICTS};

use FaultClass::{Crash, Lost, Order, Server, Skew, Slow};
use Property::{
    ExclusiveBelief, ExclusiveFact, NoLeak, NoLostWakeUp, OverIssue, OwnerSafe, Recovers, Unbroken,
    WriterAlone,
};

fn algorithm(name: &str) -> &'static Algorithm {
    ALGORITHMS.iter().find(|algorithm| algorithm.name == name).unwrap()
}

fn sampled(samples: u64) -> Effort {
    Effort { samples, ..Effort::default() }
}

/// Checks the number of steps of the shortest counterexample to each property in a class.
#[track_caller]
fn check_steps(name: &str, class: FaultClass, expected: &[(Property, usize)]) {
    check_steps_in(100, name, class, expected);
}

/// Does so with a sample of this many schedules where there are too many.
#[track_caller]
fn check_steps_in(samples: u64, name: &str, class: FaultClass, expected: &[(Property, usize)]) {
    let verdicts = check(&mut Runner::new(), algorithm(name), class, sampled(samples)).unwrap();
    let found = verdicts.iter().filter_map(|verdict| match &verdict.outcome {
        Outcome::Violated(finding, _) => Some((verdict.property, finding.violation.step)),
        _ => None,
    });
    assert_eq!(found.collect::<Vec<_>>(), expected, "{name} in {class}");
    assert!(verdicts.iter().all(harness::check::Verdict::is_as_stated), "{name} in {class}");
}

/// The step and the text of the violation that an oracle finds in this schedule.
fn judge(scenario: &Scenario, schedule: &str, oracle: &dyn Oracle) -> Option<(usize, String)> {
    let history = replay(&mut Runner::new(), scenario, &schedule.parse().unwrap(), Recording::Lean);
    oracle.check(&history).map(|violation| (violation.step, violation.what))
}

/// The lengths of the published counterexamples: c commands, t steps of time, f faults.
#[test]
fn shortest_counterexamples() {
    if SHORTEST.is_left_out() {
        return;
    }
    // A EXISTS, B EXISTS, and both SET (4c). For `OwnerSafe`, then a DEL that frees the other's
    // lock.
    check_steps("exists_set", Order, &[(ExclusiveFact, 4), (ExclusiveBelief, 4), (OwnerSafe, 5)]);
    // SETNX, and the client crashes before the reply arrives (1f).
    check_steps("setnx", Crash, &[(Recovers, 1)]);
    check_steps("setnx_expire", Crash, &[(Recovers, 1)]);
    // SET, the lease ends, SET, DEL, SET (4c 1t).
    check_steps("set_nx_ex_del", Slow, &[(ExclusiveFact, 5), (ExclusiveBelief, 3), (OwnerSafe, 4)]);
    // SET, GET, the lease ends, SET, DEL, SET (5c 1t).
    check_steps("set_nx_get_del", Slow, &[(ExclusiveFact, 6), (ExclusiveBelief, 3), (OwnerSafe, 5)]);
    check_steps("set_nx_px_cad", Slow, &[(ExclusiveBelief, 3)]);
    // SETNX, the lease ends, SETNX, GET, DEL, SETNX, DEL, SETNX.
    check_steps("del_setnx_takeover", Slow, &[(ExclusiveFact, 8), (ExclusiveBelief, 6), (OwnerSafe, 7)]);
    // SETNX, EXPIRE, the lease ends, SETNX, EXPIRE, DEL, SETNX, EXPIRE. The leak: SETNX, the time
    // in the key passes, SETNX, GET, EXPIRE, DEL, GETSET.
    let found = [(ExclusiveFact, 8), (ExclusiveBelief, 5), (OwnerSafe, 6), (NoLeak, 7)];
    check_steps("getset_takeover", Slow, &found);
    // A's clock is two leases behind (1f), so its lock looks ended. B takes it over: SETNX, GET,
    // DEL, SETNX after A's SETNX (5c), or SETNX, GET, GETSET, EXPIRE after A's SETNX and EXPIRE
    // (6c).
    let found = [(ExclusiveFact, 6), (ExclusiveBelief, 6), (OwnerSafe, 5)];
    check_steps("del_setnx_takeover", Skew, &found);
    // The GETSET itself replaces the record of A.
    let found = [(ExclusiveFact, 7), (ExclusiveBelief, 7), (OwnerSafe, 6), (NoLeak, 7)];
    check_steps("getset_takeover", Skew, &found);
    // As `set_nx_ex_del` and as `set_nx_px_cad`.
    check_steps("lua_setnx_expire", Slow, &[(ExclusiveFact, 5), (ExclusiveBelief, 3), (OwnerSafe, 4)]);
    check_steps("lua_token", Slow, &[(ExclusiveBelief, 3)]);
    // Acquire, the lease ends, work, acquire, release, and another client's acquire.
    check_steps("reentrant_hash", Slow, &[(ExclusiveFact, 6), (ExclusiveBelief, 3), (Unbroken, 9)]);
    // As `reentrant_hash`. A wake-up is lost only if the server lost the lock: A acquires, works,
    // acquires again and releases once. B tries, subscribes and tries again. The server's clock
    // jumps, A's last release finds no lock, and B sleeps on.
    check_steps("redisson", Order, &[]);
    // B is refused and told how long to wait. That reply is late, and B waits although A is gone.
    let found = [(ExclusiveFact, 6), (ExclusiveBelief, 3), (NoLostWakeUp, 11), (Unbroken, 9)];
    check_steps_in(5_000, "redisson", Slow, &found);
    check_steps("redisson", Lost, &[(ExclusiveFact, 6), (ExclusiveBelief, 6)]);
    let found = [(ExclusiveFact, 3), (ExclusiveBelief, 3), (NoLeak, 6), (NoLostWakeUp, 10), (Unbroken, 9)];
    check_steps_in(5_000, "redisson", Server, &found);
    // EXISTS, and then the reply to SET is lost. For `setnx`, the reply to SETNX is lost.
    let broken_anyway = [(ExclusiveFact, 4), (ExclusiveBelief, 4), (OwnerSafe, 5)];
    check_steps("exists_set", Lost, &[&broken_anyway[..], &[(Recovers, 2)]].concat());
    // SETNX, DEL with its reply lost, SETNX, the DEL sent again, SETNX (5c).
    let freed = [(ExclusiveFact, 5), (ExclusiveBelief, 5), (OwnerSafe, 4)];
    check_steps("setnx", Lost, &[&freed[..], &[(Recovers, 1)]].concat());
    check_steps("set_nx_ex_del", Lost, &freed);
    // As above, with a GET before the DEL. The second compare-and-delete does nothing.
    check_steps("set_nx_get_del", Lost, &freed.map(|(property, steps)| (property, steps + 1)));
    check_steps("set_nx_px_cad", Lost, &[]);
    // Two acquires, work, the inner release that is sent again after its reply was lost, and
    // another client's acquire.
    check_steps("reentrant_hash", Lost, &[(ExclusiveFact, 6), (ExclusiveBelief, 6)]);
    // A and B read, B's release ends A's grant, C writes (4c).
    for name in ["rw_two_keys", "rw_hash"] {
        check_steps(name, Order, &[(WriterAlone, 4), (ExclusiveBelief, 4), (OwnerSafe, 3)]);
        check_steps(name, Slow, &[(WriterAlone, 4), (ExclusiveBelief, 3), (OwnerSafe, 3)]);
    }
    // Two attempts of three commands each, with perfect clocks.
    check_steps("zset_semaphore", Order, &[(OverIssue, 6), (ExclusiveBelief, 6)]);
    // Two attempts of six commands each, one after the other.
    check_steps("fair_semaphore_comment", Order, &[(OverIssue, 12), (ExclusiveBelief, 12)]);
    check_steps("fair_semaphore_weighted", Order, &[(OverIssue, 12), (ExclusiveBelief, 12)]);
}

/// All verdicts of some algorithms that are explored quickly. `lockstep check` explores all of
/// them.
#[test]
fn verdicts_are_as_stated() {
    let mut runner = Runner::new();
    let names = ["mutex", "setnx", "lua_token", "set_nx_px_cad", "reentrant_hash", "semaphore"];
    for name in names.iter().take(VERDICTS.get() as usize) {
        for &class in FaultClass::ALL {
            for verdict in check(&mut runner, algorithm(name), class, sampled(100)).unwrap() {
                assert!(verdict.is_as_stated(), "{name} {class} {}: {:?}", verdict.property, verdict.outcome);
            }
        }
    }
}

/// The bug from the comments needs no race. Each client finishes its acquire before the next one
/// starts.
#[test]
fn fair_semaphore_comment_is_broken_without_preemption() {
    let verdicts = check(&mut Runner::new(), algorithm("fair_semaphore_comment"), Order, sampled(0)).unwrap();
    let Outcome::Violated(finding, _) = &verdicts[0].outcome else { panic!("{:?}", verdicts[0]) };
    assert_eq!(finding.schedule.to_string(), "A\n".repeat(6) + &"B\n".repeat(6));
}

/// A client whose clock is behind ranks before a holder. Its name sorts after the holder's, so only
/// the clock causes that.
#[test]
fn zset_semaphore_is_broken_by_skew_alone() {
    let scenario =
        scenario(algorithm("zset_semaphore"), Skew, Participants { clients: 2, permits: 1, readers: None });
    let over_issue = oracle::OverIssue::of("cs", 1);
    let what = "A and B hold 2 of 1 permits, each with a lease that still runs";
    let schedule = "skew B -10000ms\nA\nA\nA\nB\nB\nB";
    assert_eq!(judge(&scenario, schedule, &over_issue), Some((7, what.into())));
    // Without the skew the same steps are harmless: A's name sorts first.
    assert_eq!(judge(&scenario, "A\nA\nA\nB\nB\nB", &over_issue), None);
}

/// A race for a dead holder's lock: A takes the lock and crashes, and B and C find its lease ended.
/// B deletes and takes the lock. C then deletes B's lock and takes it too.
#[test]
fn del_setnx_takeover_is_broken_after_a_crash() {
    let scenario = scenario(
        algorithm("del_setnx_takeover"),
        Slow,
        Participants { clients: 3, permits: 1, readers: None },
    );
    let scenario = scenario.faults(Faults::none().crashes(1).stalls(1));
    let schedule = "A\ncrash A\ntime +12000ms\nB\nB\nC\nC\nB\nB\nC\nC";
    let what = "B and C hold the lock, each with a lease that still runs";
    assert_eq!(judge(&scenario, schedule, &oracle::ExclusiveFact::of("cs")), Some((11, what.into())));
}

/// A clock that is ahead by one lease breaks nothing, because the lock has a margin of one second.
/// If it is ahead by more, the client takes a lock that is still held.
#[test]
fn getset_takeover_is_broken_by_skew_beyond_its_margin() {
    let size = Participants { clients: 2, permits: 1, readers: None };
    let skewed = |ms| {
        let faults = Faults::none().skew(Duration::from_millis(ms));
        scenario(algorithm("getset_takeover"), Skew, size).faults(faults)
    };
    assert!(explore_all(&mut Runner::new(), &skewed(11_000)).unwrap().findings.is_empty());
    let found = explore_all(&mut Runner::new(), &skewed(11_001)).unwrap();
    let schedule = &found.finding("exclusive-fact").unwrap().schedule;
    assert_eq!(schedule.to_string(), "skew A -11001ms\nA\nA\nB\nB\nB\nB\n");
}

/// How a read-write lock breaks without two readers at once: with writers only, and with writers
/// and one reader.
#[test]
fn read_write_locks_without_a_second_reader() {
    let freed = [("exclusive-belief", 5), ("owner-safe", 4), ("writer-alone", 5)];
    let mut runner = Runner::new();
    for (name, class, expected) in [
        ("rw_two_keys", Order, &[][..]),
        ("rw_two_keys", Skew, &[]),
        ("rw_two_keys", Crash, &[]),
        // A takes the lock, its lease ends, B takes it, A's DEL runs, and C takes it (4c 1t): as
        // `set_nx_ex_del`.
        ("rw_two_keys", Slow, &[("exclusive-belief", 3), ("owner-safe", 4), ("writer-alone", 5)]),
        // A takes the lock, the reply to its DEL is lost, B takes it, A's DEL is sent again, and C
        // takes it (5c).
        ("rw_two_keys", Lost, &freed),
        ("rw_hash", Order, &[]),
        ("rw_hash", Skew, &[]),
        ("rw_hash", Crash, &[]),
        ("rw_hash", Slow, &[("exclusive-belief", 3)]),
        // As `rw_two_keys`, if A and B took the lock in the same millisecond: the time does not
        // identify the holder.
        ("rw_hash", Lost, &freed),
    ] {
        for readers in [0, 1] {
            let size = Participants { clients: 3, permits: 1, readers: Some(readers) };
            let exploration = explore_all(&mut runner, &scenario(algorithm(name), class, size)).unwrap();
            let steps = exploration.findings.iter().map(|found| (found.oracle.name(), found.violation.step));
            let mut found: Vec<_> = steps.collect();
            found.sort_unstable();
            assert_eq!(found, expected, "{name} in {class} with {readers} readers");
        }
    }
}

/// The record keeps only the time of the last reader. That reader's release ends the grants of all
/// readers, and no other release does.
#[test]
fn rw_hash_knows_its_last_reader_alone() {
    let size = Participants { clients: 3, permits: 1, readers: Some(2) };
    let faults = Faults::none().skew(Duration::from_millis(1));
    let scenario = scenario(algorithm("rw_hash"), Skew, size).faults(faults);
    let alone = oracle::WriterAlone::of("reading", "writing");
    let what = "writer C is inside together with A, each with a lease that still runs";
    assert_eq!(judge(&scenario, "skew A -1ms\nA\nB\nB\nC", &alone), Some((5, what.into())));
    assert_eq!(judge(&scenario, "skew A -1ms\nA\nB\nA\nC", &alone), None);
    // In the same millisecond both readers have the same time.
    let what = "writer C is inside together with B, each with a lease that still runs";
    assert_eq!(judge(&scenario, "A\nB\nA\nC", &alone), Some((4, what.into())));
}

/// If two clocks differ by one lease, no holder looks late. If they differ by more, a client takes
/// a lock that is still held, whichever clock is wrong.
#[test]
fn rw_hash_is_broken_by_skew_beyond_a_lease() {
    for readers in [0, 1] {
        let size = Participants { clients: 2, permits: 1, readers: Some(readers) };
        let skewed = |ms| {
            let faults = Faults::none().skew(Duration::from_millis(ms));
            scenario(algorithm("rw_hash"), Skew, size).faults(faults)
        };
        assert!(explore_all(&mut Runner::new(), &skewed(10_000)).unwrap().findings.is_empty());
        let found = explore_all(&mut Runner::new(), &skewed(10_001)).unwrap();
        assert_eq!(found.finding("writer-alone").unwrap().violation.step, 3);
        let alone = oracle::WriterAlone::of("reading", "writing");
        let what = "writer B is inside together with A, each with a lease that still runs";
        for skew in ["skew A -10001ms", "skew B +10001ms"] {
            let steps = format!("{skew}\nA\nB");
            assert_eq!(judge(&skewed(10_001), &steps, &alone), Some((3, what.into())), "{readers} {skew}");
        }
        assert_eq!(judge(&skewed(10_001), "skew A +10001ms\nA\nB", &alone), None);
    }
}

/// A lease ends, and its holder acquires again. Redis would refuse, but the lock does not send a
/// request.
#[test]
fn local_reentrant_says_yes_to_what_another_has() {
    let scenario =
        scenario(algorithm("local_reentrant"), Slow, Participants { clients: 2, permits: 1, readers: None });
    // The renewal is A.2, and the work inside is A.3.
    let schedule = "A\ntime +10001ms\nB\nA.3";
    let what = "A and B hold the lock, each with a lease that still runs";
    assert_eq!(judge(&scenario, schedule, &oracle::ExclusiveFact::of("cs")), Some((4, what.into())));
    // The first renewal came at once, and the next one is a moment too late.
    let schedule = "A\nA.2\ntime +10001ms\nB";
    let what = "A and B are inside at once, but only one may be";
    assert_eq!(judge(&scenario, schedule, &oracle::ExclusiveBelief::of("cs", 1)), Some((4, what.into())));
}

/// A restart that loses a grant breaks Redlock in a few steps. If the outage lasts longer than a
/// lease, no grant is lost in a large sample.
#[test]
fn redlock_needs_restarts_to_be_delayed() {
    let size = Participants { clients: 2, permits: 1, readers: None };
    let restarts = Faults::none().restarts(1).stalls(1);
    let scenario = |faults| scenario(algorithm("redlock_3"), Server, size).faults(faults).prompt_replies();
    let explore = |faults| explore_random(&mut Runner::new(), &scenario(faults), 10_000, 0).unwrap();
    let at_once = explore(restarts);
    let steps = at_once.finding("exclusive-fact").map(|finding| finding.violation.step);
    assert_eq!(steps, Some(7));
    let delayed = explore(restarts.outage(LEASE + Duration::from_millis(1)));
    assert!(delayed.finding("exclusive-fact").is_none());
    assert!(delayed.reached.server && delayed.reached.contention && delayed.is_judged("exclusive-fact"));
}

/// Scenarios without time are explored quickly, even if a timer renews the lock.
#[test]
fn renewing_locks_are_as_stated_while_no_time_passes() {
    let mut runner = Runner::new();
    for name in ["renewed_hash", "local_reentrant"] {
        for class in [Order, Crash] {
            for verdict in check(&mut runner, algorithm(name), class, sampled(100)).unwrap() {
                assert!(verdict.is_as_stated(), "{name} {class} {}: {:?}", verdict.property, verdict.outcome);
            }
        }
    }
}

/// A random counterexample, once shrunk, is as short as the shortest one that exploration finds.
#[test]
fn sampled_and_shrunk_counterexamples_are_the_shortest() {
    let mut runner = Runner::new();
    for (name, class, property, shortest) in [
        ("exists_set", Order, ExclusiveFact, 4),
        ("setnx_expire", Crash, Recovers, 1),
        ("set_nx_ex_del", Slow, ExclusiveFact, 5),
        ("set_nx_get_del", Slow, ExclusiveFact, 6),
        ("zset_semaphore", Order, OverIssue, 6),
        ("fair_semaphore_comment", Order, OverIssue, 12),
    ] {
        let scenario =
            scenario(algorithm(name), class, Participants { clients: 3, permits: 1, readers: None });
        for seed in 0..5 {
            let tries =
                (0..200).map(|nth| explore_random(&mut runner, &scenario, 200, 1_000 * seed + nth).unwrap());
            let found =
                tries.into_iter().find_map(|exploration| exploration.finding(property.name()).cloned());
            let found = found.unwrap_or_else(|| panic!("{name}: not found from seed {seed}"));
            let shrunk = shrink(&mut runner, &scenario, &found.schedule, &found.oracle).unwrap();
            assert_eq!(shrunk.violation.step, shortest, "{name} from seed {seed}:\n{}", shrunk.schedule);
        }
    }
}
