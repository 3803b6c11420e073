//! Commands that block a connection which others use.

use emulator::command::{self, Flag};

use super::habit::Lint;
use super::usage::{Call, Usage};

pub(super) const LINT: Lint = Lint {
    name: "shared-blocking",
    summary: "A blocking command waits on a connection that several tasks share.",
    advice: "All commands behind it wait, too, releases and renewals among them: open a connection for it alone.",
    find,
};

fn find(usage: &Usage<'_>) -> Option<String> {
    let blocks = |name: &str| {
        command::lookup(name.as_bytes()).is_some_and(|(row, _)| row.flags.contains(&Flag::Blocking))
    };
    let connection = |call: &Call<'_>| (call.actor, call.server, call.sent.connection);
    let mut shared = usage.calls.iter().filter(|call| call.sent.is_shared);
    let call = shared.find(|call| {
        let mut beside = usage.calls.iter().filter(|other| connection(other) == connection(call));
        is(call, blocks) && beside.any(|other| !is(other, |name| blocks(name) || OPENING.contains(&name)))
    })?;
    Some(call.said())
}

/// Whether the request is one command, whose name is meant.
fn is(call: &Call<'_>, is_meant: impl Fn(&str) -> bool) -> bool {
    call.command().is_some_and(|(name, _)| is_meant(&name))
}

/// A library sends these when it opens a connection.
const OPENING: [&str; 4] = ["CLIENT", "HELLO", "AUTH", "SELECT"];
