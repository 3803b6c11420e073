//! Processes of clients that stand still: nobody polls their tasks.

use std::task::Waker;

use super::{Simulation, Told, Traffic};
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

/// A process that stands still.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pause {
    /// Its tasks, as far as something has woken them.
    pub(super) woken: Vec<(Part, Waker)>,
    /// It stands still at least until no request of it is on its way.
    pub(super) awaits_reply: bool,
}

impl Pause {
    /// Whether something has woken the code of the actor.
    pub(super) fn is_awake(&self) -> bool {
        self.woken.iter().any(|&(part, _)| part == Part::Main)
    }

    /// Forgets what wakes its tasks, but not whether something does.
    pub(super) fn forget_tasks(&mut self) {
        self.woken.iter_mut().for_each(|(_, waker)| *waker = Waker::noop().clone());
    }
}

impl Simulation {
    /// Makes the process of an actor stand still.
    pub(crate) fn pause(&self, actor: Actor) {
        self.stand_still(actor, Pause::default());
    }

    /// Makes the processes of these actors stand still until the replies to their requests arrive,
    /// as far as they would stop waiting for them.
    pub(crate) fn pause_until_replies(&self, actors: impl Iterator<Item = Actor>) {
        let impatient = actors.filter(|&actor| self.is_impatient(actor));
        impatient.for_each(|actor| self.stand_still(actor, Pause { awaits_reply: true, ..Pause::default() }));
    }

    fn stand_still(&self, actor: Actor, pause: Pause) {
        let mut state = self.state();
        state.recorder.client_ran(actor);
        let idx = state.idx(actor);
        let awaits_reply = pause.awaits_reply;
        state.actors[idx].pause.get_or_insert(pause).awaits_reply |= awaits_reply;
        let has_tasks = state.actors[idx].spawned > 0;
        drop(state);
        if has_tasks {
            // They run on.
            self.tell(actor, || "stands still", || Told::Other);
        }
    }

    /// Whether an actor may stop waiting for a reply.
    fn is_impatient(&self, actor: Actor) -> bool {
        let state = self.state();
        let mut busy = state.gates.iter().filter(|gate| gate.actor == actor && gate.is_busy());
        busy.any(|gate| gate.traffic == Traffic::Bytes || self.config.response_timeout.is_some())
    }

    /// Lets the process of an actor go on. Returns whether it stood still, and no longer does.
    pub(crate) fn resume(&self, actor: Actor) -> bool {
        let pause = {
            let mut state = self.state();
            let (idx, has_request) = (state.idx(actor), state.has_request(actor));
            state.actors[idx].pause.take_if(|pause| !(pause.awaits_reply && has_request))
        };
        let Some(Pause { mut woken, .. }) = pause else { return false };
        if !woken.is_empty() {
            let mut state = self.state();
            state.actor(actor).is_told = true;
            state.wake(actor, None);
        }
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
