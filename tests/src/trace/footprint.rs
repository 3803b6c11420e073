//! Step footprints: what one step of an execution read and changed.

use std::sync::Arc;

use emulator::{Access, Footprint, Part, Resource};
use locks::Record;

use crate::fault::Budget;

/// Everything that one step read and changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepFootprint {
    /// The actions of the servers, each with the number of its server. This is not known of a real
    /// server.
    pub servers: Vec<(usize, Arc<Footprint>)>,
    /// The actors whose code ran, a bit each.
    pub actors: u32,
    /// A client entered or left a section, or lost its grant. Oracles judge by that.
    pub is_judged: bool,
    /// A command ran, and an oracle judges the order of all commands.
    pub is_in_order: bool,
    /// Something was computed from the time, or the instants that matter changed.
    pub reads_time: bool,
    /// Time moved.
    pub moves_time: bool,
    /// The step is [`Step::Wait`](crate::schedule::Step::Wait).
    pub waits: bool,
    /// Grants for which the servers were checked. Oracles judge by the result, so that steps which
    /// change it are dependent.
    pub records_checked: Vec<Record>,
    /// A client that had a request to send has none now, or the other way about.
    pub changes_readiness: bool,
    /// A request, or a message, came to its gate. A stall makes slow what is there already.
    pub asks: bool,
    /// A request that was slow ended. As long as it is slow, time can move to timers.
    pub ends_slow: bool,
    /// A client began to wait for something other than its turn.
    pub awaits_timer: bool,
    /// A timer of an actor fired.
    pub fires_timer: bool,
    /// The servers to which it opened or closed a connection, a bit each. Two such steps are
    /// independent: only commands that list or count connections see them.
    pub connections_changed: u32,
    /// The clock of this server jumped, or was set at the start.
    pub clock_set: Option<usize>,
    /// The servers whose logs it wrote or cut, a bit each. If the last writes can be lost, the
    /// order of all writes matters.
    pub logs_written: u32,
    /// This server began to refuse requests.
    pub server_gone: Option<usize>,
    /// The step is a fault of a server.
    pub is_server_fault: bool,
    /// The step is a fault that takes from this budget.
    pub budget: Option<Budget>,
}

impl StepFootprint {
    /// Whether the order of the two steps can matter.
    pub fn conflicts_with(&self, other: &StepFootprint) -> bool {
        self.is_in_order && other.is_in_order || self.interferes_with(other)
    }

    /// Whether one of the two steps can change what the other does, or what oracles see of both.
    pub(crate) fn interferes_with(&self, other: &StepFootprint) -> bool {
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
            || self.counts_connections_of(other)
            || other.counts_connections_of(self)
            || self.stalls() && other.changes_requests()
            || other.stalls() && self.changes_requests()
            || self.waits && (other.changes_readiness || other.ends_slow)
            || other.waits && (self.changes_readiness || self.ends_slow)
            || self.moves_time && (other.moves_time || other.depends_on_time())
            || other.moves_time && self.depends_on_time()
            || self.servers.iter().any(|(server, footprint)| {
                let others = other.servers.iter().filter(|(other, _)| other == server);
                others.into_iter().any(|(_, other)| footprint.conflicts_with(other))
            })
    }

    /// Whether time moves although clients have requests to send.
    pub(crate) fn stalls(&self) -> bool {
        self.budget == Some(Budget::STALLS)
    }

    /// Whether other requests are on their way than before.
    fn changes_requests(&self) -> bool {
        self.asks || self.changes_readiness || self.ends_slow
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

    /// Whether a command of this step can see or end the connections that the other one changed.
    fn counts_connections_of(&self, other: &StepFootprint) -> bool {
        let concerns_all = |footprint: &Footprint| {
            footprint.iter().any(|(what, access, _)| (what, access) == (Resource::Settings, Access::Write))
        };
        let mut servers =
            self.servers.iter().filter(|(server, _)| other.connections_changed >> server & 1 == 1);
        servers.any(|(_, footprint)| concerns_all(footprint))
    }

    /// Whether a wait for a timer ends in this step, or begins.
    pub(crate) fn may_wait(&self) -> bool {
        self.waits || self.awaits_timer
    }

    pub(crate) fn depends_on_time(&self) -> bool {
        self.reads_time
            || self.is_judged
            || self.servers.iter().any(|(_, footprint)| footprint.depends_on_time())
    }
}

/// Whether this footprint can add or remove the record of a grant.
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
