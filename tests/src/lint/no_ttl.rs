//! Lock keys that nothing ends.

use emulator::Access;

use super::habit::Lint;
use super::usage::{Key, Usage, show};

pub(super) const LINT: Lint = Lint {
    name: "no-ttl",
    summary: "A lock key has no time to live.",
    advice: "If the client crashes, the key stays for ever: set the time to live in the command that makes the key, as SET key token NX PX ms does.",
    find,
};

fn find(usage: &Usage<'_>) -> Option<String> {
    usage.stays.iter().find_map(|stay| {
        let granted = *stay.attempt.last()?;
        let guards = |key: &Key| usage.records.contains(key) || is_guard(usage, &stay.attempt, key);
        let key = usage.lock_keys(stay).find(|key| guards(key) && !has_deadline(usage, key, granted))?;
        let made = stay.attempt.iter().find(|&&nth| usage.calls[nth].written().any(|own| own == key))?;
        Some(format!("{} The key {} never ends.", usage.calls[*made].said(), show(&key)))
    })
}

/// Whether one of these calls made the key only if it did not exist: a string, by a command that
/// says so or by a script. A list of jobs, say, guards nothing.
fn is_guard(usage: &Usage<'_>, attempt: &[usize], key: &Key) -> bool {
    attempt.iter().map(|&nth| &usage.calls[nth]).any(|call| {
        let is_conditional = call.args_of(&["SETNX", "MSETNX", "EVAL", "EVALSHA", "FCALL"]).is_some()
            || call.args_of(&["SET"]).is_some() && call.has_option(&["NX"]);
        is_conditional && call.has_made_string(key)
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
