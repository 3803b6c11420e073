//! What one step of an execution touched.

use std::sync::Arc;

use emulator::{Access, Footprint, Part, Resource};
use locks::Record;

use crate::fault::Budget;

/// What one step touched.
#[derive(Clone, Debug, Default)]
pub struct Touch {
    /// What the servers did, each with its number. On a real server that is not known.
    pub footprints: Vec<(usize, Arc<Footprint>)>,
    /// The actors whose code ran, a bit each.
    pub actors: u32,
    /// A client entered a section or left it, or lost its grant: what oracles judge by.
    pub is_marked: bool,
    /// Something was computed from the time, or it changed which instants matter.
    pub is_timed: bool,
    /// Time moved.
    pub moves_time: bool,
    /// It did so because nobody who had begun had a request to send.
    pub waits: bool,
    /// Grants of which it was looked at whether the servers still have them: as oracles judge by that, whoever changes it concerns them.
    pub looks: Vec<Record>,
    /// A client that had a request to send has none now, or the other way about.
    pub is_turn: bool,
    /// A client began to wait for something that is not its turn.
    pub falls_asleep: bool,
    /// A timer of an actor's fired.
    pub fires_timer: bool,
    /// This server's clock jumped, or was set at the start.
    pub jumps: Option<usize>,
    /// The servers whose logs it wrote or cut, a bit each: where the last of a log may be lost, the order of all that is in it
    /// matters.
    pub logged: u32,
    /// This server has gone, for a while.
    pub gone: Option<usize>,
    /// It happens to a server.
    pub is_incident: bool,
    /// It is a fault, and takes from this budget.
    pub takes: Option<Budget>,
}

impl Touch {
    /// Whether the order of the two steps can matter to anybody.
    pub fn conflicts_with(&self, other: &Touch) -> bool {
        self.actors & other.actors != 0
            || self.is_marked && other.is_marked
            || self.is_incident && other.is_incident
            || self.takes.is_some() && self.takes == other.takes
            || self.logged & other.logged != 0
            || self.sees_changes_by(other)
            || other.sees_changes_by(self)
            || self.ends_service_of(other)
            || other.ends_service_of(self)
            || self.moves_clock_of(other)
            || other.moves_clock_of(self)
            || self.waits && other.is_turn
            || other.waits && self.is_turn
            || self.moves_time && (other.moves_time || other.depends_on_time())
            || other.moves_time && self.depends_on_time()
            || self.footprints.iter().any(|(server, footprint)| {
                let others = other.footprints.iter().filter(|(other, _)| other == server);
                others.into_iter().any(|(_, other)| footprint.conflicts_with(other))
            })
    }

    fn ends_service_of(&self, other: &Touch) -> bool {
        self.gone.is_some_and(|gone| other.footprints.iter().any(|&(server, _)| server == gone))
    }

    fn sees_changes_by(&self, other: &Touch) -> bool {
        self.looks.iter().any(|record| {
            let is_there = |server: usize| server == 0 || matches!(record, Record::Majority(..));
            other.footprints.iter().any(|(server, print)| is_there(*server) && changes(print, record))
        })
    }

    fn moves_clock_of(&self, other: &Touch) -> bool {
        self.jumps.is_some_and(|jumped| {
            let mut footprints = other.footprints.iter();
            other.moves_time || footprints.any(|(server, print)| *server == jumped && print.depends_on_time())
        })
    }

    fn depends_on_time(&self) -> bool {
        self.is_timed
            || self.is_marked
            || self.footprints.iter().any(|(_, footprint)| footprint.depends_on_time())
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
