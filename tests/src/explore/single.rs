//! The steps among which explorations choose.

use crate::fault::{Fault, Target};
use crate::schedule::Step;

/// The steps that are not two steps in one. If an actor can start by a step of its own, its start
/// together with its first command is left out. If a reply can be late, a command together with the
/// arrival of its reply is left out.
pub(super) fn single(enabled: &[Step]) -> impl Iterator<Item = Step> {
    let starting = enabled.iter().fold(0, |actors, step| match step {
        Step::Start(actor) => actors | 1 << actor.0,
        _ => actors,
    });
    let can_send = enabled.iter().any(|step| matches!(step, Step::Send(..)));
    let is_single = move |step: &Step| match step {
        Step::Run(actor, connection) if can_send && enabled.contains(&Step::Send(*actor, *connection)) => {
            false
        }
        Step::Run(actor, _) | Step::Fault(Fault { target: Target::Connection(actor, _), .. }) => {
            starting >> actor.0 & 1 == 0
        }
        _ => true,
    };
    enabled.iter().copied().filter(is_single)
}
