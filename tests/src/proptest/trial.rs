//! One schedule of one scenario, and how it runs.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use super::parameters::Parameters;
use super::regression_file;
use crate::execution::Runner;
use crate::explore::{Report, judge_one};
use crate::replay::Replay;
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use crate::sim::Recording;
use crate::trace::History;

thread_local! {
    /// One runner for each thread, because `proptest` only borrows strategies and their values to a
    /// test.
    pub(super) static RUNNER: RefCell<Runner> = RefCell::new(Runner::new());
}

/// Makes a scenario.
pub(super) type Make = Rc<dyn Fn(&Parameters) -> Scenario>;

/// One schedule of one scenario.
#[derive(Clone)]
pub struct Trial {
    /// The parameters of the scenario.
    pub parameters: Parameters,
    /// The scenario.
    pub scenario: Scenario,
    /// The schedule. Impossible steps are skipped. After the last step, no other actor starts.
    pub schedule: Schedule,
}

impl Trial {
    /// Runs the trial, and judges it by the oracles of the scenario.
    ///
    /// # Errors
    /// - An oracle is violated. The report names the first one.
    /// - The code of an actor fails or waits for ever.
    pub fn run(&self) -> Result<History, Box<Report>> {
        RUNNER.with_borrow_mut(|runner| {
            let replay = || Replay::new(&self.schedule);
            let (history, _) = runner.run_with_thresholds(&self.scenario, replay, Recording::Full);
            judge_one(runner, &self.scenario, history.into_history())
        })
    }
}

/// Prints the trial as [`RegressionFile`](super::RegressionFile) stores it, on its own lines.
impl fmt::Debug for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{} {}\n{}", regression_file::PARAMETERS, self.parameters, self.schedule)
    }
}
