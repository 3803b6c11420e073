//! Runs one schedule, as it is written.

use std::time::Duration;

use crate::execution::{Choice, Policy, Runner};
use crate::scenario::Scenario;
use crate::schedule::{Schedule, Step};
use crate::sim::Recording;
use crate::trace::History;

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

/// Follows a schedule that a person may have written: time moves by as much as it says, whatever else is due then. A step that
/// is not possible is skipped, and when the steps are over, nobody else starts.
#[derive(Debug)]
pub struct Follow {
    steps: Vec<Step>,
    /// As which step of the execution each was taken, counted from 1; `None` for those that were skipped.
    taken: Vec<Option<usize>>,
}

impl Follow {
    /// From its first step.
    pub fn new(steps: Vec<Step>) -> Follow {
        Follow { steps, taken: Vec::new() }
    }

    /// The steps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// How long the next step of time is to be, and its place among the steps.
    pub(crate) fn next_span(&mut self) -> Option<(usize, &mut Duration)> {
        let coming = self.steps.iter_mut().enumerate().skip(self.taken.len());
        coming.into_iter().find_map(|(idx, step)| match step {
            Step::Advance(span) => Some((idx, span)),
            _ => None,
        })
    }

    /// As which step of the execution each step so far was taken, counted from 1; `None` for those that were skipped.
    pub fn taken(&self) -> &[Option<usize>] {
        &self.taken
    }
}

impl Policy for Follow {
    fn choose(&mut self, enabled: &[Step], history: &History) -> Choice {
        while let Some(&step) = self.steps.get(self.taken.len()) {
            let choice = match step {
                Step::Advance(span) => Some(Choice::Advance(span)),
                _ => enabled.iter().position(|&other| other == step).map(Choice::Take),
            };
            self.taken.push(choice.map(|_| history.steps.len() + 1));
            if let Some(choice) = choice {
                return choice;
            }
        }
        Choice::Finish
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
