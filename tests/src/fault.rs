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
    /// One server's clock may jump ahead by this much, once, if nothing else happens to a server; zero if it may not.
    pub jump: Duration,
    /// How often a server may lose all its data and scripts, as one that is restarted without persistence does. Clients connect anew
    /// without noticing.
    pub restarts: u32,
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

    /// One server's clock jumps ahead by this much.
    pub fn jump(self, jump: Duration) -> Faults {
        Faults { jump, ..self }
    }

    /// Up to this many restarts without data.
    pub fn restarts(self, restarts: u32) -> Faults {
        Faults { restarts, ..self }
    }

    /// One client's clock is wrong by this much.
    pub fn skew(self, skew: Duration) -> Faults {
        Faults { skew, ..self }
    }
}
