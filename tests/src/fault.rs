//! What may go wrong, and how often: the budgets that keep an exploration finite.

use std::time::Duration;

/// Budgets for one execution. Without any, only the order of commands is explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// How many clients may crash, each right after any of its steps.
    pub crashes: u32,
    /// How many stalls there may be: steps of the clock past the next instant that matters, and clients that stop between
    /// reading their clock and sending their first command.
    pub stalls: u32,
    /// How far one client's clock may be wrong, ahead or behind; zero for clocks that agree.
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
