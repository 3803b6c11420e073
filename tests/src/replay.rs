//! Runs one schedule, as it is written.

use crate::execution::{Choice, Policy, Runner};
use crate::history::History;
use crate::scenario::Scenario;
use crate::schedule::{Schedule, Step};
use crate::world::Recording;

/// Follows a schedule. A step that is not possible is skipped, so that a shortened or edited schedule still means something;
/// when the steps are over, nobody else starts.
#[derive(Debug)]
pub struct Replay {
    steps: std::vec::IntoIter<Step>,
}

impl Replay {
    /// From its first step.
    pub fn new(schedule: &Schedule) -> Replay {
        Replay { steps: schedule.steps.clone().into_iter() }
    }
}

impl Policy for Replay {
    fn choose(&mut self, enabled: &[Step], _: &History) -> Choice {
        let next = self.steps.find_map(|step| enabled.iter().position(|other| *other == step));
        next.map_or(Choice::Finish, Choice::Take)
    }
}

/// Runs one schedule, and lets everybody who has started come to an end.
pub fn replay(
    runner: &mut Runner,
    scenario: &Scenario,
    schedule: &Schedule,
    recording: Recording,
) -> History {
    runner.run(scenario, &mut Replay::new(schedule), recording)
}
