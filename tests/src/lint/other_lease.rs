//! Lock keys that live for another time than the lease of the scenario.

use super::habit::Lint;
use super::usage::{Call, Key, Stay, Usage, show};

pub(super) const LINT: Lint = Lint {
    name: "other-lease",
    summary: "The time to live of a lock key is not the lease by which grants are judged.",
    advice: "Oracles judge by Scenario::lease, and the server ends the grant at another time: send client.lease(), or set both from one constant.",
    find,
};

/// The attempt has left times to live at keys of the lock, and none of them is the lease. Keys that
/// only serve the lock, such as its queue, may live for longer. A sorted set may keep the ends of
/// grants itself. A deadline by a clock that is wrong
/// is the lint of [`client_time`](super::client_time).
fn find(usage: &Usage<'_>) -> Option<String> {
    let keeps_ends = |stay: &Stay| usage.attempted(stay).iter().any(|key| usage.is_sorted_set(key));
    usage.stays.iter().filter(|stay| !keeps_ends(stay)).find_map(|stay| {
        let set = |key: Key| {
            let mut calls = stay.attempt.iter().rev().map(|&nth| &usage.calls[nth]);
            calls.find_map(|call| Some((call, call.left_ms(&key)?, show(&key))))
        };
        let set: Vec<(&Call<'_>, i64, String)> = usage.lock_keys(stay).filter_map(set).collect();
        let (call, left_ms, key) = set.first()?;
        let lease_ms = i64::try_from(usage.leases.get(call.actor.0)?.as_millis()).ok()?;
        let is_other = !call.has_option(DEADLINES) && set.iter().all(|&(_, left_ms, _)| left_ms != lease_ms);
        is_other.then(|| {
            format!("{} The key {key} lives for {left_ms} ms, and the lease is {lease_ms} ms.", call.said())
        })
    })
}

/// The options of commands that set a deadline.
const DEADLINES: &[&str] = &["EXAT", "PXAT"];
