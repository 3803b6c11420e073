//! `proptest` strategies: schedules, and scenarios made from parameters with a schedule for each.
//!
//! Schedules are drawn like those of a sample. They shrink to what an explorer would report, and
//! their parameters shrink, too. A failure is stored as steps, not as the seed of its random
//! numbers.

mod parameters;
mod regression_file;
mod trial;
mod tree;

use std::cell::RefCell;
use std::fmt;
use std::path::Path;
use std::rc::Rc;

use ::proptest::strategy::{Just, NewTree, Strategy};
use ::proptest::test_runner::TestRunner;
use rand::RngExt as _;

pub use parameters::{Parameters, ParametersError};
pub use regression_file::RegressionFile;
pub use tree::TrialTree;
pub use trial::Trial;
use trial::{Make, RUNNER};

use crate::explore::{Method, Sampler};
use crate::render::printable;
use crate::scenario::Scenario;
use crate::schedule::Schedule;

/// The largest number of schedules that are drawn before the one that counts, to fill the access
/// profile.
const WARM_UP_MAX: u64 = Method::PORTFOLIO.len() as u64;

/// A strategy for the schedules of a scenario.
pub fn schedules(scenario: &Scenario) -> impl Strategy<Value = Schedule> + use<> {
    let scenario = scenario.clone();
    trials(Just(Parameters::default()), move |_| scenario.clone()).prop_map(|trial| trial.schedule)
}

/// A strategy for scenarios with a schedule for each. The parameters of the scenarios come from
/// `prop_compose!` or any other strategy.
///
/// If a trial violates an oracle of its scenario, it shrinks as in [`crate::shrink`]. Then its
/// parameters shrink, as long as the violation needs no more faults and actors. Parameters shrink
/// in the order in which they are drawn. Draw parameters after those that depend on them, for
/// example clients after permits.
pub fn trials<S: Strategy<Value = Parameters>>(
    parameters: S,
    scenario: impl Fn(&Parameters) -> Scenario + 'static,
) -> Trials<S> {
    Trials { parameters, make: Rc::new(scenario), kept: RefCell::default() }
}

/// The strategy of [`trials`].
pub struct Trials<S> {
    parameters: S,
    make: Make,
    kept: RefCell<std::vec::IntoIter<(Parameters, Schedule)>>,
}

impl<S> Trials<S> {
    /// Runs the trials of this file first, before any others are drawn: see [`RegressionFile`].
    ///
    /// # Panics
    /// The file exists, and cannot be read or parsed.
    pub fn regression_file(self, path: impl AsRef<Path>) -> Trials<S> {
        let kept = regression_file::read(path.as_ref());
        Trials {
            kept: RefCell::new(kept.unwrap_or_else(|error| panic!("{}", printable(&error))).into_iter()),
            ..self
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for Trials<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trials").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}

impl<S: Strategy<Value = Parameters>> Strategy for Trials<S> {
    type Tree = TrialTree<S::Tree>;
    type Value = Trial;

    fn new_tree(&self, runner: &mut TestRunner) -> NewTree<Self> {
        if let Some((parameters, schedule)) = self.kept.borrow_mut().next() {
            let scenario = (self.make)(&parameters);
            return Ok(TrialTree::new(None, self.make.clone(), Trial { parameters, scenario, schedule }));
        }
        let tree = self.parameters.new_tree(runner)?;
        let parameters = proptest::strategy::ValueTree::current(&tree);
        let scenario = (self.make)(&parameters);
        let schedule = sample_schedule(&scenario, runner.rng().random());
        Ok(TrialTree::new(Some(tree), self.make.clone(), Trial { parameters, scenario, schedule }))
    }
}

fn sample_schedule(scenario: &Scenario, seed: u64) -> Schedule {
    RUNNER.with_borrow_mut(|runner| {
        let mut sampler = Sampler::new(Method::PORTFOLIO, seed);
        for _ in 0..seed % WARM_UP_MAX {
            sampler.run(runner, scenario);
        }
        Schedule { steps: sampler.run(runner, scenario).0.into_history().steps }
    })
}
