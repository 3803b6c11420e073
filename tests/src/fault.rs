//! What may go wrong, and how often: the budgets that keep an exploration finite.

use std::time::Duration;

/// Budgets for one execution. Without any, only the order of commands is explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// How many clients may crash, each at any time between its steps.
    pub crashes: u32,
    /// How many stalls there may be: steps of the clock to an instant that matters, or just past it, or until a timer of some client's
    /// fires, while clients wait to send a command, or have read their clock and not yet sent their first. Where nothing runs out they
    /// last a millisecond, or a lease and some grace.
    pub stalls: u32,
    /// How many messages may be lost: a request that never arrives, a reply that the client never hears, or one for which the client's
    /// library, which has not heard it, sends the request again.
    pub lost: u32,
    /// One client's clock may be ahead by this much, or behind by as much; zero for clocks that agree.
    pub skew: Duration,
    /// One server's clock may jump ahead by this much, once, if nothing else happens to a server; zero if it may not.
    pub jump: Duration,
    /// How often a server may lose all its data and scripts, as one that is restarted without persistence does. Clients connect anew
    /// without noticing.
    pub restarts: u32,
    /// How long a server that restarts refuses all requests; zero if it is there again at once.
    pub outage: Duration,
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

    /// A server that restarts is away for so long.
    pub fn outage(self, outage: Duration) -> Faults {
        Faults { outage, ..self }
    }

    /// Up to this many messages are lost.
    pub fn lost(self, lost: u32) -> Faults {
        Faults { lost, ..self }
    }

    /// One client's clock is wrong by this much.
    pub fn skew(self, skew: Duration) -> Faults {
        Faults { skew, ..self }
    }

    /// How often what takes from this budget may happen.
    pub(crate) fn of(&self, budget: Budget) -> u32 {
        match budget {
            Budget::Crashes => self.crashes,
            Budget::Stalls => self.stalls,
            Budget::Lost => self.lost,
            Budget::Servers => self.restarts.max(u32::from(!self.jump.is_zero())),
        }
    }
}

/// What faults take from. Of two that take from one budget the first may leave nothing for the second, so their order matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// [`Faults::crashes`]
    Crashes,
    /// [`Faults::stalls`]
    Stalls,
    /// [`Faults::lost`]
    Lost,
    /// [`Faults::jump`] and [`Faults::restarts`]
    Servers,
}

/// What may befall a request that waits to be sent, in place of being run and answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mishap {
    /// It never arrives. The client waits for a reply until its patience is over, and hears that it timed out.
    LoseRequest,
    /// It runs, and the reply is lost or comes too late, which is the same to a client that waits no longer: it hears that it timed
    /// out.
    LoseReply,
    /// It runs, the reply is lost, and the client's library sends it again by itself: it waits to be sent once more, and what the
    /// client hears is the second reply, since nobody has heard the first.
    Resend,
}

impl Mishap {
    /// All of them.
    pub const ALL: &'static [Mishap] = &[Mishap::LoseRequest, Mishap::LoseReply, Mishap::Resend];

    /// As in the text of a schedule.
    pub const fn name(self) -> &'static str {
        match self {
            Mishap::LoseRequest => "lose-request",
            Mishap::LoseReply => "lose-reply",
            Mishap::Resend => "resend",
        }
    }

    /// What it takes from.
    pub const fn budget(self) -> Budget {
        match self {
            Mishap::LoseRequest | Mishap::LoseReply | Mishap::Resend => Budget::Lost,
        }
    }
}
