//! Replays the kept counterexamples on a real server, which must give the same replies and the same
//! violation.

use std::sync::Mutex;

use harness::SavedSchedule;
use harness::check::scenario_of;
use harness::execution::Runner;
use harness::replay::{Comparison, OnRedisError, Subject, replay_on_redis};
use locks::registry::{ALGORITHMS, Algorithm};

use super::saved_schedules;
use crate::bounds::REAL_COUNTEREXAMPLES;
use crate::redis_server;

/// Replays all saved schedules in parallel, one thread for each database. Schedules with server
/// faults are left out, because a replay cannot cause them.
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
                Err(OnRedisError::Servers { .. } | OnRedisError::Cluster) => continue,
                on_redis => on_redis.unwrap(),
            };
            let is_of_the_clock = OF_THE_CLOCK.iter().any(|algorithm| name.starts_with(algorithm));
            let is_as_expected = match on_redis.comparison {
                _ if is_of_the_clock => true,
                Comparison::Inconclusive { .. } => TOO_EXACT.contains(&name.as_str()),
                Comparison::Same(Some(_)) => true,
                _ => false,
            };
            if !is_as_expected {
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

/// How many servers the algorithm of a saved schedule uses.
fn servers(saved: &SavedSchedule) -> usize {
    let Subject::Algorithm { name, .. } = &saved.subject else { return 1 };
    let algorithm = ALGORITHMS.iter().find(|algorithm| algorithm.name == name);
    algorithm.map_or(1, Algorithm::servers)
}
