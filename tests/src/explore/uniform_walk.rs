use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use rand_pcg::Pcg64Mcg;

use super::access_profile::Known;
use super::single;
use crate::execution::{Choice, Policy};
use crate::schedule::{Actor, Step};
use crate::trace::History;

/// A random walk that is as likely to go one way as any other: whoever has more steps to go is more likely to take the next. A
/// walk that does not look ahead lets short actors come first, nearly always. Zhao, Wolff, Mathur and Roychoudhury, "Selectively
/// Uniform Concurrency Testing" (2025).
///
/// What can go wrong counts as one step to go.
#[derive(Debug)]
pub struct UniformWalk<'a> {
    random: Pcg64Mcg,
    known: &'a Known,
}

impl UniformWalk<'_> {
    /// One schedule, drawn from `random`.
    pub fn new(random: Pcg64Mcg, known: &Known) -> UniformWalk<'_> {
        UniformWalk { random, known }
    }
}

impl Policy for UniformWalk<'_> {
    fn choose(&mut self, all_enabled: &[Step], history: &History) -> Choice {
        let enabled: Vec<Step> = single(all_enabled).collect();
        let agent = |step: &Step| step.actor().filter(|_| !step.is_fault());
        let mut agents: Vec<(Option<Actor>, usize)> = Vec::new();
        for agent in enabled.iter().map(agent) {
            if !agents.iter().any(|(other, _)| *other == agent) {
                agents.push((agent, agent.map_or(1, |actor| self.known.remaining(actor, history))));
            }
        }
        let steps = agents.iter().map(|(_, remaining)| remaining).sum();
        let mut nth = self.random.random_range(0..steps);
        let drawn = agents.iter().find(|(_, remaining)| {
            let is_drawn = nth < *remaining;
            nth = nth.saturating_sub(*remaining);
            is_drawn
        });
        let of_drawn = |step: &Step| drawn.is_some_and(|(drawn, _)| *drawn == agent(step));
        let steps: Vec<Step> = enabled.iter().copied().filter(of_drawn).collect();
        let step = steps.choose(&mut self.random);
        let idx = step.and_then(|step| all_enabled.iter().position(|other| other == step));
        idx.map_or(Choice::Cut, Choice::Take)
    }
}
