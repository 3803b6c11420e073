//! What may go wrong, and how often: the budgets that keep an exploration finite.

use std::time::Duration;

/// Budgets for one execution. Without any, only the order of commands is explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// How many clients may crash, each at any time between its steps.
    pub crashes: u32,
    /// How many stalls there may be: steps of the clock to an instant that matters, or just past it, or until a timer of some
    /// client's fires, while clients wait to send a command, or have read their clock and not yet sent their first. Where nothing
    /// runs out they last a millisecond, or a lease and some grace.
    pub stalls: u32,
    /// How many messages may be lost: a request that never arrives, a reply that the client never hears, or one for which the
    /// client's library, which has not heard it, sends the request again.
    pub lost: u32,
    /// How often a connection may break: before a request is sent, or before its reply comes. Whatever that connection watched,
    /// queued, selected or waited for is gone. The client hears that the pipe is broken, and its next request goes over a new
    /// connection, as that of a `ConnectionManager` does. One that listens may break while a message is on its way, and the client hears
    /// that the subscription has ended.
    pub drops: u32,
    /// How often an operation may be cancelled of which the client says that it can be ([`Client::cancellable`](crate::Client)):
    /// wherever it waits, or when its request has run and before it hears the reply.
    pub cancels: u32,
    /// How many requests may be delayed: the client hears that it timed out, while its request is still on its way, and runs at any
    /// later time, in order with those behind it on the same connection.
    pub delays: u32,
    /// One client's clock may be ahead by this much, or behind by as much; zero for clocks that agree. What is said here and in
    /// the next three of clocks is so from the start, and of one clock at most.
    pub skew: Duration,
    /// One client's clock may run too fast by so many millionths, or too slow by as many.
    pub drift_ppm: u32,
    /// One server's clock may be ahead by this much, or behind by as much.
    pub server_skew: Duration,
    /// One server's clock may run too fast by so many millionths, or too slow by as many.
    pub server_drift_ppm: u32,
    /// One client's clock may jump ahead by this much, or back by as much, once, at any time.
    pub client_jump: Duration,
    /// One server's clock may jump ahead by this much, once, if nothing else happens to a server; zero if it may not.
    pub jump: Duration,
    /// How often a server may lose all its data and scripts, as one that is restarted without persistence does. Clients connect
    /// anew without noticing, but for those that listen or wait there (`SUBSCRIBE`, `BLPOP`): they hear that the connection has broken.
    pub restarts: u32,
    /// How often a server may be restarted that has persistence: it keeps its data and loses its scripts. Clients notice as much as of
    /// [`Faults::restarts`].
    pub reloads: u32,
    /// How many of the last writes such a server may have lost, as one with `appendfsync everysec` may: its log ends early. A
    /// write is a command, a transaction or a script that changed data; any number of them up to this one may be missing, the
    /// latest ones.
    pub unsynced: u32,
    /// How often a server may forget its scripts, as after `SCRIPT FLUSH`, and nothing else.
    pub flushes: u32,
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

    /// Up to this many restarts with data.
    pub fn reloads(self, reloads: u32) -> Faults {
        Faults { reloads, ..self }
    }

    /// Up to this many of the last writes are missing after a restart with data.
    pub fn unsynced(self, unsynced: u32) -> Faults {
        Faults { unsynced, ..self }
    }

    /// A server forgets its scripts, up to this many times.
    pub fn flushes(self, flushes: u32) -> Faults {
        Faults { flushes, ..self }
    }

    /// A server that restarts is away for so long.
    pub fn outage(self, outage: Duration) -> Faults {
        Faults { outage, ..self }
    }

    /// Up to this many messages are lost.
    pub fn lost(self, lost: u32) -> Faults {
        Faults { lost, ..self }
    }

    /// Up to this many connections break.
    pub fn drops(self, drops: u32) -> Faults {
        Faults { drops, ..self }
    }

    /// Up to this many operations are cancelled.
    pub fn cancels(self, cancels: u32) -> Faults {
        Faults { cancels, ..self }
    }

    /// Up to this many requests run when their clients have given them up.
    pub fn delays(self, delays: u32) -> Faults {
        Faults { delays, ..self }
    }

    /// One client's clock is wrong by this much.
    pub fn skew(self, skew: Duration) -> Faults {
        Faults { skew, ..self }
    }

    /// One client's clock runs too fast or too slow by so many millionths.
    pub fn drift(self, drift_ppm: u32) -> Faults {
        Faults { drift_ppm, ..self }
    }

    /// One server's clock is wrong by this much.
    pub fn server_skew(self, server_skew: Duration) -> Faults {
        Faults { server_skew, ..self }
    }

    /// One server's clock runs too fast or too slow by so many millionths.
    pub fn server_drift(self, server_drift_ppm: u32) -> Faults {
        Faults { server_drift_ppm, ..self }
    }

    /// One client's clock jumps by this much.
    pub fn client_jump(self, client_jump: Duration) -> Faults {
        Faults { client_jump, ..self }
    }

    /// Budgets within these; `draw` gives a number up to the one that it is given. How far a clock is wrong, how much a restart
    /// loses, and how long a server is away, stays as it is.
    pub(crate) fn sampled(self, mut draw: impl FnMut(u32) -> u32) -> Faults {
        // Written out whole, so that whoever adds a fault adds it here.
        Faults {
            crashes: draw(self.crashes),
            stalls: draw(self.stalls),
            lost: draw(self.lost),
            drops: draw(self.drops),
            cancels: draw(self.cancels),
            delays: draw(self.delays),
            skew: self.skew * draw(1),
            drift_ppm: self.drift_ppm * draw(1),
            server_skew: self.server_skew * draw(1),
            server_drift_ppm: self.server_drift_ppm * draw(1),
            client_jump: self.client_jump * draw(1),
            jump: self.jump * draw(1),
            restarts: draw(self.restarts),
            reloads: draw(self.reloads),
            unsynced: self.unsynced,
            flushes: draw(self.flushes),
            outage: self.outage,
        }
    }

    /// How often what takes from this budget may happen.
    pub(crate) fn of(&self, budget: Budget) -> u32 {
        match budget {
            Budget::Crashes => self.crashes,
            Budget::Stalls => self.stalls,
            Budget::Lost => self.lost,
            Budget::ClientClocks => u32::from(!self.client_jump.is_zero()),
            Budget::Reloads => self.reloads,
            Budget::Flushes => self.flushes,
            Budget::Drops => self.drops,
            Budget::Cancels => self.cancels,
            Budget::Delays => self.delays,
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
    /// [`Faults::drops`]
    Drops,
    /// [`Faults::cancels`]
    Cancels,
    /// [`Faults::delays`]
    Delays,
    /// [`Faults::jump`] and [`Faults::restarts`]
    Servers,
    /// [`Faults::client_jump`]
    ClientClocks,
    /// [`Faults::reloads`]
    Reloads,
    /// [`Faults::flushes`]
    Flushes,
}

/// What may befall a request that waits to be sent, in place of being run and answered; or, [`RequestFault::DropBefore`], a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestFault {
    /// It never arrives. The client waits for a reply until its patience is over, and hears that it timed out.
    LoseRequest,
    /// It runs, and the reply is lost or comes too late, which is the same to a client that waits no longer: it hears that it timed
    /// out.
    LoseReply,
    /// It runs, the reply is lost, and the client's library sends it again by itself: it waits to be sent once more, and what the
    /// client hears is the second reply, since nobody has heard the first.
    Resend,
    /// It never arrives: the connection has broken, as the client hears at once.
    DropBefore,
    /// It runs, and the connection breaks before the reply comes, as the client hears at once. What has to wait on the server
    /// waits no longer.
    DropAfter,
    /// The client hears that it timed out, and the request runs later.
    Delay,
    /// It runs, and the operation that it belongs to is cancelled before the reply comes. What has to wait on the server waits no
    /// longer.
    CancelAfter,
}

impl RequestFault {
    /// All of them.
    pub const ALL: &'static [RequestFault] = &[
        RequestFault::LoseRequest,
        RequestFault::LoseReply,
        RequestFault::Resend,
        RequestFault::DropBefore,
        RequestFault::DropAfter,
        RequestFault::Delay,
        RequestFault::CancelAfter,
    ];

    /// As in the text of a schedule.
    pub const fn name(self) -> &'static str {
        match self {
            RequestFault::LoseRequest => "lose-request",
            RequestFault::LoseReply => "lose-reply",
            RequestFault::Resend => "resend",
            RequestFault::DropBefore => "drop-before",
            RequestFault::DropAfter => "drop-after",
            RequestFault::Delay => "delay",
            RequestFault::CancelAfter => "cancel-after",
        }
    }

    /// What it takes from.
    pub const fn budget(self) -> Budget {
        match self {
            RequestFault::LoseRequest | RequestFault::LoseReply | RequestFault::Resend => Budget::Lost,
            RequestFault::DropBefore | RequestFault::DropAfter => Budget::Drops,
            RequestFault::Delay => Budget::Delays,
            RequestFault::CancelAfter => Budget::Cancels,
        }
    }
}
