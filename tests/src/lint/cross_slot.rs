//! Requests that need keys of several nodes of a cluster.

use super::habit::Lint;
use super::usage::{Key, Usage, show};

pub(super) const LINT: Lint = Lint {
    name: "cross-slot",
    summary: "One request touches keys in different slots of a cluster.",
    advice: "A cluster refuses it with CROSSSLOT: put one hash tag into all keys that belong together, as in {lock} and {lock}:queue.",
    find,
};

fn find(usage: &Usage<'_>) -> Option<String> {
    usage.calls.iter().find_map(|call| {
        let keys: Vec<Key> = call.touched().map(|(key, ..)| key).collect();
        let (first, rest) = keys.split_first()?;
        let other = rest.iter().find(|(_, key)| slot(key) != slot(&first.1))?;
        let [one, two] = [first, other].map(|key| format!("{} is in slot {}", show(key), slot(&key.1)));
        Some(format!("{} {one}, and {two}.", call.said()))
    })
}

/// The slot of a key in a cluster. A scenario with a server for each node finds the node by it.
///
/// <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>
pub fn slot(key: &[u8]) -> u16 {
    emulator::key_slot(key)
}
