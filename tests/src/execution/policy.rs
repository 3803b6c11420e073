//! The interface through which a policy chooses the steps of an execution. A policy sees the
//! possible steps and the history, and nothing of the simulation.

use crate::actor::Actor;
use crate::schedule::Step;
use crate::trace::History;

/// Decides what happens next.
pub trait Policy {
    /// Chooses one of the steps that are possible now, given the history. There is at least one.
    fn choose(&mut self, enabled: &[Step], history: &History) -> Choice;

    /// Whether a client that tries in vain may try once more although others can move. An
    /// exploration leaves that out, but a schedule may contain it.
    fn tries_in_vain(&self) -> bool {
        false
    }

    /// All clients wait for time, and nothing else can happen. If this returns `false`, the rest
    /// does not matter.
    fn lets_time_pass(&mut self, _: &History) -> bool {
        true
    }
}

impl<P: Policy + ?Sized> Policy for Box<P> {
    fn choose(&mut self, enabled: &[Step], history: &History) -> Choice {
        (**self).choose(enabled, history)
    }

    fn tries_in_vain(&self) -> bool {
        (**self).tries_in_vain()
    }

    fn lets_time_pass(&mut self, history: &History) -> bool {
        (**self).lets_time_pass(history)
    }
}

/// The choice of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The step at this index.
    Take(usize),
    /// A step that need not be among the possible ones: one that moves time by any span, one more
    /// try of a client that tried in vain, or a request whose reply is late. If it is impossible,
    /// nothing happens in it.
    Move(Step),
    /// All other actors are gone, and time passes until this actor acts. Then the execution ends.
    ProbeTimer(Actor),
    /// No further step: continue with the end of the execution.
    Finish,
    /// Ends the execution here, because the rest does not matter.
    Abort,
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Otherwise;

    impl Policy for Otherwise {
        fn choose(&mut self, _: &[Step], _: &History) -> Choice {
            Choice::Abort
        }

        fn tries_in_vain(&self) -> bool {
            true
        }

        fn lets_time_pass(&mut self, _: &History) -> bool {
            false
        }
    }

    #[test]
    fn a_box_decides_as_its_policy_does() {
        let (mut boxed, history): (Box<dyn Policy>, _) = (Box::new(Otherwise), History::default());
        assert_eq!(Policy::choose(&mut boxed, &[], &history), Choice::Abort);
        assert!(Policy::tries_in_vain(&boxed));
        assert!(!Policy::lets_time_pass(&mut boxed, &history));
    }
}
