//! The oracle for renewals of a grant that was lost meanwhile.

use super::{Oracle, Violation, Wanted, list};
use crate::actor::Actor;
use crate::trace::{EventKind, History, HoldId};

/// If a client inside the section is granted it once more, no other client has entered the section
/// since its last grant.
///
/// A violation: A's lease ends. B is granted the lock, changes the guarded data, and releases it.
/// Then A's renewal succeeds.
#[derive(Clone, Debug)]
pub struct Unbroken {
    section: &'static str,
}

impl Unbroken {
    /// The oracle for the section of this name.
    pub fn of(section: &'static str) -> Unbroken {
        Unbroken { section }
    }
}

impl Oracle for Unbroken {
    fn name(&self) -> &'static str {
        "unbroken"
    }

    fn judges(&self, history: &History) -> bool {
        let is_extended = |what: &EventKind| matches!(*what, EventKind::Extended { section, .. } if section == self.section);
        history.events.iter().any(|event| is_extended(&event.kind))
    }

    fn wants(&self) -> Wanted {
        Wanted::Extension(self.section)
    }

    fn check(&self, history: &History) -> Option<Violation> {
        // Each hold that is inside, with the other clients that have entered since its last grant.
        let mut inside: Vec<(HoldId, Vec<Actor>)> = Vec::new();
        for event in &history.events {
            match event.kind {
                EventKind::Enter { hold, actor, section, until, .. } if section == self.section => {
                    // A grant whose lease is over when it arrives is none.
                    let others = inside.iter_mut().filter(|_| event.at < until);
                    others.for_each(|(_, others)| others.push(actor));
                    inside.push((hold, Vec::new()));
                }
                EventKind::Extended { hold, actor, section, until }
                    if section == self.section && event.at < until =>
                {
                    let (_, others) = inside.iter_mut().find(|(other, _)| *other == hold)?;
                    if !others.is_empty() {
                        let others = list(others);
                        let what = format!(
                            "{actor} is granted the section once more, although {others} held it meanwhile"
                        );
                        return Some(Violation { step: event.step, what });
                    }
                }
                EventKind::Leave { hold, .. } => inside.retain(|(other, _)| *other != hold),
                _ => {}
            }
        }
        None
    }
}
