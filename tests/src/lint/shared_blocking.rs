//! Commands that block a connection which others use.

use emulator::command::{self, Flag};

use super::{Lint, Usage};

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
    let is_blocking = |(name, _): (String, _)| blocks(&name);
    let call =
        usage.calls.iter().find(|call| call.sent.is_shared && call.command().is_some_and(is_blocking))?;
    Some(call.said())
}
