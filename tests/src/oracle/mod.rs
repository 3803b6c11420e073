//! What must hold. An oracle sees a history and nothing else; it is a small file, and a broken lock that it must catch.

mod exclusive_belief;
mod exclusive_fact;
mod no_leak;
mod over_issue;
mod owner_safe;
mod recovers;
mod success;

use std::fmt::Debug;
use std::time::Duration;

pub use exclusive_belief::ExclusiveBelief;
pub use exclusive_fact::ExclusiveFact;
pub use no_leak::NoLeak;
pub use over_issue::OverIssue;
pub use owner_safe::OwnerSafe;
pub use recovers::Recovers;
pub use success::Success;

use crate::history::{History, What};
use crate::schedule::Actor;

/// A property of histories.
pub trait Oracle: Debug + Send + Sync {
    /// Its name, in the field's words.
    fn name(&self) -> &'static str;

    /// Whether anything happened that this oracle has something to say of. Where that never is so, a pass means nothing.
    fn judges(&self, history: &History) -> bool;

    /// The first violation, if there is one.
    fn check(&self, history: &History) -> Option<Violation>;
}

/// Where a property broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The number of steps it took.
    pub step: usize,
    /// What one sees there, in a sentence.
    pub what: String,
}

/// The first moment at which more than `permits` clients are inside `section`, and who they are. Only clients count for which
/// `counts(now, end of lease)` holds.
fn crowded(
    history: &History,
    section: &str,
    permits: usize,
    counts: impl Fn(Duration, Duration) -> bool,
) -> Option<(usize, Vec<Actor>)> {
    let mut inside: Vec<(Actor, Duration)> = Vec::new();
    for event in &history.events {
        match event.what {
            What::Enter { actor, section: entered, until, .. } if entered == section => {
                inside.push((actor, until));
            }
            What::Extended { actor, section: entered, until } if entered == section => {
                inside.iter_mut().filter(|(other, _)| *other == actor).for_each(|(_, end)| *end = until);
            }
            What::Leave { actor, section: left } if left == section => {
                inside.retain(|&(other, _)| other != actor);
                continue;
            }
            _ => continue,
        }
        let counted = inside.iter().filter(|&&(_, until)| counts(event.at, until));
        let counted: Vec<Actor> = counted.map(|&(actor, _)| actor).collect();
        if counted.len() > permits {
            return Some((event.step, counted));
        }
    }
    None
}

/// Whether anybody was ever inside `section`.
fn is_entered(history: &History, section: &str) -> bool {
    history
        .events
        .iter()
        .any(|event| matches!(event.what, What::Enter { section: entered, .. } if entered == section))
}

/// `A and B`, `A, B and C`
pub(crate) fn list(actors: &[Actor]) -> String {
    match actors {
        [] => String::new(),
        [actor] => actor.to_string(),
        [rest @ .., last] => {
            let rest: Vec<_> = rest.iter().map(Actor::to_string).collect();
            format!("{} and {last}", rest.join(", "))
        }
    }
}
