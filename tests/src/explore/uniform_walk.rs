//! A policy of samples for scenarios in which some actors take many more steps than others.

use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use rand_pcg::Pcg64Mcg;

use super::access_profile::AccessProfile;
use super::single::single;
use crate::actor::Actor;
use crate::execution::{Choice, Policy};
use crate::schedule::Step;
use crate::trace::History;

/// A random walk in which each order of all steps is about equally likely.
///
/// An actor with more remaining steps is more likely to take the next one. A walk without such a
/// weight nearly always lets short actors finish first. Source: Zhao, Wolff, Mathur and
/// Roychoudhury, "Selectively Uniform Concurrency Testing" (2025).
///
/// All faults together count as one remaining step.
#[derive(Debug)]
pub struct UniformWalk<'a> {
    random: Pcg64Mcg,
    profile: &'a AccessProfile,
}

impl UniformWalk<'_> {
    /// A policy for one schedule, drawn from `random`.
    pub fn new(random: Pcg64Mcg, profile: &AccessProfile) -> UniformWalk<'_> {
        UniformWalk { random, profile }
    }
}

impl Policy for UniformWalk<'_> {
    fn choose(&mut self, all_enabled: &[Step], history: &History) -> Choice {
        let enabled: Vec<Step> = single(all_enabled).collect();
        let process = |step: &Step| step.actor().filter(|_| !step.is_fault());
        let mut processes: Vec<(Option<Actor>, usize)> = Vec::new();
        for process in enabled.iter().map(process) {
            if !processes.iter().any(|(other, _)| *other == process) {
                processes.push((process, process.map_or(1, |actor| self.profile.remaining(actor, history))));
            }
        }
        let steps = processes.iter().map(|(_, remaining)| remaining).sum();
        let mut nth = self.random.random_range(0..steps);
        let drawn = processes.iter().find(|(_, remaining)| {
            let is_drawn = nth < *remaining;
            nth = nth.saturating_sub(*remaining);
            is_drawn
        });
        let of_drawn = |step: &Step| drawn.is_some_and(|(drawn, _)| *drawn == process(step));
        let steps: Vec<Step> = enabled.iter().copied().filter(of_drawn).collect();
        let step = steps.choose(&mut self.random);
        let idx = step.and_then(|step| all_enabled.iter().position(|other| other == step));
        idx.map_or(Choice::Abort, Choice::Take)
    }
}
