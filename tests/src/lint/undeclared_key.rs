//! Scripts that touch keys which their callers do not name.

use super::habit::Lint;
use super::usage::{Call, Usage, show};

pub(super) const LINT: Lint = Lint {
    name: "undeclared-key",
    summary: "A script touches a key that is not one of its KEYS.",
    advice: "A cluster sends a script to the node of its KEYS, and the node refuses other keys: pass each key by its name.",
    find,
};

fn find(usage: &Usage<'_>) -> Option<String> {
    usage.calls.iter().find_map(|call| {
        let declared = declared(call)?;
        let undeclared = call.touched().find(|((_, key), ..)| !declared.contains(key));
        let (key, ..) = undeclared?;
        Some(format!("{} The script touches {}.", call.said(), show(&key)))
    })
}

/// The keys that the caller of a script names.
fn declared<'a>(call: &'a Call<'_>) -> Option<&'a [Vec<u8>]> {
    let args = call.args_of(&["EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO"])?;
    let count: usize = std::str::from_utf8(args.get(1)?).ok()?.parse().ok()?;
    args.get(2..2 + count)
}
