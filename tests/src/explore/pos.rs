//! A policy of samples that draws the orders of racing steps.

use std::mem::discriminant;

use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;

use super::access_profile::AccessProfile;
use super::single::single;
use crate::execution::{Choice, Policy};
use crate::schedule::Step;
use crate::trace::History;

/// Partial order sampling: every possible next step has a random priority, and the highest one
/// runs.
///
/// The step that ran and all steps that race with it then draw new priorities. Each order of two
/// racing steps is therefore equally likely, however far apart they are. Source: Yuan, Yang and Gu,
/// "Partial Order Aware Concurrency Sampling" (2018).
///
/// All faults of one kind count as one step, because each kind has many possibilities at any time.
/// The ways in which one connection can go on count as one step, too.
#[derive(Debug)]
pub struct Pos<'a> {
    random: Pcg64Mcg,
    profile: &'a AccessProfile,
    /// The priorities of the possible next steps.
    pending: Vec<(Step, u64)>,
}

impl Pos<'_> {
    /// A policy for one schedule, drawn from `random`.
    pub fn new(random: Pcg64Mcg, profile: &AccessProfile) -> Pos<'_> {
        Pos { random, profile, pending: Vec::new() }
    }
}

impl Policy for Pos<'_> {
    fn choose(&mut self, all_enabled: &[Step], history: &History) -> Choice {
        let enabled: Vec<Step> = single(all_enabled).collect();
        let has_lapsed = |step: Step| {
            !enabled.iter().any(|&other| is_same(other, step))
                || history.footprints.last().is_some_and(|last| self.profile.races(step, last, history))
        };
        self.pending.retain(|&(step, _)| !has_lapsed(step));
        for &step in &enabled {
            if !self.pending.iter().any(|&(other, _)| is_same(other, step)) {
                self.pending.push((step, self.random.random()));
            }
        }
        let highest = self.pending.iter().max_by_key(|&&(_, priority)| priority);
        let Some(&(first, _)) = highest else { return Choice::Abort };
        let same: Vec<usize> =
            (0..all_enabled.len()).filter(|&idx| is_same(all_enabled[idx], first)).collect();
        Choice::Take(same[self.random.random_range(0..same.len())])
    }
}

fn is_same(one: Step, other: Step) -> bool {
    let turn = |step| match step {
        Step::Run(actor, connection) | Step::Send(actor, connection) | Step::Receive(actor, connection) => {
            Some((actor, connection))
        }
        Step::Start(actor) => Some((actor, 0)),
        _ => None,
    };
    one == other
        || one.is_fault() && discriminant(&one) == discriminant(&other)
        || turn(one).is_some_and(|of_one| turn(other) == Some(of_one))
}
