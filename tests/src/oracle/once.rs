//! The oracles for work that is done once: a job, a mail, a payment.

use super::{Oracle, Violation, Wanted, deeds};
use crate::trace::{EventKind, History};

/// Nobody does a thing twice: no two clients, and no client again. Clients mark what they do by
/// [`Client::did`](crate::Client::did), or by a section of that name.
///
/// A violation: A and B both run job 1.
#[derive(Clone, Debug)]
pub struct AtMostOnce {
    what: &'static str,
}

impl AtMostOnce {
    /// The oracle for what has this name.
    pub fn of(what: &'static str) -> AtMostOnce {
        AtMostOnce { what }
    }
}

impl Oracle for AtMostOnce {
    fn name(&self) -> &'static str {
        "at-most-once"
    }

    fn judges(&self, history: &History) -> bool {
        deeds(history, self.what).next().is_some()
    }

    fn wants(&self) -> Wanted {
        Wanted::Deed(self.what)
    }

    fn check(&self, history: &History) -> Option<Violation> {
        let mut deeds = deeds(history, self.what);
        let ((_, first, _), (step, second, _)) = (deeds.next()?, deeds.next()?);
        let what = self.what;
        let what = match first == second {
            true => format!("{first} does «{what}» twice"),
            false => format!("{first} has done «{what}», and {second} does it once more"),
        };
        Some(Violation { step, what })
    }
}

/// A thing is done, by whomever, when all actors have started and ended. After a crash, a lost
/// message or a cancellation it may be done late: within the longest lease and two more seconds.
///
/// A violation: A takes job 1 off the queue and crashes, and nobody ever runs it.
#[derive(Clone, Debug)]
pub struct AtLeastOnce {
    what: &'static str,
}

impl AtLeastOnce {
    /// The oracle for what has this name.
    pub fn of(what: &'static str) -> AtLeastOnce {
        AtLeastOnce { what }
    }
}

impl Oracle for AtLeastOnce {
    fn name(&self) -> &'static str {
        "at-least-once"
    }

    fn judges(&self, history: &History) -> bool {
        end(history).is_some()
    }

    fn wants(&self) -> Wanted {
        Wanted::End
    }

    fn judges_end(&self) -> bool {
        true
    }

    fn check(&self, history: &History) -> Option<Violation> {
        let step = end(history)?;
        let is_done = deeds(history, self.what).next().is_some();
        (!is_done).then(|| Violation {
            step,
            what: format!("no client runs any more, and nobody has done «{}»", self.what),
        })
    }
}

/// A thing is done once and not twice: [`AtLeastOnce`] and [`AtMostOnce`].
#[derive(Clone, Debug)]
pub struct ExactlyOnce {
    least: AtLeastOnce,
    most: AtMostOnce,
}

impl ExactlyOnce {
    /// The oracle for what has this name.
    pub fn of(what: &'static str) -> ExactlyOnce {
        ExactlyOnce { least: AtLeastOnce::of(what), most: AtMostOnce::of(what) }
    }
}

impl Oracle for ExactlyOnce {
    fn name(&self) -> &'static str {
        "exactly-once"
    }

    fn judges(&self, history: &History) -> bool {
        self.least.judges(history)
    }

    fn wants(&self) -> Wanted {
        Wanted::End
    }

    fn judges_end(&self) -> bool {
        true
    }

    fn check(&self, history: &History) -> Option<Violation> {
        self.most.check(history).or_else(|| self.least.check(history))
    }
}

/// The number of steps before the end, if that is judged.
fn end(history: &History) -> Option<usize> {
    history.events.iter().find_map(|event| matches!(event.kind, EventKind::AllEnded).then_some(event.step))
}
