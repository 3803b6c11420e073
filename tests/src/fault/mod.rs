//! What may go wrong. A fault is one file here and one row of [`FaultKind`]: budgets, steps, schedules, timelines and samples go by
//! the rows.

mod target;
mod budget;
mod clock;
mod lost;
mod drop;
mod delay;
mod cancel;
mod crash;
mod restart;
mod reload;
mod flush;

use std::fmt;

pub use budget::{Budget, Faults};
pub(crate) use budget::{FIELDS, Value};
pub use target::Target;
pub(crate) use target::TargetKind;

use crate::actor::Actor;

/// A fault as a step of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fault {
    /// Where it strikes.
    pub target: Target,
    /// What happens.
    pub kind: FaultKind,
    /// By how much a clock is wrong, or how many writes are lost; zero for a fault without a number.
    pub amount: i64,
}

macro_rules! faults {
    ($($kind:ident = $row:path,)+) => {
        /// What can happen.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FaultKind {
            $(#[doc = concat!("`", stringify!($row), "`")] $kind,)+
        }

        impl FaultKind {
            /// All of them, in the order in which they are tried.
            pub const ALL: &[FaultKind] = &[$(FaultKind::$kind,)+];

            pub(crate) fn row(self) -> &'static Row {
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
    Jump = clock::JUMP,
    ServerJump = clock::SERVER_JUMP,
    Restart = restart::RESTART,
    Reload = reload::RELOAD,
    Flush = flush::FLUSH,
}

/// All that is to be known of a fault.
pub(crate) struct Row {
    /// In the text of a schedule, before the target. A fault of clients and one of servers may have the same word.
    pub(crate) word: &'static str,
    /// What happens, in a few words.
    pub(crate) summary: &'static str,
    pub(crate) target: TargetKind,
    /// It strikes only what belongs to an operation that can be cancelled.
    pub(crate) needs_operation: bool,
    pub(crate) unit: Unit,
    /// The methods of [`Faults`] that enable it, and say how.
    pub(crate) set_by: &'static [&'static str],
    /// What it takes from. `None` for what is so from the start.
    pub(crate) budget: Option<Budget>,
    /// Whether as much may be taken from its budget that it still can happen: how often.
    pub(crate) limit: fn(&Faults) -> u32,
    /// The amounts with which it can happen, if it can.
    pub(crate) amounts: fn(&Faults) -> Vec<i64>,
    pub(crate) effect: Effect,
    /// What a timeline says of it; of a request, given its text.
    pub(crate) describe: fn(Fault, &str) -> Description,
}

/// The unit of a fault's number, and how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// There is no number.
    None,
    /// `+5ms`
    Millis,
    /// `-200ppm`
    Ppm,
    /// `-2`, or nothing for zero
    Writes,
}

/// What comes of a fault.
#[derive(Clone, Copy)]
pub(crate) enum Effect {
    /// A request does not run and is not answered as others are.
    Request(RequestFault),
    /// Something is done to an execution. Gives the fault as it happened.
    Act(fn(&mut dyn Effects, Fault) -> Fault),
}

/// What happens to a request in place of being run and answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestFault {
    pub(crate) delivery: Delivery,
    pub(crate) outcome: RequestOutcome,
    /// It can happen to a message of a subscription, too.
    pub(crate) strikes_messages: bool,
}

/// Whether a request reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Never,
    Now,
    Later,
}

/// What the client gets in place of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    /// A timeout error.
    TimedOut,
    /// A broken-pipe error. What has to wait on the server waits no longer.
    Disconnected,
    /// The reply to the same request, which waits to be sent once more.
    Resent,
    /// Nothing: the operation that the request belongs to is cancelled. What has to wait on the server waits no longer.
    Cancelled,
}

/// What faults do to an execution.
pub(crate) trait Effects {
    /// The client ends.
    fn crash(&mut self, actor: Actor);
    /// The latest operation of the client that can be cancelled is cancelled.
    fn cancel(&mut self, actor: Actor);
    /// A clock is wrong by so many more milliseconds.
    fn shift_clock(&mut self, target: Target, by_ms: i64);
    /// A clock runs too fast by so many millionths.
    fn drift_clock(&mut self, target: Target, ppm: i64);
    /// A server closes its subscribed and blocked connections, and refuses requests if restarts take a while.
    fn stop_server(&mut self, server: usize);
    /// A server runs commands that no client sent.
    fn execute(&mut self, server: usize, commands: &[&str]);
    /// A server loses so many of its last writes, or as many as can be lost. Gives how many those are.
    fn lose_writes(&mut self, server: usize, count: usize) -> usize;
    /// What a server holds now cannot be lost.
    fn begin_log(&mut self, server: usize);
}

/// What a timeline says of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Description {
    /// Its step, as something that its client does.
    OfClient(String),
    /// Its step, as the end of its client.
    EndOfClient(String),
    /// Its step, as something that no client does.
    Outside(String),
    /// A remark on the command of its step.
    Remark(String),
}

impl Fault {
    /// A fault without a number.
    pub fn new(kind: FaultKind, target: Target) -> Fault {
        Fault { target, kind, amount: 0 }
    }

    /// A clock is wrong from the start.
    pub(crate) fn is_setup(self) -> bool {
        self.kind.row().budget.is_none()
    }

    /// What happens to a request in place of being run and answered; `None` if it is no fault of requests.
    pub(crate) fn of_request(self) -> Option<RequestFault> {
        match self.kind.row().effect {
            Effect::Request(fault) => Some(fault),
            Effect::Act(_) => None,
        }
    }

    /// The name of the client, whichever of its connections it is.
    fn client(self) -> String {
        self.target.actor().map_or_else(String::new, |actor| actor.to_string())
    }

    /// By how many milliseconds a clock is wrong.
    pub(crate) fn millis(self) -> Option<i64> {
        (self.kind.row().unit == Unit::Millis).then_some(self.amount)
    }

    /// Parses a step, if it is a fault.
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
    /// Its word in a schedule. A fault of clients and one of servers may have the same.
    pub fn word(self) -> &'static str {
        self.row().word
    }

    /// An example of it in a schedule, what happens, and the methods of [`Faults`] that enable it.
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
    /// Parses a number of this unit. A number of milliseconds that is too large is the largest.
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

/// Parses `5ms`, `+5ms` or `-5ms`. A number that is too large is the largest.
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

/// For a fault without a number.
fn no_amount(_: &Faults) -> Vec<i64> {
    vec![0]
}
