use super::{Oracle, Violation, is_entered, list};
use crate::actor::Actor;
use crate::trace::{EventKind, History};

/// Who waits is not overtaken: while a client is in the section of those that wait, nobody else is granted the other one.
///
/// To starve is to be overtaken for ever, which no execution that ends can show; this is its first step.
///
/// A violation: A reads, C wants to write and has to wait, and B, which comes later, is let in to read.
#[derive(Clone, Debug)]
pub struct NotOvertaken {
    waiting: &'static str,
    section: &'static str,
}

impl NotOvertaken {
    /// For the section in which clients wait, and that in which nobody may be granted anything meanwhile.
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
                        let what = format!("{actor} is let in before {}, who came first", list(&others));
                        return Some(Violation { step: event.step, what });
                    }
                }
                _ => {}
            }
            None
        })
    }
}
