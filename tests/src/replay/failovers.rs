//! Follows a schedule on real servers whose replicas lag and take over as they did on emulators.

use super::redis_process::RedisServersError;
use super::redis_servers::{Departure, RedisServers};
use crate::execution::{Choice, Policy};
use crate::fault::{Fault, FaultKind, Target, Unit};
use crate::replay::Follow;
use crate::schedule::Step;
use crate::sim::Sighting;
use crate::trace::{EventKind, HappensBefore, History};

/// What real servers do in an execution, in order.
#[derive(Clone, Debug)]
pub(super) struct Failovers(Vec<Deed>);

/// What a replica does right before a step.
#[derive(Clone, Copy, Debug)]
struct Deed {
    /// The place of the step.
    before: usize,
    node: usize,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    /// It gets nothing more.
    Leaves,
    /// It gets everything from now on.
    Returns,
    /// It has everything.
    CatchesUp,
    TakesOver(Fault),
}

impl Failovers {
    /// The deeds of an execution on emulators. A real link stops at one place. If at some step it
    /// would have to stop at a place that it has passed, returns the number of the step.
    pub(super) fn of(history: &History, sightings: &[Sighting]) -> Result<Failovers, usize> {
        let mut deeds: Vec<Deed> = Vec::new();
        for (nth, Sighting { node, step, takes_over, has, lacks }) in sightings.iter().enumerate() {
            let of_node = |other: &&Sighting| other.node == *node;
            let first = lacks.iter().min().copied();
            let mut add = |before: usize, what: What| deeds.push(Deed { before, node: *node, what });
            if let Some(first) = first {
                let last = sightings[..nth].iter().rfind(of_node).filter(|last| !last.takes_over);
                // It may be there already.
                let is_there = last.is_some_and(|last| last.lacks.iter().min() == Some(&first));
                let has_passed = !is_there && last.is_some_and(|last| last.step > first);
                if has_passed || has.iter().any(|&other| other >= first) {
                    return Err(step + 1);
                }
                if !is_there {
                    add(first, What::Leaves);
                }
            } else if !takes_over {
                add(*step, What::CatchesUp);
            }
            let next = sightings[nth + 1..].iter().find(of_node);
            let stays = next.is_some_and(|next| next.lacks.iter().min().copied() == first);
            if *takes_over {
                add(*step, What::TakesOver(struck_in(history, step + 1)));
            } else if first.is_some() && !stays {
                add(step + 1, What::Returns);
            }
        }
        deeds.sort_by_key(|deed| deed.before);
        Ok(Failovers(deeds))
    }

    /// The first step in which a `WAIT` ends although a replica has not left and lacks what it
    /// waits for. Real replicas that follow acknowledge at once.
    pub(super) fn unacknowledged(&self, history: &History) -> Option<Step> {
        let mut steps = history.steps.iter().copied().enumerate();
        steps.find_map(|(place, step)| {
            let fault = step.fault().filter(|fault| fault.kind == FaultKind::Unacknowledged)?;
            Unit::nodes(fault.amount).any(|node| !self.has_left(node, place)).then_some(step)
        })
    }

    /// Whether a replica gets nothing any more right before a step.
    fn has_left(&self, node: usize, place: usize) -> bool {
        let last = self.0.iter().rfind(|deed| deed.node == node && deed.before <= place);
        last.is_some_and(|deed| matches!(deed.what, What::Leaves))
    }
}

/// The fault that is the step with this number.
fn struck_in(history: &History, number: usize) -> Fault {
    let fault = history.events.iter().find_map(|event| match event.kind {
        EventKind::Fault { fault, .. } if event.step == number => Some(fault),
        _ => None,
    });
    fault.expect("a failover is recorded")
}

/// Steps of an execution on emulators, each with its number there, in an equivalent order: whatever
/// a replica lacks comes last before that shows.
pub(super) fn losing_last(
    steps: impl Iterator<Item = (Step, usize)>,
    history: &History,
    sightings: &[Sighting],
) -> Vec<Step> {
    let order = HappensBefore::of(history);
    let is_lost = |sighting: &&Sighting, place: usize| {
        let comes_of = |&lost: &usize| lost == place || order.precedes(lost, place);
        place < sighting.step && sighting.lacks.iter().any(comes_of)
    };
    let mut steps: Vec<((usize, bool), Step)> = steps
        .map(|(step, number)| {
            let place = number - 1;
            let sighting = sightings.iter().find(|sighting| is_lost(sighting, place));
            (sighting.map_or((place, true), |sighting| (sighting.step, false)), step)
        })
        .collect();
    steps.sort_by_key(|&(place, _)| place);
    steps.into_iter().map(|(_, step)| step).collect()
}

/// Follows a schedule, and lets the servers do these deeds.
pub(super) struct FollowOn<'a> {
    follow: Follow,
    servers: &'a mut RedisServers,
    deeds: std::vec::IntoIter<Deed>,
    /// Why it has ended early.
    pub(super) error: Option<RedisServersError>,
}

impl FollowOn<'_> {
    /// Follows these steps, each with its number in an execution on emulators.
    pub(super) fn new(
        steps: impl Iterator<Item = (Step, usize)>,
        servers: &mut RedisServers,
        failovers: Failovers,
    ) -> FollowOn<'_> {
        let steps = steps.map(|(step, _)| as_on_servers(step)).collect();
        FollowOn { follow: Follow::new(steps), servers, deeds: failovers.0.into_iter(), error: None }
    }

    fn run(&mut self, Deed { node, what, .. }: Deed) -> Result<(), RedisServersError> {
        let departure = match what {
            What::Leaves => return self.servers.leave(node),
            What::Returns => return self.servers.come_back(node),
            What::CatchesUp => return self.servers.catch_up_with(node),
            What::TakesOver(Fault { kind: FaultKind::PlannedFailover, .. }) => Departure::HandsOver,
            What::TakesOver(Fault { kind: FaultKind::SplitBrain, .. }) => Departure::Stays,
            What::TakesOver(_) => Departure::Dies,
        };
        self.servers.take_over(node, departure)
    }
}

/// On real servers, requests are only run: replicas that have left lack something by themselves.
fn as_on_servers(step: Step) -> Step {
    match step {
        Step::Fault(Fault {
            kind: FaultKind::Unacknowledged | FaultKind::StaleRead,
            target: Target::Connection(actor, nth),
            ..
        }) => Step::Run(actor, nth),
        _ => step,
    }
}

impl Policy for FollowOn<'_> {
    fn choose(&mut self, enabled: &[Step], history: &History) -> Choice {
        let place = history.steps.len();
        let (mut enabled, mut struck) = (enabled.to_vec(), None);
        while let Some(&deed) = self.deeds.as_slice().first().filter(|deed| deed.before <= place) {
            self.deeds.next();
            if let Err(error) = self.run(deed) {
                self.error = Some(error);
                return Choice::Abort;
            }
            if let What::TakesOver(fault) = deed.what {
                struck = Some(fault);
            }
        }
        // What a real replica may lack is not known here, nor what it lacks.
        enabled.extend(struck.map(Step::Fault));
        match (self.follow.choose(&enabled, history), struck) {
            (Choice::Move(Step::Fault(fault)), Some(struck))
                if (fault.kind, fault.target) == (struck.kind, struck.target) =>
            {
                Choice::Move(Step::Fault(struck))
            }
            (choice, _) => choice,
        }
    }

    fn tries_in_vain(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fault::Target;
    use crate::trace::Event;

    /// What real servers do if a failover in the fifth step loses the writes of these steps.
    fn failovers(has: &[usize], lacks: &[usize]) -> Result<Vec<(usize, bool)>, usize> {
        let fault = Fault::new(FaultKind::Failover, Target::Server(1));
        let kind = EventKind::Fault { fault, request: None };
        let events = vec![Event { step: 5, at: Duration::ZERO, kind }];
        let sighting =
            Sighting { node: 1, step: 4, takes_over: true, has: has.to_vec(), lacks: lacks.to_vec() };
        let failovers = Failovers::of(&History { events, ..History::default() }, &[sighting])?;
        Ok(failovers.0.iter().map(|deed| (deed.before, matches!(deed.what, What::Leaves))).collect())
    }

    #[test]
    fn a_replica_leaves_before_the_first_lost_write() {
        assert_eq!(failovers(&[0, 1], &[]), Ok(vec![(4, false)]));
        assert_eq!(failovers(&[0, 1], &[2, 3]), Ok(vec![(2, true), (4, false)]));
    }

    #[test]
    fn a_link_stops_at_one_place() {
        assert_eq!(failovers(&[0, 2], &[1]), Err(5));
        assert_eq!(failovers(&[1], &[1]), Err(5), "a part of what a step wrote");
    }
}
