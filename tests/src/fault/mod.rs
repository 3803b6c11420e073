//! The faults that may happen. Each fault is one file here and one row of [`FaultKind`]. Budgets,
//! steps, schedules, timelines and samples use these rows.

mod target;
mod budget;
mod clock;
mod lost;
mod drop;
mod delay;
mod cancel;
mod crash;
mod pause;
mod restart;
mod reload;
mod flush;

use std::fmt;

pub use budget::{Budget, Faults};
#[cfg(feature = "proptest")]
pub(crate) use budget::{FIELDS, Value};
pub use target::Target;
pub(crate) use target::{SERVERS_MAX, TargetKind};

use crate::actor::Actor;

/// A fault as a step of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fault {
    /// The target of the fault.
    pub target: Target,
    /// The kind of the fault.
    pub kind: FaultKind,
    /// By how much a clock is wrong, or how many writes are lost; zero for a fault without a
    /// number.
    pub amount: i64,
}

macro_rules! faults {
    ($($kind:ident = $row:path,)+) => {
        /// The kinds of faults.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FaultKind {
            $(#[doc = concat!("`", stringify!($row), "`")] $kind,)+
        }

        impl FaultKind {
            /// All kinds, in the order in which they are tried.
            pub const ALL: &[FaultKind] = &[$(FaultKind::$kind,)+];

            pub(crate) fn row(self) -> &'static FaultRow {
                match self {
                    $(FaultKind::$kind => &$row,)+
                }
            }
        }
    };
}

faults! {
    Skew = clock::SKEW,
    Drift = clock::DRIFT,
    ServerSkew = clock::SERVER_SKEW,
    ServerDrift = clock::SERVER_DRIFT,
    LoseRequest = lost::LOSE_REQUEST,
    LoseReply = lost::LOSE_REPLY,
    Resend = lost::RESEND,
    DropBefore = drop::DROP_BEFORE,
    DropAfter = drop::DROP_AFTER,
    Delay = delay::DELAY,
    CancelAfter = cancel::CANCEL_AFTER,
    Cancel = cancel::CANCEL,
    Crash = crash::CRASH,
    CrashAfter = crash::CRASH_AFTER,
    Pause = pause::PAUSE,
    Jump = clock::JUMP,
    ServerJump = clock::SERVER_JUMP,
    Restart = restart::RESTART,
    Reload = reload::RELOAD,
    Flush = flush::FLUSH,
}

/// Everything that the harness needs to know about a fault.
pub(crate) struct FaultRow {
    /// The first word of the fault in the text of a schedule. A fault of clients and one of servers
    /// may share a word.
    pub(crate) word: &'static str,
    /// A short description of the fault.
    pub(crate) summary: &'static str,
    pub(crate) target: TargetKind,
    /// The fault strikes only requests of an operation that can be cancelled.
    pub(crate) needs_operation: bool,
    pub(crate) unit: Unit,
    /// The methods of [`Faults`] that enable the fault, or set its details.
    pub(crate) set_by: &'static [&'static str],
    /// The budget that the fault uses. `None` if it holds from the start.
    pub(crate) budget: Option<Budget>,
    /// The fault can happen while less than this is spent of its budget. Zero if it cannot happen
    /// at all.
    pub(crate) limit: fn(&Faults) -> u32,
    /// The amounts with which the fault can happen.
    pub(crate) amounts: fn(&Faults) -> Vec<i64>,
    pub(crate) effect: Effect,
    /// The description of the fault for a timeline. If the fault strikes a request, the text is
    /// that of the request.
    pub(crate) describe: fn(Fault, &str) -> Description,
}

/// The unit of a fault's number, and its notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// No number.
    None,
    /// `+5ms`
    Millis,
    /// `-200ppm`
    Ppm,
    /// `-2`, or nothing for zero
    Writes,
}

/// The effect of a fault.
#[derive(Clone, Copy)]
pub(crate) enum Effect {
    /// The fault replaces the normal run and reply of a request.
    Request(RequestFault),
    /// The fault changes the execution. The function returns the fault as it happened.
    Act(fn(&mut dyn Effects, Fault) -> Fault),
    /// Time moves, and the client stands still.
    Pause,
}

/// How a request is handled instead of the normal run and reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestFault {
    pub(crate) delivery: Delivery,
    pub(crate) outcome: RequestOutcome,
    /// The fault can also strike a message of a subscription.
    pub(crate) strikes_messages: bool,
}

/// Whether and when a request reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Never,
    Now,
    Later,
}

/// The result that the client gets instead of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    /// A timeout error.
    TimedOut,
    /// A broken-pipe error. A command that waits on the server stops waiting.
    Disconnected,
    /// The reply to an equal request, which waits to be sent again.
    Resent,
    /// Nothing: the operation of the request is cancelled. A command that waits on the server stops
    /// waiting.
    Cancelled,
    /// Nothing: the client has crashed. A command that waits on the server stops waiting.
    Crashed,
}

/// The effects of faults on an execution.
pub(crate) trait Effects {
    /// Ends the client.
    fn crash(&mut self, actor: Actor);
    /// Cancels the latest operation of the client that can be cancelled.
    fn cancel(&mut self, actor: Actor);
    /// Moves a clock by `by_ms` milliseconds. If that is negative, the clock goes back.
    fn shift_clock(&mut self, target: Target, by_ms: i64);
    /// Makes a clock too fast by `ppm` millionths, or too slow if that is negative.
    fn drift_clock(&mut self, target: Target, ppm: i64);
    /// Makes a server close its subscribed and blocked connections. If restarts take time, it also
    /// refuses requests meanwhile.
    fn stop_server(&mut self, server: usize);
    /// Makes a server run commands that no client sent.
    fn execute(&mut self, server: usize, commands: &[&str]);
    /// Makes a server lose up to `count` of its last writes. Returns how many it lost.
    fn lose_writes(&mut self, server: usize, count: usize) -> usize;
    /// Begins the log of a server. `lose_writes` cannot lose what the server holds now.
    fn begin_log(&mut self, server: usize);
}

/// The description of a fault in a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Description {
    /// The step of the fault, as an action of its client.
    OfClient(String),
    /// The step of the fault, as the end of its client.
    EndOfClient(String),
    /// The step of the fault, as an event outside of all clients.
    Outside(String),
    /// A remark on the command in the step of the fault.
    Remark(String),
}

impl Fault {
    /// A fault without a number.
    pub fn new(kind: FaultKind, target: Target) -> Fault {
        Fault { target, kind, amount: 0 }
    }

    /// Whether the fault ends a client.
    pub(crate) fn is_crash(self) -> bool {
        matches!(self.kind, FaultKind::Crash | FaultKind::CrashAfter)
    }

    /// Whether the fault moves time.
    pub(crate) fn moves_time(self) -> bool {
        self.kind == FaultKind::Pause
    }

    /// Whether the fault is a wrong clock from the start.
    pub(crate) fn is_setup(self) -> bool {
        self.kind.row().budget.is_none()
    }

    /// How a request is handled instead of the normal run and reply; `None` if this is not a
    /// request fault.
    pub(crate) fn of_request(self) -> Option<RequestFault> {
        match self.kind.row().effect {
            Effect::Request(fault) => Some(fault),
            Effect::Act(_) | Effect::Pause => None,
        }
    }

    /// The name of the client, without its connection.
    fn client(self) -> String {
        self.target.actor().map_or_else(String::new, |actor| actor.to_string())
    }

    /// By how many milliseconds a clock is wrong; `None` for other units.
    pub(crate) fn millis(self) -> Option<i64> {
        (self.kind.row().unit == Unit::Millis).then_some(self.amount)
    }

    /// Parses a step; `None` if it is not a fault.
    pub(crate) fn parse(line: &str) -> Option<Fault> {
        let mut words = line.split_whitespace();
        let (word, target, amount) = (words.next()?, words.next()?, words.next());
        let of_word = FaultKind::ALL.iter().filter(|kind| kind.row().word == word);
        of_word.into_iter().find_map(|&kind| {
            let target = Target::parse(kind.row().target, target)?;
            let amount = kind.row().unit.parse(amount)?;
            Some(Fault { target, kind, amount })
        })
    }
}

impl FaultKind {
    /// The word of the fault in a schedule. A fault of clients and one of servers may share a word.
    pub fn word(self) -> &'static str {
        self.row().word
    }

    /// An example of the fault in a schedule, a description, and the methods of [`Faults`] that
    /// enable it.
    pub fn documentation(self) -> (String, &'static str, &'static [&'static str]) {
        let row = self.row();
        let target = match row.target {
            TargetKind::Client => Target::Client(Actor(0)),
            TargetKind::Connection => Target::Connection(Actor(0), 0),
            TargetKind::Server => Target::Server(0),
        };
        let amount = match row.unit {
            Unit::None => 0,
            Unit::Millis => 5,
            Unit::Ppm => 200,
            Unit::Writes => 1,
        };
        (Fault { target, kind: self, amount }.to_string(), row.summary, row.set_by)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.word(), self.target)?;
        match self.kind.row().unit {
            Unit::Millis => write!(f, " {:+}ms", self.amount),
            Unit::Ppm => write!(f, " {:+}ppm", self.amount),
            Unit::Writes if self.amount != 0 => write!(f, " -{}", self.amount),
            Unit::None | Unit::Writes => Ok(()),
        }
    }
}

impl Unit {
    /// Parses a number of this unit. If a number of milliseconds is too large, the result is the
    /// largest one.
    fn parse(self, word: Option<&str>) -> Option<i64> {
        match self {
            Unit::None => Some(0),
            Unit::Millis => parse_millis(word?),
            Unit::Ppm => word?.strip_suffix("ppm")?.parse().ok(),
            Unit::Writes => {
                word.map_or(Some(0), |word| word.strip_prefix('-')?.parse::<u32>().ok().map(i64::from))
            }
        }
    }
}

/// Parses `5ms`, `+5ms` or `-5ms`. If the number is too large, the result is the largest one.
pub(crate) fn parse_millis(word: &str) -> Option<i64> {
    use std::num::IntErrorKind;
    match word.strip_suffix("ms")?.parse::<i64>() {
        Ok(millis) => Some(millis),
        Err(error) => match error.kind() {
            IntErrorKind::PosOverflow => Some(i64::MAX),
            IntErrorKind::NegOverflow => Some(i64::MIN),
            _ => None,
        },
    }
}

/// The amounts of a fault without a number.
fn no_amount(_: &Faults) -> Vec<i64> {
    vec![0]
}
