//! Processes of clients that stand still: nobody polls their tasks.

use std::task::Waker;

use super::Simulation;
use crate::actor::Actor;

/// The part of a client's process that a task runs. A process that goes on reads what has arrived
/// before it looks at its timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// The driver of a connection.
    Driver,
    /// The code of the actor.
    Main,
}

/// The tasks of a process that stands still, as far as something has woken them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pause {
    woken: Vec<(Part, Waker)>,
}

impl Simulation {
    /// Makes the process of an actor stand still.
    pub(crate) fn pause(&self, actor: Actor) {
        let mut state = self.state();
        state.recorder.client_ran(actor);
        let idx = state.idx(actor);
        state.actors[idx].pause.get_or_insert_default();
    }

    /// Lets the process of an actor go on. Returns whether it stood still.
    pub(crate) fn resume(&self, actor: Actor) -> bool {
        let pause = {
            let mut state = self.state();
            let idx = state.idx(actor);
            state.actors[idx].pause.take()
        };
        let Some(Pause { mut woken }) = pause else { return false };
        woken.sort_by_key(|&(part, _)| part);
        woken.into_iter().for_each(|(_, waker)| waker.wake());
        true
    }

    /// Whether the process of an actor stands still. If it does, the waker is woken when it goes
    /// on.
    pub(crate) fn stands_still(&self, actor: Actor, part: Part, waker: &Waker) -> bool {
        let mut state = self.state();
        let idx = state.idx(actor);
        let pause = state.actors[idx].pause.as_mut();
        pause.map(|pause| pause.woken.push((part, waker.clone()))).is_some()
    }
}
