//! What may go wrong, and how often: the budgets that keep an exploration finite.

use std::time::Duration;

/// Budgets for one execution. Without any, only the order of commands is explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// How many clients may crash, each right after any of its steps.
    pub crashes: u32,
    /// How many stalls there may be: steps of the clock to an instant that matters, or just past it, while clients wait to send
    /// a command, or have read their clock and not yet sent their first. Where nothing runs out they last a millisecond, or a
    /// lease and some grace.
    pub stalls: u32,
    /// One client's clock may be ahead by this much, or behind by as much; zero for clocks that agree.
    pub skew: Duration,
}

impl Faults {
    /// Nothing goes wrong.
    pub fn none() -> Faults {
        Faults::default()
    }

    /// Up to this many clients crash.
    pub fn crashes(self, crashes: u32) -> Faults {
        Faults { crashes, ..self }
    }

    /// Up to this many stalls.
    pub fn stalls(self, stalls: u32) -> Faults {
        Faults { stalls, ..self }
    }

    /// One client's clock is wrong by this much.
    pub fn skew(self, skew: Duration) -> Faults {
        Faults { skew, ..self }
    }
}
