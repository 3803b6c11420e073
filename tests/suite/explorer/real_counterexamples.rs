//! Replays the kept counterexamples on real servers, which must give the same replies and the same
//! violation. The guide says which of them can be replayed where.

use std::sync::Mutex;

use harness::SavedSchedule;
use harness::check::scenario_of;
use harness::execution::Runner;
use harness::fault::FaultKind;
use harness::replay::{
    Comparison, OnRedisError, RedisServers, SavedStep, Subject, replay_on_redis, replay_on_servers,
};
use locks::registry::{ALGORITHMS, Algorithm, FaultClass};

use super::replay_on_servers::is_installed;
use super::saved_schedules;
use crate::bounds::REAL_COUNTEREXAMPLES;
use crate::program::readme::check_page;
use crate::redis_server;

/// Replays all saved schedules in parallel, one thread for each database. Schedules with server
/// faults are left out, because a replay cannot cause them there.
#[test]
fn every_counterexample_is_real() {
    if REAL_COUNTEREXAMPLES.is_left_out() {
        return;
    }
    let Some(server) = redis_server::borrow() else { return };
    let kept = saved_schedules::kept();
    assert!(!kept.is_empty());
    let (alone, together): (Vec<_>, Vec<_>) = kept.into_iter().partition(|(_, saved)| servers(saved) == 1);
    let next = Mutex::new(alone.into_iter());
    let different = Mutex::new(Vec::new());
    let replay_next = |url: &str, next: &Mutex<std::vec::IntoIter<(String, SavedSchedule)>>| {
        let client = redis::Client::open(url).unwrap();
        let mut runner = Runner::new();
        let next = || next.lock().unwrap().next();
        while let Some((name, saved)) = next() {
            let scenario = |lease| scenario_of(&saved, lease).unwrap();
            let on_redis = match replay_on_redis(&mut runner, &client, &saved, scenario) {
                Err(
                    OnRedisError::Servers { .. } | OnRedisError::Cluster | OnRedisError::NeedsServers { .. },
                ) => continue,
                on_redis => on_redis.unwrap(),
            };
            if outcome(&name, &on_redis.comparison).is_none() {
                different.lock().unwrap().push(format!("{name}: {on_redis}"));
            }
        }
    };
    let urls = server.urls();
    std::thread::scope(|scope| {
        urls.iter().for_each(|url| _ = scope.spawn(|| replay_next(url, &next)));
    });
    // Several databases stand for several servers, if the databases belong to the tests.
    if urls.len() > 1 {
        assert!(together.iter().any(|(name, _)| name == "redlock.slow.exclusive-belief.txt"));
        replay_next(&urls[0], &Mutex::new(together.into_iter()));
    }
    let different = different.into_inner().unwrap();
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// In these counterexamples a client waits for exactly a lease, or its third renewal comes at the
/// very end of its first lease. On a real server some of that time has passed when the client
/// learns how long to wait, so nobody can tell.
const TOO_EXACT: [&str; 3] = [
    "redisson.slow.no-lost-wake-up.txt",
    "multi_lock_waiting.slow.no-lost-wake-up.txt",
    "redisson_process.lost.recovers.txt",
];

/// The first two count in windows of the clock, and no replay can choose where these begin. The
/// others reply with microseconds.
const OF_THE_CLOCK: [&str; 4] =
    ["incr_by_window.", "sliding_window_counter.", "limiter_window.", "limiter_bucket."];

/// Whether a schedule shows its violation only at exact times. After a failover, too, clients wait
/// for exactly a lease. Some fencing tokens are the time in microseconds. They repeat only if two
/// commands run in the same one.
fn is_too_exact(name: &str) -> bool {
    let ends = [".failover.no-lost-wake-up.txt", ".failover.fenced.txt"];
    TOO_EXACT.contains(&name) || ends.iter().any(|end| name.ends_with(end))
}

/// Whether real time decides what this schedule shows.
fn is_of_the_clock(name: &str) -> bool {
    OF_THE_CLOCK.iter().any(|algorithm| name.starts_with(algorithm))
}

/// What a replay may show.
#[derive(Clone, Copy)]
enum Outcome {
    SameViolation,
    OfTheClock,
    TooExact,
}

/// The outcome of the replay of a kept counterexample, if it may be that.
fn outcome(name: &str, comparison: &Comparison) -> Option<Outcome> {
    match comparison {
        _ if is_of_the_clock(name) => Some(Outcome::OfTheClock),
        Comparison::Inconclusive { .. } if is_too_exact(name) => Some(Outcome::TooExact),
        Comparison::Same(Some(_)) => Some(Outcome::SameViolation),
        _ => None,
    }
}

/// How many servers the algorithm of a saved schedule uses.
fn servers(saved: &SavedSchedule) -> usize {
    let Subject::Algorithm { name, .. } = &saved.subject else { return 1 };
    let algorithm = ALGORITHMS.iter().find(|algorithm| algorithm.name == name);
    algorithm.map_or(1, Algorithm::servers)
}

/// How many schedules are replayed at the same time. Most of their time they wait.
const AT_ONCE: usize = 8;

/// Replays all saved schedules of the class `failover`, each on servers of its own.
#[test]
fn every_failover_is_real() {
    if REAL_COUNTEREXAMPLES.is_left_out() || !is_installed() {
        return;
    }
    let kept = saved_schedules::kept().into_iter().filter(|(name, _)| name.contains(".failover."));
    let next = Mutex::new(kept.collect::<Vec<_>>().into_iter());
    let (outcomes, different) = (Mutex::new([0; 3]), Mutex::new(Vec::new()));
    let replay_next = || {
        let mut runner = Runner::new();
        let next = || next.lock().unwrap().next();
        while let Some((name, saved)) = next() {
            let scenario = |lease| scenario_of(&saved, lease).unwrap();
            let mut replay = || {
                let mut servers = RedisServers::start(&scenario(saved.lease)).unwrap();
                let on_redis = replay_on_servers(&mut runner, &mut servers, &saved, scenario).unwrap();
                outcome(&name, &on_redis.comparison).ok_or_else(|| format!("{name}: {on_redis}"))
            };
            // On a busy machine, a reply may come so late that it tells another time. A difference
            // counts if it comes three times.
            match replay().or_else(|_| replay()).or_else(|_| replay()) {
                Ok(outcome) => outcomes.lock().unwrap()[outcome as usize] += 1,
                Err(report) => different.lock().unwrap().push(report),
            }
        }
    };
    std::thread::scope(|scope| (0..AT_ONCE).for_each(|_| _ = scope.spawn(replay_next)));
    let different = different.into_inner().unwrap();
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert_eq!(outcomes.into_inner().unwrap(), [175, 4, 16], "same, of the clock, too exact");
}

/// Where the counterexamples of each class are replayed. Those that are refused have other faults
/// of servers, or a cluster.
#[test]
fn the_guide_says_where_counterexamples_are_replayed() {
    let head = "| class | counterexamples | on one server | only on servers with replicas | refused | \
                too exact | of the clock |\n| --- | --- | --- | --- | --- | --- | --- |\n";
    let kept = saved_schedules::kept();
    let rows = FaultClass::ALL.iter().filter_map(|class| {
        let infix = format!(".{class}.");
        let own: Vec<_> = kept.iter().filter(|(name, _)| name.contains(&infix)).collect();
        let [mut one, mut replicas, mut refused, mut too_exact, mut of_the_clock] = [0; 5];
        for (name, saved) in &own {
            let faults = saved.steps.iter().filter(|saved| saved.step.server().is_some());
            let takes_over = |saved: &SavedStep| {
                let kind = saved.step.fault().map(|fault| fault.kind);
                matches!(kind, Some(FaultKind::Failover | FaultKind::SplitBrain | FaultKind::PlannedFailover))
            };
            let (failovers, others): (Vec<_>, Vec<_>) = faults.partition(|saved| takes_over(saved));
            if !others.is_empty() || *class == FaultClass::Cluster {
                refused += 1;
                continue;
            }
            *(if failovers.is_empty() { &mut one } else { &mut replicas }) += 1;
            too_exact += usize::from(is_too_exact(name));
            of_the_clock += usize::from(is_of_the_clock(name));
        }
        let row = [own.len(), one, replicas, refused, too_exact, of_the_clock].map(|count| count.to_string());
        (!own.is_empty()).then(|| format!("| `{class}` | {} |\n", row.join(" | ")))
    });
    let table = format!("{head}{}", rows.collect::<String>());
    check_page("tests/guide/replay.md", "counterexamples", &table);
}
