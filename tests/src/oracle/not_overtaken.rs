//! The oracle for fairness towards waiting clients.

use super::{Oracle, Violation, Wanted, is_entered, list};
use crate::actor::Actor;
use crate::trace::{EventKind, History, HoldId};

/// A waiting client is not overtaken: while it is in the section `waiting`, no other client is
/// granted `section` that began to wait later, or did not wait.
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
    /// The oracle for two sections: clients wait in `waiting`, and may be granted `section` in the
    /// order in which they began to wait.
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

    fn wants(&self) -> Wanted {
        Wanted::Sections(vec![self.waiting])
    }

    fn check(&self, history: &History) -> Option<Violation> {
        // In the order in which the clients began to wait.
        let mut waiting: Vec<(HoldId, Actor)> = Vec::new();
        history.events.iter().find_map(|event| {
            match event.kind {
                EventKind::Enter { hold, actor, section, .. } if section == self.waiting => {
                    waiting.push((hold, actor));
                }
                EventKind::Leave { hold, .. } => waiting.retain(|&(other, _)| other != hold),
                EventKind::Enter { actor, section, .. } if section == self.section => {
                    let before = waiting.iter().map(|&(_, other)| other).take_while(|&other| other != actor);
                    let before: Vec<Actor> = before.collect();
                    if !before.is_empty() {
                        let what = format!("{actor} enters before {}, who waited first", list(&before));
                        return Some(Violation { step: event.step, what });
                    }
                }
                _ => {}
            }
            None
        })
    }
}
