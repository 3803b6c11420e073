//! What one step of an execution touched.

use std::sync::Arc;

use emulator::{Access, Footprint, Part, Resource};
use locks::Record;

use crate::fault::Budget;

/// What one step touched.
#[derive(Clone, Debug, Default)]
pub struct StepFootprint {
    /// What the servers did, each with its number. On a real server that is not known.
    pub servers: Vec<(usize, Arc<Footprint>)>,
    /// The actors whose code ran, a bit each.
    pub actors: u32,
    /// A client entered a section or left it, or lost its grant: what oracles judge by.
    pub is_judged: bool,
    /// Something was computed from the time, or it changed which instants matter.
    pub reads_time: bool,
    /// Time moved.
    pub moves_time: bool,
    /// It did so because nobody who had begun had a request to send.
    pub waits: bool,
    /// Grants of which it was looked at whether the servers still have them: as oracles judge by that, whoever changes it concerns them.
    pub records_checked: Vec<Record>,
    /// A client that had a request to send has none now, or the other way about.
    pub changes_readiness: bool,
    /// A client began to wait for something that is not its turn.
    pub awaits_timer: bool,
    /// A timer of an actor's fired.
    pub fires_timer: bool,
    /// This server's clock jumped, or was set at the start.
    pub clock_set: Option<usize>,
    /// The servers whose logs it wrote or cut, a bit each: where the last of a log may be lost, the order of all that is in it
    /// matters.
    pub logs_written: u32,
    /// This server has gone, for a while.
    pub server_gone: Option<usize>,
    /// It happens to a server.
    pub is_server_fault: bool,
    /// It is a fault, and takes from this budget.
    pub budget: Option<Budget>,
}

impl StepFootprint {
    /// Whether the order of the two steps can matter to anybody.
    pub fn conflicts_with(&self, other: &StepFootprint) -> bool {
        self.actors & other.actors != 0
            || self.is_judged && other.is_judged
            || self.is_server_fault && other.is_server_fault
            || self.budget.is_some() && self.budget == other.budget
            || self.logs_written & other.logs_written != 0
            || self.sees_changes_by(other)
            || other.sees_changes_by(self)
            || self.ends_service_of(other)
            || other.ends_service_of(self)
            || self.moves_clock_of(other)
            || other.moves_clock_of(self)
            || self.waits && other.changes_readiness
            || other.waits && self.changes_readiness
            || self.moves_time && (other.moves_time || other.depends_on_time())
            || other.moves_time && self.depends_on_time()
            || self.servers.iter().any(|(server, footprint)| {
                let others = other.servers.iter().filter(|(other, _)| other == server);
                others.into_iter().any(|(_, other)| footprint.conflicts_with(other))
            })
    }

    fn ends_service_of(&self, other: &StepFootprint) -> bool {
        self.server_gone
            .is_some_and(|server_gone| other.servers.iter().any(|&(server, _)| server == server_gone))
    }

    fn sees_changes_by(&self, other: &StepFootprint) -> bool {
        self.records_checked.iter().any(|record| {
            let is_there = |server: usize| server == 0 || matches!(record, Record::Majority(..));
            other.servers.iter().any(|(server, print)| is_there(*server) && changes(print, record))
        })
    }

    fn moves_clock_of(&self, other: &StepFootprint) -> bool {
        self.clock_set.is_some_and(|jumped| {
            let mut footprints = other.servers.iter();
            other.moves_time || footprints.any(|(server, print)| *server == jumped && print.depends_on_time())
        })
    }

    fn depends_on_time(&self) -> bool {
        self.reads_time
            || self.is_judged
            || self.servers.iter().any(|(_, footprint)| footprint.depends_on_time())
    }
}

/// Whether a server may have the grant before and not after, or the other way about.
pub(crate) fn changes(footprint: &Footprint, record: &Record) -> bool {
    footprint.iter().filter(|&(_, access, _)| access == Access::Write).any(|(resource, ..)| match resource {
        Resource::Database(_) => true,
        Resource::Key { key, part, .. } if key == record.key().as_bytes() => match (part, record) {
            (Part::Member(changed), Record::Member(_, member)) => changed == member.as_bytes(),
            (Part::Places(..), Record::Member(..)) => false,
            _ => true,
        },
        _ => false,
    })
}
