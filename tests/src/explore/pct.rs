//! A policy of samples for bugs that need a few events in one order.

use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use rand_pcg::Pcg64Mcg;

use super::access_profile::AccessProfile;
use super::single::single;
use crate::actor::Actor;
use crate::execution::{Choice, Policy};
use crate::schedule::Step;
use crate::trace::History;

/// Probabilistic concurrency testing: actors have random priorities, and the highest one runs for
/// as long as it can.
///
/// At `depth - 1` random places, that actor gets the lowest priority, or a fault strikes. A bug
/// that needs `depth` events in one order is found with a known least probability. Source:
/// Burckhardt, Kothari, Musuvathi and Nagarakatte, "A Randomized Scheduler with Probabilistic
/// Guarantees of Finding Bugs" (2010).
#[derive(Debug)]
pub struct Pct {
    random: Pcg64Mcg,
    priorities: Vec<(Actor, i64)>,
    /// The numbers of steps after which a priority changes or a fault strikes.
    changes: Vec<usize>,
}

impl Pct {
    /// A policy for one schedule, drawn from `random`.
    pub fn new(mut random: Pcg64Mcg, depth: usize, profile: &AccessProfile) -> Pct {
        let changes = (1..depth).map(|_| random.random_range(0..profile.steps_max())).collect();
        Pct { random, priorities: Vec::new(), changes }
    }

    /// The actor with the highest priority among those that can take a step.
    fn first(&mut self, enabled: &[Step]) -> Option<Actor> {
        let mut first: Option<(Actor, i64)> = None;
        for actor in enabled.iter().filter(|step| !step.is_fault()).filter_map(|step| step.actor()) {
            let known = self.priorities.iter().find(|(other, _)| *other == actor).copied();
            let of_actor = known.unwrap_or_else(|| {
                // New priorities lie above those of all actors that were lowered.
                let drawn = (actor, self.random.random_range(1..i64::MAX));
                self.priorities.push(drawn);
                drawn
            });
            first = first.filter(|(_, priority)| *priority >= of_actor.1).or(Some(of_actor));
        }
        first.map(|(actor, _)| actor)
    }

    fn fall_behind(&mut self, actor: Actor) {
        let lowest = self.priorities.iter().map(|&(_, priority)| priority).min().unwrap_or(0).min(0);
        let of_actor = self.priorities.iter_mut().find(|(other, _)| *other == actor);
        of_actor.into_iter().for_each(|(_, priority)| *priority = lowest - 1);
    }
}

impl Policy for Pct {
    fn choose(&mut self, all_enabled: &[Step], history: &History) -> Choice {
        let enabled: Vec<Step> = single(all_enabled).collect();
        let mut first = self.first(&enabled);
        let mut wanted: Vec<Step> = Vec::new();
        while let Some(idx) = self.changes.iter().position(|&change| change == history.steps.len()) {
            self.changes.swap_remove(idx);
            let faults: Vec<Step> = enabled.iter().copied().filter(|&step| step.is_fault()).collect();
            if self.random.random() && !faults.is_empty() {
                wanted = faults;
                break;
            }
            first.into_iter().for_each(|actor| self.fall_behind(actor));
            first = self.first(&enabled);
        }
        if wanted.is_empty() {
            // If no actor can take a step, time moves.
            let is_next = |step: &Step| match first {
                Some(first) => !step.is_fault() && step.actor() == Some(first),
                None => *step == Step::Wait,
            };
            wanted = enabled.iter().copied().filter(is_next).collect();
        }
        let step = wanted.choose(&mut self.random).or(enabled.choose(&mut self.random));
        let idx = step.and_then(|step| all_enabled.iter().position(|other| other == step));
        idx.map_or(Choice::Abort, Choice::Take)
    }
}
