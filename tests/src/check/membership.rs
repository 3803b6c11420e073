//! Whether the steps of a saved schedule can happen in its fault class.

use locks::registry::FaultClass;

use super::bounds::faults_of;
use super::sizes::LEASE;
use crate::replay::{SavedSchedule, Subject};
use crate::schedule::Step;

/// A step that cannot happen in the fault class of its schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("step {number}: `{step}` cannot happen in the class {class}: remove the step{}", other(classes))]
pub struct ForeignStep {
    /// The number of the step, from 1.
    pub number: usize,
    /// The step.
    pub step: Step,
    /// The class of the schedule.
    pub class: FaultClass,
    /// The classes in which the step can happen.
    pub classes: Vec<FaultClass>,
}

/// Checks that each step of a saved schedule of an algorithm can happen in its fault class.
///
/// Without this check, a replay skips such faults. Steps of time run in any class, and their
/// outcome says nothing about the class.
///
/// # Errors
/// A fault has no budget in the class, or time moves in a class without stalls.
pub fn match_class(saved: &SavedSchedule) -> Result<(), ForeignStep> {
    let Subject::Algorithm { class, .. } = saved.subject else { return Ok(()) };
    let foreign = saved.steps.iter().zip(1..).find(|(saved, _)| !can_have(class, saved.step));
    foreign.map_or(Ok(()), |(saved, number)| {
        let step = saved.step;
        let classes = FaultClass::ALL.iter().copied().filter(|&class| can_have(class, step)).collect();
        Err(ForeignStep { number, step, class, classes })
    })
}

fn can_have(class: FaultClass, step: Step) -> bool {
    let faults = faults_of(class, LEASE);
    match step {
        Step::Fault(fault) => (fault.kind.row().limit)(&faults) > 0,
        Step::Advance(_) => faults.stalls > 0,
        // A client may wait in any class. The other steps depend on the clients.
        _ => true,
    }
}

/// The other classes to write.
fn other(classes: &[FaultClass]) -> String {
    let names: Vec<&str> = classes.iter().map(|class| class.name()).collect();
    match &names[..] {
        [] => ", because no class has it".into(),
        names => format!(", or write a class that has it: {}", names.join(", ")),
    }
}
