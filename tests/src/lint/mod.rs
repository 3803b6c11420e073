//! Lints: habits of lock code that break locks sooner or later. A lint reads the commands, replies
//! and footprints of an execution. It does not prove that a lock is broken: oracles do.
//!
//! [`LINTS`] has a row for each. `tests/guide/lints.md` has a section for each, with a schedule in
//! which the habit does harm. A scenario may allow a lint, and then says why.

mod usage;
mod habit;
mod no_ttl;
mod setnx_then_expire;
mod plain_del;
mod client_time;
mod undeclared_key;
mod cross_slot;
mod shared_blocking;
mod creating_renewal;
mod other_lease;

use std::fmt;
use std::time::Duration;

pub use cross_slot::slot;
pub use habit::Lint;

use crate::trace::History;
use usage::Usage;

/// All lints.
pub const LINTS: &[Lint] = &[
    no_ttl::LINT,
    setnx_then_expire::LINT,
    plain_del::LINT,
    client_time::LINT,
    undeclared_key::LINT,
    cross_slot::LINT,
    shared_blocking::LINT,
    creating_renewal::LINT,
    other_lease::LINT,
];

/// A lint that an execution shows.
#[derive(Clone, Debug)]
pub struct Warning {
    /// The lint.
    pub lint: &'static Lint,
    /// Where the code does it: the client, and its commands.
    pub place: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Warning { lint: Lint { name, summary, advice, .. }, place } = self;
        write!(f, "{summary}\n  {place}\n  {advice}\n  ")?;
        write!(
            f,
            "See tests/guide/lints.md#{name}. If it does no harm here: Scenario::allow(\"{name}\", \"why\")"
        )
    }
}

/// A lint that a scenario allows: [`Scenario::allow`](crate::Scenario::allow).
#[derive(Clone, Debug)]
pub struct Allowance {
    /// The lint.
    pub lint: &'static Lint,
    /// Why the habit does no harm there.
    pub reason: String,
    /// The code shows the habit. Without that, the allowance hides nothing.
    pub is_fulfilled: bool,
}

/// A warning of an allowance that is not fulfilled.
impl fmt::Display for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Allowance { lint: Lint { name, .. }, reason, .. } = self;
        write!(
            f,
            "The scenario allows {name} ({reason}), but no execution that was looked at shows it.\n  "
        )?;
        write!(f, "If no other one does, remove Scenario::allow(\"{name}\", …)")
    }
}

/// The lints that at least one of these executions shows, each at its first place. The executions
/// are recorded in full, and these are the leases of their actors.
pub fn warnings<'a>(
    histories: impl IntoIterator<Item = &'a History>,
    leases: &'a [Duration],
) -> Vec<Warning> {
    let usages: Vec<Usage<'_>> = histories.into_iter().map(|history| Usage::of(history, leases)).collect();
    let first = |lint: &'static Lint| usages.iter().find_map(|usage| (lint.find)(usage));
    LINTS.iter().filter_map(|lint| Some(Warning { lint, place: first(lint)? })).collect()
}
