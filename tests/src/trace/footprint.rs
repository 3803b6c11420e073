//! Step footprints: what one step of an execution read and changed.

use std::sync::Arc;

use emulator::{Access, Footprint, Part, Resource};
use locks::Record;

use crate::actor::{ACTORS_MAX, Actor};
use crate::fault::{Budget, SERVERS_MAX};
use crate::schedule::Step;

/// Something beside the data of servers that steps read and change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepResource {
    /// The local state of a client. It changes when the client's code runs.
    Client(Actor),
    /// The requests of a client that are on their way, or the message that waits for it. A stall
    /// makes those of all clients slow. `Wait` is possible or not by those of all clients.
    Requests(Actor),
    /// The stays of clients in sections, and their leases. Oracles judge by them.
    Stays,
    /// Whether calls of a client have returned. A call comes before another one or after it by the
    /// return of that one.
    Returns(Actor),
    /// The time, and the instants that matter.
    Time,
    /// The faults of servers: they have an order.
    ServerFaults,
    /// The log of a server. If a restart can lose its last writes, the order of all writes matters.
    /// With replicas, it is what these have got.
    Log(usize),
    /// Whether a server refuses requests, and whether clients find it.
    Service(usize),
    /// How far the clock of a server is from the true time.
    ServerClock(usize),
    /// The connections of a server. Those that are opened and closed in two steps are others, so
    /// that each is a read here; to list or count them is a write.
    Connections(usize),
}

impl StepResource {
    /// Its place in a set.
    fn bit(self) -> usize {
        const GLOBAL: usize = 3 * ACTORS_MAX;
        const OF_SERVERS: usize = GLOBAL + 3;
        let (server, nth) = match self {
            StepResource::Client(Actor(actor)) => return actor,
            StepResource::Requests(Actor(actor)) => return ACTORS_MAX + actor,
            StepResource::Returns(Actor(actor)) => return 2 * ACTORS_MAX + actor,
            StepResource::Stays => return GLOBAL,
            StepResource::Time => return GLOBAL + 1,
            StepResource::ServerFaults => return GLOBAL + 2,
            StepResource::Log(server) => (server, 0),
            StepResource::Service(server) => (server, 1),
            StepResource::ServerClock(server) => (server, 2),
            StepResource::Connections(server) => (server, 3),
        };
        OF_SERVERS + 4 * server + nth
    }
}

/// A set of resources, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Resources([u64; 8]);

const _: () = assert!(3 * ACTORS_MAX + 3 + 4 * SERVERS_MAX <= 8 * 64, "a bit for each resource");

impl Resources {
    fn insert(&mut self, resource: StepResource) {
        self.0[resource.bit() / 64] |= 1 << (resource.bit() % 64);
    }

    fn has(&self, resource: StepResource) -> bool {
        self.0[resource.bit() / 64] >> (resource.bit() % 64) & 1 == 1
    }

    fn meets(&self, other: &Resources) -> bool {
        self.0.iter().zip(&other.0).fold(0, |common, (one, other)| common | one & other) != 0
    }
}

/// Everything that one step read and changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepFootprint {
    /// The actions of the servers, each with the number of its server. This is not known of a real
    /// server.
    pub servers: Vec<(usize, Arc<Footprint>)>,
    /// In the same form, what no command touched: what invariants read after it, and what a
    /// connection touches that closes.
    pub beside: Vec<(usize, Arc<Footprint>)>,
    /// All else that it read, or changed.
    read: Resources,
    written: Resources,
    /// Grants for which the servers were checked, each with the server that has it. Oracles judge
    /// by the result, so that steps which change it are dependent.
    pub records_checked: Vec<(usize, Record)>,
    /// A command ran, and an oracle judges the order of all commands.
    pub is_in_order: bool,
    /// The step is a fault that takes from this budget.
    pub budget: Option<Budget>,
    /// The step is [`Step::Wait`](crate::schedule::Step::Wait).
    pub waits: bool,
    /// A client began to wait for something other than its turn.
    pub awaits_timer: bool,
    /// A timer of an actor fired.
    pub fires_timer: bool,
    /// A client that had a request to send has none now, or the other way about.
    pub changes_readiness: bool,
    /// A request that was slow ended. As long as it is slow, time can move to timers.
    pub ends_slow: bool,
}

impl StepFootprint {
    /// The footprint of a step that begins and takes from this budget.
    pub(crate) fn begin(step: Step, budget: Option<Budget>) -> StepFootprint {
        let mut footprint = StepFootprint { waits: step == Step::Wait, budget, ..StepFootprint::default() };
        let requests = (0..ACTORS_MAX).map(|actor| StepResource::Requests(Actor(actor)));
        if footprint.waits {
            requests.clone().for_each(|requests| footprint.touch(Access::Read, requests));
        }
        if footprint.stalls() {
            requests.for_each(|requests| footprint.touch(Access::Write, requests));
        }
        footprint
    }

    /// The step read something, or changed it.
    pub fn touch(&mut self, access: Access, resource: StepResource) {
        match access {
            Access::Read => self.read.insert(resource),
            Access::Write => self.written.insert(resource),
        }
    }

    /// A server did this.
    pub fn touch_server(&mut self, server: usize, footprint: Arc<Footprint>) {
        self.touch(Access::Read, StepResource::Service(server));
        if footprint.depends_on_time() {
            self.touch(Access::Read, StepResource::Time);
            self.touch(Access::Read, StepResource::ServerClock(server));
        }
        // Such a command can list connections, count them or end them.
        let concerns_all = |(what, access, _)| (what, access) == (Resource::Settings, Access::Write);
        if footprint.iter().any(concerns_all) {
            self.touch(Access::Write, StepResource::Connections(server));
        }
        self.servers.push((server, footprint));
    }

    /// This was touched on a server, and not by a command.
    pub fn touch_beside(&mut self, server: usize, footprint: Arc<Footprint>) {
        self.touch_server(server, footprint);
        self.beside.extend(self.servers.pop());
    }

    /// Whether the order of the two steps can matter.
    pub fn conflicts_with(&self, other: &StepFootprint) -> bool {
        self.is_in_order && other.is_in_order || self.interferes_with(other)
    }

    /// Whether one of the two steps can change what the other does, or what oracles see of both.
    pub(crate) fn interferes_with(&self, other: &StepFootprint) -> bool {
        self.written.meets(&other.written)
            || self.written.meets(&other.read)
            || self.read.meets(&other.written)
            || self.budget.is_some() && self.budget == other.budget
            || self.sees_changes_by(other)
            || other.sees_changes_by(self)
            || self.meets_on_servers(other)
    }

    /// Whether one of the two steps can change what the other does on servers.
    pub(crate) fn meets_on_servers(&self, other: &StepFootprint) -> bool {
        self.servers.iter().chain(&self.beside).any(|(server, footprint)| {
            let others = other.servers.iter().chain(&other.beside).filter(|(other, _)| other == server);
            others.into_iter().any(|(_, other)| footprint.conflicts_with(other))
        })
    }

    fn sees_changes_by(&self, other: &StepFootprint) -> bool {
        self.records_checked.iter().any(|(on, record)| {
            let is_there = |server: usize| server == *on || record.is_of_majority();
            other.servers.iter().any(|(server, print)| is_there(*server) && changes(print, record))
        })
    }

    /// The clients whose code ran.
    pub fn clients(&self) -> impl Iterator<Item = Actor> + use<> {
        let written = self.written;
        (0..ACTORS_MAX).map(Actor).filter(move |&actor| written.has(StepResource::Client(actor)))
    }

    /// Whether time moves although clients have requests to send.
    pub(crate) fn stalls(&self) -> bool {
        self.budget == Some(Budget::STALLS)
    }

    /// Whether time moved.
    pub(crate) fn moves_time(&self) -> bool {
        self.written.has(StepResource::Time)
    }

    pub(crate) fn depends_on_time(&self) -> bool {
        self.read.has(StepResource::Time)
    }
}

/// Whether this footprint can add or remove the record of a grant.
pub(crate) fn changes(footprint: &Footprint, record: &Record) -> bool {
    footprint.iter().filter(|&(_, access, _)| access == Access::Write).any(|(resource, ..)| match resource {
        Resource::Database(_) => true,
        Resource::Key { key, part, .. } if key == record.key().as_bytes() => match (part, record) {
            (Part::Member(changed), Record::Member(_, member) | Record::MajorityMember(_, member)) => {
                changed == member.as_bytes()
            }
            (Part::Places(..), Record::Member(..) | Record::MajorityMember(..)) => false,
            _ => true,
        },
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resource_has_a_bit_of_its_own() {
        let globals = [StepResource::Stays, StepResource::Time, StepResource::ServerFaults];
        let of_actors = [StepResource::Client, StepResource::Requests, StepResource::Returns];
        let of_servers =
            [StepResource::Log, StepResource::Service, StepResource::ServerClock, StepResource::Connections];
        let actors = (0..ACTORS_MAX).flat_map(|actor| of_actors.map(|of| of(Actor(actor))));
        let servers = (0..SERVERS_MAX).flat_map(|server| of_servers.map(|of| of(server)));
        let mut bits: Vec<usize> = actors.chain(globals).chain(servers).map(StepResource::bit).collect();
        let resources = bits.len();
        bits.sort_unstable();
        bits.dedup();
        assert_eq!(bits.len(), resources);
    }

    /// The bits of some pairs of resources differ only in their word.
    #[test]
    fn steps_that_share_two_resources_conflict() {
        let all: Vec<StepResource> = (0..ACTORS_MAX)
            .flat_map(|actor| [StepResource::Client(Actor(actor)), StepResource::Returns(Actor(actor))])
            .collect();
        for &one in &all {
            for &other in &all {
                let (mut reader, mut writer) = (StepFootprint::default(), StepFootprint::default());
                for resource in [one, other] {
                    reader.touch(Access::Read, resource);
                    writer.touch(Access::Write, resource);
                }
                assert!(reader.conflicts_with(&writer), "{one:?} and {other:?}");
            }
        }
    }
}
