//! How many clients, permits and readers take part in the scenarios of an algorithm.

use std::fmt;
use std::time::Duration;

use locks::registry::{Ability, Algorithm, AlgorithmKind};

/// How long a grant lasts in every scenario.
pub const LEASE: Duration = Duration::from_secs(10);

/// The largest number of clients in a scenario. Three clients show races that two cannot. No race
/// has been found yet that needs four.
pub(super) const CLIENTS_MAX: usize = 3;

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
    /// Keeps only the first `clients` clients.
    pub(super) fn first(self, clients: usize) -> Participants {
        Participants { clients, readers: self.readers.map(|readers| readers.min(clients)), ..self }
    }

    fn is_mixed(self) -> bool {
        self.readers.is_some_and(|readers| 0 < readers && readers < self.clients)
    }
}

/// The participants and their lease: `Clients: 2; permits: 1; lease: 10000 ms.` If a lock has no
/// lease, more sentences say what it counts on. A limiter has a limit and a window.
pub fn terms(algorithm: &Algorithm, size: Participants, lease: Duration) -> String {
    let lease_ms = lease.as_millis();
    let Participants { clients, permits, .. } = size;
    match algorithm.spec.kind {
        AlgorithmKind::Limiter => {
            return format!("Clients: {clients}; limit: {permits} in a window of {lease_ms} ms.");
        }
        AlgorithmKind::Once => return format!("Clients: {clients}; a client may work for {lease_ms} ms."),
        AlgorithmKind::Mutex | AlgorithmKind::Semaphore | AlgorithmKind::ReadWrite => {}
    }
    if !algorithm.spec.can(Ability::Persists) {
        return format!("{size}; lease: {lease_ms} ms.");
    }
    format!(
        "{size}; no lease.\n\
         A grant lasts until its holder releases it, so the lock counts on every holder to come to its release.\n\
         Properties that need a lease are judged by one of {lease_ms} ms."
    )
}

impl fmt::Display for Participants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clients: {}", self.clients)?;
        self.readers.iter().try_for_each(|readers| write!(f, "; readers: {readers}"))?;
        write!(f, "; permits: {}", self.permits)
    }
}

/// The sizes that are explored with at most `clients` clients. If all clients run equal code,
/// [`explore_all`](crate::explore::explore_all) explores smaller numbers of them by itself.
pub(super) fn sizes(kind: AlgorithmKind, clients: usize) -> impl Iterator<Item = Participants> {
    // With as many permits as clients, there is never contention.
    let has_permits = matches!(kind, AlgorithmKind::Semaphore | AlgorithmKind::Limiter);
    let permits_max = if has_permits { clients as u32 - 1 } else { 1 };
    let all = (1..=permits_max)
        .flat_map(move |permits| (2..=clients).flat_map(move |clients| mixes(kind, clients, permits)));
    all.filter(move |size| size.clients == clients || size.is_mixed())
}

/// The sizes of a scenario of `clients` clients. For a read-write lock, any number of them may
/// read.
fn mixes(kind: AlgorithmKind, clients: usize, permits: u32) -> impl Iterator<Item = Participants> {
    let readers_max = (kind == AlgorithmKind::ReadWrite).then_some(clients);
    (0..=readers_max.unwrap_or(0)).map(move |readers| Participants {
        clients,
        permits,
        readers: readers_max.map(|_| readers),
    })
}

#[cfg(test)]
mod tests {
    use locks::registry::ALGORITHMS;

    use super::*;

    #[test]
    fn a_lock_without_a_lease_counts_on_its_holders() {
        let size = Participants { clients: 2, permits: 1, readers: None };
        let of = |name: &str| {
            let algorithm = ALGORITHMS.iter().find(|algorithm| algorithm.name == name).unwrap();
            terms(algorithm, size, Duration::from_secs(10))
        };
        assert_eq!(of("mutex"), "Clients: 2; permits: 1; lease: 10000 ms.");
        assert_eq!(
            of("setnx"),
            "Clients: 2; permits: 1; no lease.\n\
             A grant lasts until its holder releases it, so the lock counts on every holder to come to its release.\n\
             Properties that need a lease are judged by one of 10000 ms."
        );
    }
}
