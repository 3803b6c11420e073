//! Every lock for use has mutants of itself: one line of a script is changed. A check finds each of
//! them, by the property that the line is there for.

use harness::check::{Effort, Outcome, check};
use harness::execution::Runner;
use locks::registry::{ALGORITHMS, Algorithm, DynLock, FaultClass, Open, Property};
use locks::{Connection, Env, Terms};

use crate::bounds::MUTANTS;

use super::rewritten::Rewritten;

use FaultClass::{Crash, Order, Pairs, Server, Slow};
use Property::{
    ExclusiveFact, Fenced, NoLeak, NoLostWakeUp, OverIssue, OwnerSafe, Recovers, Unbroken, WriterAlone,
};

fn algorithm(name: &str) -> &'static Algorithm {
    ALGORITHMS.iter().find(|algorithm| algorithm.name == name).unwrap()
}

/// Checks that a mutant violates this property in this class, and that its original does not.
#[track_caller]
fn find(mutant: Algorithm, of: &str, from: &str, class: FaultClass, property: Property) {
    let original = algorithm(of);
    assert!(original.spec.holds(property, class), "{of} breaks {property} by itself");
    assert!(original.scripts.iter().any(|script| script.contains(from)), "{of} has no {from:?}");
    let effort = Effort { limit: 1_000, samples: 500, seed: 0 };
    let mutant: &Algorithm = Box::leak(Box::new(mutant));
    let verdicts = match check(&mut Runner::new(), mutant, class, effort) {
        Ok(verdicts) => verdicts,
        // A client that tries for ever is an error of the whole check.
        Err(report) => return assert!(report.to_string().contains("does not come to its end"), "{report}"),
    };
    let verdict = verdicts.iter().find(|verdict| verdict.property == property).unwrap();
    assert!(matches!(verdict.outcome, Outcome::Violated(..)), "{}: {:?}", mutant.name, verdict.outcome);
}

/// Finds the mutant of a lock in whose scripts a piece is replaced.
macro_rules! find {
    ($of:literal, $from:literal => $to:literal, $class:ident, $property:ident) => {{
        fn open(connections: Vec<Connection>, env: Env, terms: &Terms) -> Box<dyn DynLock> {
            let mutate = |connection| Connection::subscribing(Rewritten::new(connection, &[($from, $to)]));
            algorithm($of).open(connections.into_iter().map(mutate).collect(), env, terms)
        }
        let name = concat!($of, " with ", $to, " for ", $from);
        let open = Open::Many(algorithm($of).servers(), open);
        let mutant = Algorithm { name, open, ..*algorithm($of) };
        find(mutant, $of, $from, $class, $property);
    }};
}

#[test]
fn mutants_of_mutex_are_found() {
    // The lock is taken from its holder.
    find!("mutex", "holder and holder ~= token" => "false", Order, ExclusiveFact);
    // The release does not check the owner.
    find!("mutex", "if holder == token then\n  redis.call('DEL'" => "if holder then\n  redis.call('DEL'", Slow, OwnerSafe);
    // The lease is missing.
    find!("mutex", "'SET', KEYS[1], token, 'PX', lease" => "'SET', KEYS[1], token", Crash, Recovers);
    // Two grants in one microsecond.
    find!("mutex", "last + 1" => "last", Order, Fenced);
    // The last token does not count, and time stands still.
    find!("mutex", "math.max(time[1] * 1000000 + time[2], last + 1)" => "time[2]", Order, Fenced);
}

#[test]
fn mutants_of_reentrant_mutexes_are_found() {
    // The lock is taken from its owner.
    find!("reentrant_mutex", "holder and holder ~= token" => "false", Order, ExclusiveFact);
    // The release does not check the owner.
    find!("reentrant_mutex", "if holder == token then\n  redis.call('DEL'" => "if holder then\n  redis.call('DEL'", Slow, OwnerSafe);
    // To lock again does not ask whether the lock is still held.
    find!("reentrant_mutex", "return 0" => "return 1", Server, Unbroken);
}

#[test]
fn mutants_of_renewals_are_found() {
    if MUTANTS.is_left_out() {
        return;
    }
    // A renewal takes the lock if another client has it.
    find!("mutex_renewed", "return 0" => "redis.call('SET', KEYS[1], ARGV[1]) return 1", Slow, OwnerSafe);
    // It ends the lease.
    find!("mutex_renewed", "'PEXPIRE', KEYS[1], ARGV[2]" => "'PEXPIRE', KEYS[1], 0", Slow, ExclusiveFact);
    find!("multi_lock_renewed", "'PEXPIRE', KEYS[nth], lease" => "'PEXPIRE', KEYS[nth], 0", Slow, ExclusiveFact);
    // It makes the lease endless.
    find!("mutex_renewed", "'PEXPIRE', KEYS[1], ARGV[2]" => "'PERSIST', KEYS[1]", Pairs, Recovers);
    // It gives the permit back, or ends the grant of the reader.
    find!("semaphore_renewed", "if is_held then\n  add()" => "if is_held then\n  redis.call('DEL', KEYS[1])", Slow, OverIssue);
    find!("rw_lock_renewed", "add_reader()\nreturn 1" => "redis.call('ZREM', KEYS[4], token)\nreturn 1", Slow, WriterAlone);
}

#[test]
fn mutants_of_read_write_locks_are_found() {
    // A reader does not look for a writer.
    find!("rw_lock", "local wait = writer and redis.call('PTTL', KEYS[1]) or" => "local wait =", Order, WriterAlone);
    // A writer does not look for readers.
    find!("rw_lock", "last and last - now or" => "", Order, WriterAlone);
    // A reader that releases ends the grants of all readers.
    find!("rw_lock", "'ZREM', KEYS[4], token" => "'DEL', KEYS[4]", Order, OwnerSafe);
    // A release wakes nobody.
    find!("rw_lock_waiting", "if is_writer or not writer then\n  wake()\nend" => "", Order, NoLostWakeUp);
}

#[test]
fn mutants_of_waiting_mutexes_are_found() {
    if MUTANTS.is_left_out() {
        return;
    }
    // A release wakes nobody.
    find!("mutex_waiting", "or holder == token then\n  wake()" => "or holder == token then", Order, NoLostWakeUp);
    // A client that waits is not in the queue.
    find!("mutex_waiting", "'RPUSH', KEYS[2], token" => "'ECHO', token", Order, NoLostWakeUp);
    // A dead client keeps its turn.
    find!("mutex_fair", "if until_ms and tonumber(until_ms) > now" => "if until_ms", Crash, Recovers);
    // The first of the queue is not preferred to the others, so it is not in turn.
    find!("mutex_fair", "waiter and waiter ~= token" => "waiter", Order, NoLostWakeUp);
}

#[test]
fn mutants_of_semaphores_are_found() {
    // One permit too many.
    find!("semaphore", "free() < count" => "free() < count - 1", Order, OverIssue);
    // A lease ends as soon as it begins.
    find!("semaphore", "redis.call('ZADD', KEYS[1], now + lease" => "redis.call('ZADD', KEYS[1], now", Order, OverIssue);
    // The release gives the oldest permit back.
    find!("semaphore", "'ZREM', KEYS[1], unpack(members)" => "'ZPOPMIN', KEYS[1]", Order, OwnerSafe);
    // A release wakes nobody.
    find!("semaphore_waiting", "if free() > 0 then\n  wake()\nend\nreturn is_held" => "return is_held", Order, NoLostWakeUp);
    // A dead client keeps its turn.
    find!("semaphore_fair", "if until_ms and tonumber(until_ms) > now" => "if until_ms", Crash, Recovers);
}

#[test]
fn mutants_of_multi_locks_are_found() {
    // The names are taken from their holder.
    find!("multi_lock", "holders[nth] and holders[nth] ~= token" => "false", Order, ExclusiveFact);
    // The release does not check the owner.
    find!("multi_lock", "if holders[nth] == token then" => "if holders[nth] then", Slow, OwnerSafe);
    // The leases are missing.
    find!("multi_lock", "'SET', KEYS[nth], token, 'PX', lease" => "'SET', KEYS[nth], token", Crash, Recovers);
    // The release leaves the second name.
    find!("multi_lock", "local held = 0\nfor nth = 1, names" => "local held = 0\nfor nth = 1, 1", Order, NoLeak);
}

#[test]
fn mutants_of_redlock_are_found() {
    if MUTANTS.is_left_out() {
        return;
    }
    // A server takes its vote from the holder.
    find!("redlock_for_use", "holder and holder ~= ARGV[1]" => "false", Order, ExclusiveFact);
    // The release does not check the owner.
    find!("redlock_for_use", "== ARGV[1] then\n  return redis.call('DEL'" => "then\n  return redis.call('DEL'", Slow, OwnerSafe);
    // The lease is missing.
    find!("redlock_for_use", "ARGV[1], 'PX', ARGV[2]" => "ARGV[1]", Crash, Recovers);
    // Nothing is given up.
    find!("redlock_for_use", "'DEL', KEYS[1]" => "'EXISTS', KEYS[1]", Order, NoLeak);
}
