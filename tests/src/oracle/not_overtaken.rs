//! The oracle for fairness towards waiting clients.

use super::{Oracle, Violation, is_entered, list};
use crate::actor::Actor;
use crate::trace::{EventKind, History};

/// A waiting client is not overtaken: while it is in the section `waiting`, no other client is
/// granted `section`.
///
/// Starvation means that a client is overtaken for ever, which no finite execution can show. This
/// oracle finds the first step of it.
///
/// A violation: A reads, and C waits to write. B comes later, and is granted the lock to read.
#[derive(Clone, Debug)]
pub struct NotOvertaken {
    waiting: &'static str,
    section: &'static str,
}

impl NotOvertaken {
    /// The oracle for two sections: clients wait in `waiting`, and meanwhile no other client may be
    /// granted `section`.
    pub fn of(waiting: &'static str, section: &'static str) -> NotOvertaken {
        NotOvertaken { waiting, section }
    }
}

impl Oracle for NotOvertaken {
    fn name(&self) -> &'static str {
        "not-overtaken"
    }

    fn judges(&self, history: &History) -> bool {
        is_entered(history, self.waiting)
    }

    fn check(&self, history: &History) -> Option<Violation> {
        let mut waiting: Vec<Actor> = Vec::new();
        history.events.iter().find_map(|event| {
            match event.kind {
                EventKind::Enter { actor, section, .. } if section == self.waiting => waiting.push(actor),
                EventKind::Leave { actor, section, .. } if section == self.waiting => {
                    waiting.retain(|&other| other != actor);
                }
                EventKind::Enter { actor, section, .. } if section == self.section => {
                    let others: Vec<Actor> =
                        waiting.iter().copied().filter(|&other| other != actor).collect();
                    if !others.is_empty() {
                        let what = format!("{actor} enters before {}, who waited first", list(&others));
                        return Some(Violation { step: event.step, what });
                    }
                }
                _ => {}
            }
            None
        })
    }
}
