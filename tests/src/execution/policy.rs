//! The interface through which a policy chooses the steps of an execution. A policy sees the
//! possible steps and the history, and nothing of the simulation.

use std::time::Duration;

use crate::actor::Actor;
use crate::schedule::Step;
use crate::trace::History;

/// Decides what happens next.
pub trait Policy {
    /// Chooses one of the steps that are possible now, given the history. There is at least one.
    fn choose(&mut self, enabled: &[Step], history: &History) -> Choice;

    /// All clients wait for time, and nothing else can happen. If this returns `false`, the rest
    /// does not matter.
    fn lets_time_pass(&mut self, _: &History) -> bool {
        true
    }
}

/// The choice of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The step at this index.
    Take(usize),
    /// A step of time of any length, whether it is among the possible steps or not.
    Advance(Duration),
    /// All other actors are gone, and time passes until this actor acts. Then the execution ends.
    ProbeTimer(Actor),
    /// No further step: continue with the end of the execution.
    Finish,
    /// Ends the execution here, because the rest does not matter.
    Abort,
}
