use crate::execution::{Choice, Policy};
use crate::history::History;
use crate::schedule::{Schedule, Step};

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

/// Takes each choice from a list of numbers, modulo the number of possibilities: how `proptest` makes and shrinks schedules.
/// When the list is over, the first possibility is taken: whoever ran last goes on.
#[derive(Debug)]
pub struct Choices {
    numbers: std::vec::IntoIter<u16>,
}

impl Choices {
    /// From the first number.
    pub fn new(numbers: Vec<u16>) -> Choices {
        Choices { numbers: numbers.into_iter() }
    }
}

impl Policy for Choices {
    fn choose(&mut self, enabled: &[Step], _: &History) -> Choice {
        Choice::Take(self.numbers.next().map_or(0, |number| usize::from(number) % enabled.len()))
    }
}
