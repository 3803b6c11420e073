//! The faults that may happen. Each fault is one file here and one row of [`FaultKind`]. Budgets,
//! steps, schedules, timelines and samples use these rows.

mod target;
mod kind;
mod lost_writes;
mod budget;
mod row;
mod restart;
mod clock;
mod lost;
mod drop;
mod partition;
mod delay;
mod cancel;
mod crash;
mod pause;
mod reload;
mod flush;
mod failover;
mod unacknowledged;
mod stale;
mod moves;

use std::fmt;

use emulator::SLOTS;

pub use budget::{Budget, Faults};
#[cfg(feature = "proptest")]
pub(crate) use budget::{FIELDS, Value};
pub use kind::{FaultKind, FaultKinds};
pub(crate) use lost_writes::{BEHIND_MAX, LostWrites};
pub(crate) use partition::Passing;
pub use row::Fault;
pub(crate) use row::{
    Amounts, Delivery, Description, Effect, Effects, FaultRow, RequestFault, RequestOutcome, Unit,
};
pub use target::Target;
pub(crate) use target::{SERVERS_MAX, TargetKind};

use crate::actor::Actor;

impl Fault {
    /// A fault without a number.
    pub fn new(kind: FaultKind, target: Target) -> Fault {
        Fault { target, kind, amount: 0 }
    }

    /// Whether a replica takes over.
    pub(crate) fn is_failover(self) -> bool {
        self.kind.row().target == TargetKind::Replica
    }

    /// This fault, if clients have these other names.
    pub(crate) fn renamed(self, name: impl Fn(Actor) -> Actor) -> Fault {
        let amount = match self.kind.row().unit {
            Unit::LostWrites => LostWrites(self.amount).renamed(&name).0,
            Unit::None | Unit::Millis | Unit::Ppm | Unit::Writes | Unit::Servers | Unit::Slot => self.amount,
        };
        Fault { target: self.target.renamed(name), amount, ..self }
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
    pub(crate) fn row(self) -> &'static FaultRow {
        match self {
            FaultKind::Skew => &clock::SKEW,
            FaultKind::Drift => &clock::DRIFT,
            FaultKind::ServerSkew => &clock::SERVER_SKEW,
            FaultKind::ServerDrift => &clock::SERVER_DRIFT,
            FaultKind::LoseRequest => &lost::LOSE_REQUEST,
            FaultKind::LoseReply => &lost::LOSE_REPLY,
            FaultKind::Resend => &lost::RESEND,
            FaultKind::DropBefore => &drop::DROP_BEFORE,
            FaultKind::DropAfter => &drop::DROP_AFTER,
            FaultKind::Partition => &partition::PARTITION,
            FaultKind::PartitionAfter => &partition::PARTITION_AFTER,
            FaultKind::OneWay => &partition::ONE_WAY,
            FaultKind::Delay => &delay::DELAY,
            FaultKind::CancelAfter => &cancel::CANCEL_AFTER,
            FaultKind::Cancel => &cancel::CANCEL,
            FaultKind::Crash => &crash::CRASH,
            FaultKind::CrashAfter => &crash::CRASH_AFTER,
            FaultKind::Respawn => &crash::RESPAWN,
            FaultKind::RespawnAfter => &crash::RESPAWN_AFTER,
            FaultKind::Pause => &pause::PAUSE,
            FaultKind::Jump => &clock::JUMP,
            FaultKind::ServerJump => &clock::SERVER_JUMP,
            FaultKind::Restart => &restart::RESTART,
            FaultKind::Reload => &reload::RELOAD,
            FaultKind::Flush => &flush::FLUSH,
            FaultKind::Failover => &failover::FAILOVER,
            FaultKind::SplitBrain => &failover::SPLIT_BRAIN,
            FaultKind::PlannedFailover => &failover::PLANNED_FAILOVER,
            FaultKind::Unacknowledged => &unacknowledged::UNACKNOWLEDGED,
            FaultKind::StaleRead => &stale::STALE_READ,
            FaultKind::BeginMove => &moves::BEGIN_MOVE,
            FaultKind::EndMove => &moves::END_MOVE,
        }
    }

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
            TargetKind::Server | TargetKind::Node => Target::Server(0),
            TargetKind::Replica => Target::Server(1),
        };
        let amount = match row.unit {
            Unit::None => 0,
            Unit::Millis => 5,
            Unit::Ppm => 200,
            Unit::Writes => 1,
            Unit::LostWrites => LostWrites::default().with(Actor(0)).0,
            Unit::Servers => 0b10,
            Unit::Slot => 1234,
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
            Unit::LostWrites if self.amount != 0 => write!(f, " {}", LostWrites(self.amount)),
            Unit::Servers => write!(f, " {}", Unit::servers(self.amount)),
            Unit::Slot => write!(f, " {}", self.amount),
            Unit::None | Unit::Writes | Unit::LostWrites => Ok(()),
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
            Unit::LostWrites => word.map_or(Some(0), |word| LostWrites::parse(word).map(|lost| lost.0)),
            Unit::Slot => word?.parse::<i64>().ok().filter(|slot| (0..i64::from(SLOTS)).contains(slot)),
            Unit::Servers => word?.split(',').try_fold(0, |all, word| {
                let server = word.parse::<u32>().ok()?.checked_sub(1)?;
                Some(all | 1_i64.checked_shl(server).filter(|&bit| bit > 0)?)
            }),
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
