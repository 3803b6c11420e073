use std::time::Duration;

use crate::actor::Actor;
use crate::schedule::Step;
use crate::trace::History;

/// Decides what happens next.
pub trait Policy {
    /// One of the steps that are possible now (never none), given what has happened.
    fn choose(&mut self, enabled: &[Step], history: &History) -> Choice;

    /// Everybody waits for time, and nothing else can happen. It passes unless this says `false`: then the rest does not matter.
    fn lets_time_pass(&mut self, _: &History) -> bool {
        true
    }
}

/// What a policy decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The step at this index.
    Take(usize),
    /// A step of time of any length, whether it was among the possible ones or not.
    Advance(Duration),
    /// Everybody but this actor is gone, time passes until it does something, and that is all.
    ProbeTimer(Actor),
    /// No further step: go on to what happens when all is over.
    Finish,
    /// Stop here: the rest does not matter.
    Abort,
}
