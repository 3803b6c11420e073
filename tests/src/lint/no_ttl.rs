//! Lock keys that nothing ends.

use emulator::{Access, Part, Resource};

use super::usage::{Key, show};
use super::{Call, Lint, Usage};

pub(super) const LINT: Lint = Lint {
    name: "no-ttl",
    summary: "A lock key has no time to live.",
    advice: "If the client crashes, the key stays for ever: set the time to live in the command that makes the key, as SET key token NX PX ms does.",
    find,
};

/// A key is one of a lock if the attempt wrote it, and the release removes it. A sorted set may
/// keep the ends of its members itself.
fn find(usage: &Usage<'_>) -> Option<String> {
    usage.stays.iter().find_map(|stay| {
        let granted = *stay.attempt.last()?;
        let endless = |key: &Key| {
            // Other keys, such as a counter of fencing tokens, stay on purpose.
            let is_released = stay.after.iter().any(|&nth| usage.calls[nth].has_removed(key));
            is_released && !is_sorted_set(usage, key) && !has_deadline(usage, key, granted)
        };
        let key = usage.attempted(stay).into_iter().find(endless)?;
        let made = stay.attempt.iter().find(|&&nth| usage.calls[nth].written().any(|own| own == key))?;
        Some(format!("{} The key {} never ends.", usage.calls[*made].said(), show(&key)))
    })
}

fn is_sorted_set(usage: &Usage<'_>, key: &Key) -> bool {
    let touched = usage.calls.iter().flat_map(Call::touched);
    touched.filter(|(own, ..)| own == key).any(|(_, resource, ..)| {
        matches!(resource, Resource::Key { part: Part::Member(_) | Part::Places(..), .. })
    })
}

/// Whether the key has a time to live after the call of this number, or does not exist.
fn has_deadline(usage: &Usage<'_>, key: &Key, nth: usize) -> bool {
    let last = usage.calls[..=nth].iter().rfind(|call| call.written().any(|own| own == *key));
    last.is_none_or(|last| {
        let mut own = last.touched().filter(|(own, ..)| own == key);
        last.has_removed(key)
            || own.any(|(_, _, access, deadline)| access == Access::Write && deadline.is_some())
    })
}
