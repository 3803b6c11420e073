//! How many clients, permits and readers take part in the scenarios of an algorithm.

use std::fmt;

use locks::registry::{Algorithm, AlgorithmKind, FaultClass};

use super::scenario;
use crate::actor::Actor;
use crate::execution::Runner;
use crate::fault::{Fault, FaultKind, Target};
use crate::replay::replay;
use crate::schedule::{Schedule, Step};
use crate::sim::Recording;

/// The largest number of clients in a scenario. Three clients show races that two cannot. No race
/// has been found yet that needs four.
pub(super) const CLIENTS_MAX: usize = 3;
/// The largest estimated number of schedules of a scenario that is explored, and not sampled. The
/// exploration runs far fewer, because it runs one schedule for each trace.
const SCHEDULES_MAX: u64 = 100_000_000;
/// The limit for a lock whose clients wait. A waiting client wakes once more for each client before
/// it, so a larger part of the estimated schedules must run.
const WAITING_SCHEDULES_MAX: u64 = 20_000_000;

/// The numbers of clients and permits of a scenario. `Display` prints `Clients: 3; permits: 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Participants {
    /// The number of clients. Each acquires once, and releases if it was granted.
    pub clients: usize,
    /// Permits of a semaphore; 1 for a lock.
    pub permits: u32,
    /// For a read-write lock, how many of the clients read. The first clients read, and the others
    /// write.
    pub readers: Option<usize>,
}

impl Participants {
    /// Keeps only the first so many clients.
    pub(super) fn first(self, clients: usize) -> Participants {
        Participants { clients, readers: self.readers.map(|readers| readers.min(clients)), ..self }
    }

    fn is_mixed(self) -> bool {
        self.readers.is_some_and(|readers| 0 < readers && readers < self.clients)
    }
}

impl fmt::Display for Participants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clients: {}", self.clients)?;
        self.readers.iter().try_for_each(|readers| write!(f, "; readers: {readers}"))?;
        write!(f, "; permits: {}", self.permits)
    }
}

/// The sizes that are explored: as many clients as possible, and as many permits. If
/// some clients read and some write, smaller numbers are included, too. If all run equal code,
/// [`explore_all`] does that itself.
pub(super) fn sizes(
    runner: &mut Runner,
    algorithm: &'static Algorithm,
    class: FaultClass,
) -> Vec<Participants> {
    // The number of orders follows from the number of commands of one client alone. That number is
    // largest after a server has lost its scripts.
    let alone = scenario(algorithm, class, Participants { clients: 1, permits: 1, readers: None });
    let start = Schedule {
        steps: vec![Step::Fault(Fault::new(FaultKind::Restart, Target::Server(0))), Step::Run(Actor(0), 0)],
    };
    let history = replay(runner, &alone, &start, Recording::Lean);
    let steps = history.steps.iter().filter(|step| step.actor().is_some()).count() as u64;
    let schedules = |clients: usize| {
        let places = clients as u64 * steps;
        let faults = match class {
            FaultClass::Order => 1,
            // No clock is wrong, or the clock of one client is ahead or behind.
            FaultClass::Skew => 1 + 2 * clients as u64,
            FaultClass::Crash => 1 + places,
            // Time moves to the next instant, or past it.
            FaultClass::Slow => 1 + 2 * places,
            // The request is lost, the reply is lost, or the request is sent again after a lost
            // reply.
            FaultClass::Lost => 1 + 3 * places,
            // One of the servers jumps or restarts.
            FaultClass::Server => 1 + 2 * algorithm.servers() as u64 * places,
            // These are left to two clients.
            FaultClass::Cancel | FaultClass::Pairs | FaultClass::Rounds => u64::MAX,
        };
        orders(steps, clients).saturating_mul(faults)
    };
    let schedules_max = match algorithm.spec.kind {
        AlgorithmKind::Waiting => WAITING_SCHEDULES_MAX,
        AlgorithmKind::Mutex
        | AlgorithmKind::Reentrant
        | AlgorithmKind::ReadWrite
        | AlgorithmKind::Semaphore => SCHEDULES_MAX,
    };
    let clients = (2..=CLIENTS_MAX).rev().find(|&clients| schedules(clients) <= schedules_max).unwrap_or(2);
    let permits_max = match algorithm.spec.kind {
        AlgorithmKind::Mutex
        | AlgorithmKind::Reentrant
        | AlgorithmKind::Waiting
        | AlgorithmKind::ReadWrite => 1,
        // With as many permits as clients, there is never contention.
        AlgorithmKind::Semaphore => clients as u32 - 1,
    };
    let affordable =
        (1..=permits_max).take_while(|&n| n == 1 || u64::from(n) * schedules(clients) <= schedules_max);
    let sizes = affordable.flat_map(|permits| {
        (2..=clients).flat_map(move |clients| mixes(algorithm.spec.kind, clients, permits))
    });
    sizes.filter(|size| size.clients == clients || size.is_mixed()).collect()
}

/// The sizes of a scenario of `clients` clients. For a read-write lock, any number of them may
/// read.
pub(super) fn mixes(kind: AlgorithmKind, clients: usize, permits: u32) -> impl Iterator<Item = Participants> {
    let readers_max = (kind == AlgorithmKind::ReadWrite).then_some(clients);
    (0..=readers_max.unwrap_or(0)).map(move |readers| Participants {
        clients,
        permits,
        readers: readers_max.map(|_| readers),
    })
}

/// In how many orders `clients` clients can take `steps` steps each: (n s)! / (s!)^n, as a product
/// of binomial coefficients.
fn orders(steps: u64, clients: usize) -> u64 {
    (2..=clients as u64).map(|n| binomial(n * steps, steps)).fold(1, u64::saturating_mul)
}

fn binomial(n: u64, k: u64) -> u64 {
    (1..=k).fold(1u64, |product, i| product.saturating_mul(n - k + i) / i)
}

#[cfg(test)]
mod tests {
    use super::{binomial, orders};

    #[test]
    fn orders_of_interleaved_steps() {
        assert_eq!(binomial(5, 2), 10);
        assert_eq!(orders(1, 3), 6);
        assert_eq!(orders(2, 3), 90);
        assert_eq!(orders(4, 3), 34_650);
        assert_eq!(orders(8, 2), 12_870);
        assert_eq!(orders(8, 3), 9_465_511_770);
    }
}
