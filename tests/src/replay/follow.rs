//! Runs one schedule as it is written.

use crate::execution::{Choice, Policy, Runner};
use crate::scenario::Scenario;
use crate::schedule::{Schedule, Step};
use crate::sim::Recording;
use crate::trace::History;

/// Follows a schedule. Impossible steps are skipped, so that a shortened or edited schedule still
/// has a meaning. After the last step, no other actor starts.
#[derive(Debug)]
pub struct Replay {
    steps: std::vec::IntoIter<Step>,
}

impl Replay {
    /// A policy that begins with the first step.
    pub fn new(schedule: &Schedule) -> Replay {
        Replay { steps: schedule.steps.clone().into_iter() }
    }
}

impl Policy for Replay {
    fn choose(&mut self, enabled: &[Step], _: &History) -> Choice {
        self.steps.find_map(|step| choice_of(step, enabled)).unwrap_or(Choice::Finish)
    }

    fn tries_in_vain(&self) -> bool {
        true
    }
}

/// The choice of this step, if it is possible. A reply may be late, too, where the exploration had
/// prompt replies but for some.
fn choice_of(step: Step, enabled: &[Step]) -> Option<Choice> {
    let taken = enabled.iter().position(|other| *other == step).map(Choice::Take);
    taken.or_else(|| match step {
        Step::Send(actor, nth) => enabled.contains(&Step::Run(actor, nth)).then_some(Choice::Move(step)),
        _ => None,
    })
}

/// Follows a schedule. Then all actors start that have not started, in the order of their names.
#[derive(Debug)]
pub(crate) struct ReplayWithAll(Replay);

impl ReplayWithAll {
    /// A policy that begins with the first step.
    pub(crate) fn new(schedule: &Schedule) -> ReplayWithAll {
        ReplayWithAll(Replay::new(schedule))
    }
}

impl Policy for ReplayWithAll {
    fn choose(&mut self, enabled: &[Step], history: &History) -> Choice {
        let has_started = |actor| history.steps.iter().any(|step| step.actor() == Some(actor));
        let starts = |step: &Step| matches!(*step, Step::Run(actor, _) if !has_started(actor));
        match self.0.choose(enabled, history) {
            Choice::Finish => enabled.iter().position(starts).map_or(Choice::Finish, Choice::Take),
            choice => choice,
        }
    }

    fn tries_in_vain(&self) -> bool {
        true
    }
}

/// Follows a schedule that a person may have written. Time moves exactly as the schedule says, even
/// past other instants that matter, and clocks are as wrong as it says. Impossible steps are
/// skipped. After the last step, no other actor starts.
#[derive(Debug)]
pub struct Follow {
    steps: Vec<Step>,
    /// For each step so far, its number in the execution, from 1; `None` if it was skipped.
    taken: Vec<Option<usize>>,
}

impl Follow {
    /// A policy that begins with the first step.
    pub fn new(steps: Vec<Step>) -> Follow {
        Follow { steps, taken: Vec::new() }
    }

    /// The steps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The next step that moves time by a span, and its index.
    pub(crate) fn next_of_time(&mut self) -> Option<(usize, &mut Step)> {
        let coming = self.steps.iter_mut().enumerate().skip(self.taken.len());
        coming.into_iter().find(|(_, step)| step.time_moved().is_some())
    }

    /// For each step so far, its number in the execution, from 1; `None` if it was skipped.
    pub fn taken(&self) -> &[Option<usize>] {
        &self.taken
    }
}

impl Policy for Follow {
    fn choose(&mut self, enabled: &[Step], history: &History) -> Choice {
        while let Some(&step) = self.steps.get(self.taken.len()) {
            let choice = match step {
                Step::Advance(_) => Some(Choice::Move(step)),
                // A fault of clocks and of time is possible by any amount, if it is by one.
                Step::Fault(fault) => {
                    let is_like = |other: &Step| {
                        other
                            .fault()
                            .is_some_and(|other| (other.kind, other.target) == (fault.kind, fault.target))
                    };
                    enabled.iter().any(is_like).then_some(Choice::Move(step))
                }
                _ => choice_of(step, enabled),
            };
            self.taken.push(choice.map(|_| history.steps.len() + 1));
            if let Some(choice) = choice {
                return choice;
            }
        }
        Choice::Finish
    }

    fn tries_in_vain(&self) -> bool {
        true
    }
}

/// Runs one schedule, and then lets all started actors end.
pub fn replay(
    runner: &mut Runner,
    scenario: &Scenario,
    schedule: &Schedule,
    recording: Recording,
) -> History {
    runner.learn_thresholds(scenario);
    runner.run_with_thresholds(scenario, || Replay::new(schedule), recording).0.into_history()
}
