//! The fault classes: their faults, their numbers of clients, and the properties that are asked.

use std::fmt;
use std::time::Duration;

use locks::registry::{Ability, Algorithm, AlgorithmKind, FaultClass, Property, Spec};

use super::sizes::CLIENTS_MAX;
use crate::fault::Faults;
use crate::trace::Reached;

/// The number of clients of what is too much for three.
const CLIENTS_FEW: usize = 2;
/// How much too fast or too slow a clock is.
const DRIFT_PPM: u32 = 500_000;

/// The faults and the number of clients of one exploration of a class. `Display` prints `2 clients,
/// late replies: stalls 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The budgets of the faults.
    pub faults: Faults,
    /// The largest number of clients.
    pub clients: usize,
    /// Whether replies can be late, and processes stand still
    /// (without [`Scenario::prompt_replies`](crate::Scenario::prompt_replies)). Otherwise none is
    /// late, not even before a client reads its clock.
    pub has_late_replies: bool,
}

impl Bound {
    /// The bound for an algorithm. A client whose waits all have timers never outlives its lease if
    /// it notices each timer in time. So its process has to be able to stand still.
    pub fn of(self, spec: &Spec) -> Bound {
        let has_late_replies = self.has_late_replies || self.faults.stalls > 0 && spec.can(Ability::TimesOut);
        Bound { has_late_replies, ..self }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let late = if self.has_late_replies { ", late replies" } else { "" };
        write!(f, "{} clients{late}: {}", self.clients, self.faults)
    }
}

/// The faults of all bounds of a class together.
pub(super) fn faults_of(class: FaultClass, lease: Duration) -> Faults {
    bounds(class, lease).into_iter().map(|bound| bound.faults).fold(Faults::none(), Faults::or)
}

/// The bounds of a class. Each is explored by itself, so faults of two of them never meet in one
/// execution.
pub fn bounds(class: FaultClass, lease: Duration) -> Vec<Bound> {
    let none = Faults::none();
    let just_past = lease + Duration::from_millis(1);
    let (for_three, for_two): (Vec<Faults>, Vec<Faults>) = match class {
        FaultClass::Order => (vec![none], vec![]),
        FaultClass::Skew => (
            vec![none.skew(lease), none.skew(2 * lease)],
            vec![none.server_skew(lease), none.jump(2 * lease)],
        ),
        FaultClass::Crash => (vec![none.crashes(1)], vec![]),
        FaultClass::Slow => (vec![none.stalls(1)], vec![]),
        FaultClass::Lost => (vec![none.lost(1)], vec![none.drops(1), none.delays(1)]),
        FaultClass::Server => (
            vec![none.server_jump(just_past).restarts(1)],
            vec![
                none.restarts(1).outage(just_past),
                none.reloads(1).outage(just_past),
                none.reloads(1).unsynced(1),
                none.flushes(1),
            ],
        ),
        FaultClass::Failover => (
            vec![],
            vec![
                none.failovers(1).behind(1),
                none.failovers(1).old_primary_writable(1),
                none.failovers(1).server_skew(just_past),
                none.planned_failovers(1),
            ],
        ),
        FaultClass::Cluster => (vec![], vec![none.moves(1)]),
        FaultClass::Cancel => (vec![], vec![none.cancels(1)]),
        FaultClass::Pairs => (
            vec![],
            vec![
                none.crashes(1).skew(lease),
                none.lost(1).skew(lease),
                none.stalls(1).crashes(1),
                none.stalls(1).lost(1),
                none.stalls(1).drift(DRIFT_PPM),
            ],
        ),
        FaultClass::Rounds => (vec![], vec![none, none.stalls(1), none.lost(1)]),
    };
    let bound = |clients: usize| move |faults| Bound { faults, clients, has_late_replies: false };
    let late = Bound { faults: none.stalls(1), clients: CLIENTS_FEW, has_late_replies: true };
    let late = (class == FaultClass::Slow).then_some(late);
    let for_three = for_three.into_iter().map(bound(CLIENTS_MAX));
    for_three.chain(for_two.into_iter().map(bound(CLIENTS_FEW))).chain(late).collect()
}

/// How many replicas each server has in a class.
pub(super) fn replicas(class: FaultClass) -> usize {
    usize::from(class == FaultClass::Failover)
}

/// The number of servers of a cluster.
pub(super) const CLUSTER: usize = 2;

/// The properties that are checked for an algorithm in a class.
///
/// Without crashes, lost messages and cancellations, there is nothing to recover from. In some
/// classes a property is asked only if it holds in the classes that this one combines.
pub fn properties(algorithm: &Algorithm, class: FaultClass) -> Vec<Property> {
    let fits = |property| class != FaultClass::Cluster || is_for_clusters(algorithm, property);
    let is_asked = |property: &Property| {
        let combined = class.combines().iter();
        fits(*property)
            && is_meaningful(*property, algorithm.spec, class)
            && combined.into_iter().all(|&other| algorithm.spec.holds(*property, other))
    };
    Property::ALL.iter().copied().filter(is_asked).collect()
}

/// Whether the property has a meaning for an algorithm on a cluster. The servers of a cluster are
/// not independent of each other, and a channel has no server there. If no cluster serves a lock,
/// nobody is granted it.
fn is_for_clusters(algorithm: &Algorithm, property: Property) -> bool {
    let is_served = !algorithm.spec.can(Ability::SpansSlots);
    let fits = algorithm.servers() == 1 && !algorithm.spec.can(Ability::Subscribes);
    fits && (is_served || property == Property::Progress)
}

/// Whether the property has a meaning for an algorithm in a class.
fn is_meaningful(property: Property, spec: &Spec, class: FaultClass) -> bool {
    let kind = spec.kind;
    // A client of a limiter comes twice in every class.
    if kind == AlgorithmKind::Limiter && class == FaultClass::Rounds {
        return false;
    }
    match property {
        Property::ExclusiveFact => kind == AlgorithmKind::Mutex,
        Property::OverIssue => kind == AlgorithmKind::Semaphore,
        Property::WriterAlone => kind == AlgorithmKind::ReadWrite,
        Property::ExclusiveBelief => kind.is_lock(),
        Property::OwnerSafe => kind.is_lock() && !spec.can(Ability::Subscribes),
        // After any fault of these classes, a grant may stay until its lease ends. Executions
        // without a fault are those of the class `order`.
        Property::NoLeak => {
            kind.is_lock() && !matches!(class, FaultClass::Crash | FaultClass::Lost | FaultClass::Cancel)
        }
        Property::Recovers => {
            kind != AlgorithmKind::Once
                && matches!(
                    class,
                    FaultClass::Crash
                        | FaultClass::Lost
                        | FaultClass::Cancel
                        | FaultClass::Pairs
                        | FaultClass::Rounds
                        | FaultClass::Server
                        | FaultClass::Failover
                )
        }
        Property::NoLostWakeUp => {
            spec.can(Ability::Waits)
                && !matches!(
                    class,
                    FaultClass::Lost | FaultClass::Cancel | FaultClass::Pairs | FaultClass::Cluster
                )
        }
        Property::Progress => kind.is_lock() && matches!(class, FaultClass::Order | FaultClass::Cluster),
        Property::Unbroken => spec.can(Ability::Reenters),
        Property::Fenced => spec.can(Ability::Fences),
        Property::Rate => kind == AlgorithmKind::Limiter,
        Property::AtMostOnce | Property::AtLeastOnce => kind == AlgorithmKind::Once,
    }
}

/// The events that must happen in some execution of such an algorithm with these faults.
pub(super) fn must_reach(kind: AlgorithmKind, faults: &Faults) -> Reached {
    let is_set = |spans: &[Duration]| spans.iter().any(|span| !span.is_zero());
    let strikes =
        faults.restarts + faults.reloads + faults.failovers + faults.planned_failovers + faults.moves;
    let skews = [faults.skew, faults.server_skew, faults.jump];
    Reached {
        contention: false,
        overrun: kind.is_lock() && faults.stalls > 0,
        crash: faults.crashes > 0,
        lost: faults.lost + faults.drops + faults.delays > 0,
        cancel: faults.cancels > 0,
        skew: is_set(&skews) || faults.drift_ppm + faults.server_drift_ppm > 0,
        // If an algorithm has no scripts, it does not matter when a server forgets them. So an
        // exploration has one place for that.
        server: kind.is_lock() && (strikes > 0 || !faults.server_jump.is_zero()),
    }
}
