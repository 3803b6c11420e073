//! Bugs that locks on Redis have or had in the field, one file each. The explorer must find each
//! bug. The repaired code must pass within the same bounds.

mod clean_up_where_ok_only;
mod deaf_after_reconnect;
mod double_increment;
mod even_quorum;
mod extend_resurrects;
mod guarded_by_timeout;
mod hold_and_wait;
mod leader_renewal;
mod lease_from_reply;
mod lease_in_seconds;
mod lost_reply_on_acquire;
mod no_validity_check;
mod noscript_on_release;
mod release_overtakes_acquire;
mod renewal_after_cancel;
mod renewal_outlives_release;
mod shared_token;
mod signal_list;
mod takeover_by_age;
mod token_by_get;
mod token_list;
mod try_then_subscribe;
mod writer_starvation;
mod zombie_refresh;

use std::time::Duration;

use expect_test::Expect;
use harness::client::GatedConnection;
use harness::explore::Problem;
use harness::trace::Reached;
use harness::{Faults, Scenario, exhaustive, sample};
use redis::RedisResult;

use crate::bounds::{KNOWN, REPAIRED};
use crate::explorer::oracles::send;

/// One crash, one stall and one lost message.
fn one_of_each() -> Faults {
    Faults::none().crashes(1).stalls(1).lost(1)
}

/// The lease of every lock in these files.
const LEASE: Duration = Duration::from_secs(10);

// A counterexample shows only the first eight bytes of a script, so each script starts with a
// comment that names its purpose.

/// Releases the lock if the caller still has it.
const UNLOCK: &str = "--unlock
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0";

/// Releases the lock if the caller still has it, and notifies the subscribers.
const UNLOCK_AND_TELL: &str = "--unlock
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', 'released', 'lock')
return 1";

/// Renews the whole lease if the caller still has the lock.
const EXTEND: &str = "--extend
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], 10000) end
return 0";

/// Takes the lock if nobody has it.
async fn take(link: &mut GatedConnection, token: &str) -> RedisResult<bool> {
    send(link, &["SET", "lock", token, "NX", "PX", "10000"]).await
}

/// Runs a script on the lock with this token.
async fn run<T: redis::FromRedisValue>(
    link: &mut GatedConnection,
    script: &str,
    token: &str,
) -> RedisResult<T> {
    send(link, &["EVAL", script, "1", "lock", token]).await
}

/// Expects that the explorer finds the bug and shows `expected`. The repaired code must pass a
/// sample of all schedules, and in a thorough run every one in which replies are prompt.
///
/// The repaired code must also pass a sample of two rounds under the faults that it `endures`.
/// Other faults would cause another known bug, or delays longer than its leases.
///
/// With `LOCKSTEP_KNOWN_BUGS=whole`, schedules with late replies are explored whole. So is one
/// round under the faults that it `endures`, and two rounds with only its crashes.
#[track_caller]
fn check(buggy: &Scenario, repaired: &Scenario, endures: Faults, expected: &Expect) {
    finds(buggy, expected);
    if !REPAIRED.is_left_out() {
        exhaustive(&repaired.clone().prompt_replies()).unwrap();
    }
    let samples = KNOWN.get();
    sample(repaired, samples, 0).unwrap();
    let harder =
        repaired.clone().faults(endures).must_reach(Reached { contention: true, ..Reached::default() });
    sample(&harder.clone().rounds(2), samples, 0).unwrap();
    if std::env::var("LOCKSTEP_KNOWN_BUGS").is_ok_and(|bounds| bounds == "whole") {
        let crashes = Faults::none().crashes(endures.crashes);
        for harder in [repaired.clone(), harder.clone(), harder.faults(crashes).rounds(2)] {
            let found = exhaustive(&harder).unwrap();
            println!("{harder:?}: {} schedules, {} blocked", found.schedules, found.blocked);
        }
    }
}

/// Expects that the explorer finds the bug and shows `expected`. For a second bug that has the same
/// repair.
#[track_caller]
fn finds(buggy: &Scenario, expected: &Expect) {
    let report = exhaustive(buggy).expect_err("the bug is to be found");
    let found = match report.problem {
        Problem::Violated { property, timeline, .. } => format!("{property}\n\n{timeline}"),
        Problem::Failed { actor, what, timeline, .. } => format!("{actor} {what}\n\n{timeline}"),
        Problem::Livelock { round, timeline, .. } => format!("a livelock of {round} steps\n\n{timeline}"),
        other => panic!("{other:?}"),
    };
    expected.assert_eq(&found);
}
