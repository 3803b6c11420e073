//! Bugs that locks on Redis have or had in the field, one file each: the explorer finds each by itself, and the same code with
//! the bug repaired passes within the same bounds.

mod clean_up_where_ok_only;
mod deaf_after_reconnect;
mod double_increment;
mod extend_resurrects;
mod hold_and_wait;
mod lost_reply_on_acquire;
mod no_validity_check;
mod noscript_on_release;
mod release_overtakes_acquire;
mod renewal_after_cancel;
mod renewal_outlives_release;
mod shared_token;
mod signal_list;
mod token_list;
mod try_then_subscribe;
mod writer_starvation;

use std::time::Duration;

use expect_test::Expect;
use harness::client::GatedConnection;
use harness::explore::Problem;
use harness::trace::Reached;
use harness::{Faults, Scenario, exhaustive, sample};
use redis::RedisResult;

use crate::explorer::oracles::send;

/// One of each: a crash, a stall, and a message that is lost.
fn one_of_each() -> Faults {
    Faults::none().crashes(1).stalls(1).lost(1)
}

/// How long every lock here is granted.
const LEASE: Duration = Duration::from_secs(10);

// A counterexample shows the first eight bytes of a script: they say what it is for.

/// Gives a lock back that is still the caller's.
const UNLOCK: &str = "--unlock
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0";

/// The same, and tells who listens.
const UNLOCK_AND_TELL: &str = "--unlock
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', 'released', 'lock')
return 1";

/// Makes the lease of a lock that is still the caller's a whole one again.
const EXTEND: &str = "--extend
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], 10000) end
return 0";

/// Takes the lock if nobody has it.
async fn take(link: &mut GatedConnection, token: &str) -> RedisResult<bool> {
    send(link, &["SET", "lock", token, "NX", "PX", "10000"]).await
}

/// Runs a script on the lock for whoever has this token.
async fn run<T: redis::FromRedisValue>(
    link: &mut GatedConnection,
    script: &str,
    token: &str,
) -> RedisResult<T> {
    send(link, &["EVAL", script, "1", "lock", token]).await
}

/// How many schedules of two rounds are run.
const SAMPLES: u64 = 2_000;

/// The explorer finds the bug, and shows it like this; with the bug repaired, it finds nothing in all that can happen. Nor does it
/// in a sample of two rounds with all at once that the repaired code `endures`: what it does not is another known bug, or lasts
/// longer than its leases. With `LOCKSTEP_KNOWN_BUGS=whole`, all at once in one round is explored whole, and so are two rounds with a crash.
#[track_caller]
fn check(buggy: &Scenario, repaired: &Scenario, endures: Faults, expected: &Expect) {
    finds(buggy, expected);
    exhaustive(repaired).unwrap();
    let harder =
        repaired.clone().faults(endures).must_reach(Reached { contention: true, ..Reached::default() });
    sample(&harder.clone().rounds(2), SAMPLES, 0).unwrap();
    if std::env::var("LOCKSTEP_KNOWN_BUGS").is_ok_and(|bounds| bounds == "whole") {
        let crashes = Faults::none().crashes(endures.crashes);
        for harder in [harder.clone(), harder.faults(crashes).rounds(2)] {
            let found = exhaustive(&harder).unwrap();
            println!("{harder:?}: {} schedules, {} blocked", found.schedules, found.blocked);
        }
    }
}

/// The explorer finds the bug, and shows it like this: for a second bug beside the same repair.
#[track_caller]
fn finds(buggy: &Scenario, expected: &Expect) {
    let report = exhaustive(buggy).expect_err("the bug is to be found");
    let found = match report.problem {
        Problem::Violated { property, timeline, .. } => format!("{property}\n\n{timeline}"),
        Problem::Failed { actor, what, timeline, .. } => format!("{actor} {what}\n\n{timeline}"),
        other => panic!("{other:?}"),
    };
    expected.assert_eq(&found);
}
