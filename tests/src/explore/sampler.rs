//! Draws and runs the schedules of a sample. A sampler does not judge their histories.

use rand::RngExt as _;

use super::access_profile::AccessProfile;
use super::pct::Pct;
use super::pos::Pos;
use super::random_walk::{RandomWalk, chance};
use super::timer_probe::probe_timers;
use super::uniform_walk::UniformWalk;
use crate::execution::{Executed, Policy, Runner};
use crate::scenario::Scenario;

/// A fault budget is drawn as zero with a probability of 1 in `FAULTLESS`.
const FAULTLESS: u32 = 8;

/// A way to draw a random schedule. Each one misses bugs that another finds at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// [`Pos`]: each order of two racing steps is equally likely.
    Pos,
    /// [`Pct`] of this depth: few changes of priority, at random places.
    Pct(usize),
    /// [`UniformWalk`]: each order of all steps is about equally likely.
    UniformWalk,
    /// [`RandomWalk`]: each possibility is equally likely at every step.
    RandomWalk,
}

impl Method {
    /// The methods of a sample, which take turns.
    pub const PORTFOLIO: &[Method] = &[
        Method::Pos,
        Method::Pct(3),
        Method::Pos,
        Method::Pct(5),
        Method::Pos,
        Method::UniformWalk,
        Method::Pos,
        Method::RandomWalk,
    ];
}

/// Draws schedules of a scenario one after the other, and runs them. Equal seeds give equal
/// schedules on every machine.
///
/// Each schedule also draws its fault budgets, up to those of the scenario. One in eight is zero.
/// If all faults could happen in every schedule, clients would make little progress.
#[derive(Debug)]
pub struct Sampler {
    methods: &'static [Method],
    seed: u64,
    nth: u64,
    profile: AccessProfile,
}

impl Sampler {
    /// A sampler whose methods take turns.
    ///
    /// # Panics
    /// There are no methods.
    pub fn new(methods: &'static [Method], seed: u64) -> Sampler {
        assert!(!methods.is_empty(), "a sampler needs at least one method");
        Sampler { methods, seed, nth: 0, profile: AccessProfile::default() }
    }

    /// A sampler that goes on with the schedule of this number. Its memory is as it is now.
    pub(super) fn continued(&self, nth: u64) -> Sampler {
        Sampler { nth, profile: self.profile.clone(), ..*self }
    }

    /// Runs one more schedule. All calls must pass the same scenario. Returns also the scenario
    /// with the budgets that were drawn.
    pub fn run(&mut self, runner: &mut Runner, scenario: &Scenario) -> (Executed, Scenario) {
        let mut random = chance(self.seed, self.nth);
        let budget = |max: u32| {
            let is_zero = max == 0 || random.random_range(0..FAULTLESS) == 0;
            if is_zero { 0 } else { random.random_range(1..=max) }
        };
        let scenario = scenario.clone().faults(scenario.faults.sampled(budget));
        let method = self.methods[(self.nth % self.methods.len() as u64) as usize];
        let executed = loop {
            let policy = || -> Box<dyn Policy + '_> {
                let random = random.clone();
                match method {
                    Method::Pos => Box::new(Pos::new(random, &self.profile)),
                    Method::Pct(depth) => Box::new(Pct::new(random, depth, &self.profile)),
                    Method::UniformWalk => Box::new(UniformWalk::new(random, &self.profile)),
                    Method::RandomWalk => Box::new(RandomWalk::new(self.seed, self.nth)),
                }
            };
            let (executed, _) = runner.run_fresh(&scenario, policy, scenario.recording());
            // If new timers are known now, the schedule runs again. Then no client waits for a
            // timer that does not exist.
            if executed.is_endless() || !probe_timers(runner, &scenario, &executed) {
                break executed;
            }
        };
        self.profile.learn(&executed);
        self.nth += 1;
        (executed, scenario)
    }
}
