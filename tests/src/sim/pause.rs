//! Processes of clients that stand still: nobody polls their tasks.

use super::Simulation;
use crate::actor::Actor;
use crate::live::{Told, Traffic};

/// A process that stands still.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pause {
    /// Something has woken the code.
    pub(super) is_awake: bool,
    /// It stands still at least until no request of it is on its way.
    pub(super) awaits_reply: bool,
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
        self.live.iter().for_each(|live| live.pause(actor));
        if has_tasks {
            // They run on.
            self.tell(actor, &Told::Other);
        }
    }

    /// Whether an actor may stop waiting for a reply.
    fn is_impatient(&self, actor: Actor) -> bool {
        let state = self.state();
        let mut busy = state.gates.iter().filter(|gate| gate.actor == actor && gate.is_busy());
        busy.any(|gate| gate.traffic == Traffic::Bytes || self.config.terms.response_timeout.is_some())
    }

    /// Lets the process of an actor go on. Returns whether it stood still, and no longer does.
    pub(crate) fn resume(&self, actor: Actor) -> bool {
        let pause = {
            let mut state = self.state();
            let (idx, has_request) = (state.idx(actor), state.has_request(actor));
            state.actors[idx].pause.take_if(|pause| !(pause.awaits_reply && has_request))
        };
        let Some(Pause { is_awake, .. }) = pause else { return false };
        match &self.live {
            Some(live) => live.resume(actor),
            None if is_awake => self.state().wake(actor),
            None => {}
        }
        true
    }

    /// Something has woken the code of a client. Whether its process stands still: if it does, the
    /// code runs when it goes on.
    pub(super) fn stands_still(&self, actor: Actor) -> bool {
        let mut state = self.state();
        let pause = state.actor(actor).pause.as_mut();
        pause.map(|pause| pause.is_awake = true).is_some()
    }
}
