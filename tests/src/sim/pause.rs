//! Processes of clients that stand still: nobody polls their tasks.

use super::actor_state::Pause;
use super::{Simulation, World};
use crate::actor::Actor;
use crate::live::Told;

impl Simulation {
    /// Makes the process of an actor stand still.
    pub(crate) fn pause(&mut self, actor: Actor) {
        self.stand_still(actor, Pause::default());
    }

    /// Makes the processes of these actors stand still until the replies to their requests arrive,
    /// as far as they would stop waiting for them.
    pub(crate) fn pause_until_replies(&mut self, actors: impl Iterator<Item = Actor>) {
        for actor in actors {
            if self.is_impatient(actor) {
                self.stand_still(actor, Pause { awaits_reply: true, ..Pause::default() });
            }
        }
    }

    fn stand_still(&mut self, actor: Actor, pause: Pause) {
        self.world.recorder.client_ran(actor);
        self.world.stand_still(actor, pause);
        self.code.iter().for_each(|code| code.pause(actor));
        self.note_tasks_run_on(actor);
    }

    /// If a client has tasks, they run on while its code stands still. What it does then differs
    /// from what it does when its code goes on.
    fn note_tasks_run_on(&mut self, actor: Actor) {
        if self.world.actor(actor).spawned > 0 {
            self.tell(actor, &Told::Other);
        }
    }

    /// Whether an actor may stop waiting for a reply.
    fn is_impatient(&self, actor: Actor) -> bool {
        let mut busy = self.world.gates.iter().filter(|gate| gate.actor == actor && gate.is_busy());
        busy.any(|gate| gate.traffic.is_stream() || self.config.terms.response_timeout.is_some())
    }

    /// Lets the process of an actor go on. Returns whether it stood still, and no longer does.
    pub(crate) fn resume(&mut self, actor: Actor) -> bool {
        let Some(Pause { is_awake, .. }) = self.world.go_on(actor) else { return false };
        self.note_tasks_run_on(actor);
        match &self.code {
            Some(code) => code.resume(actor),
            None if is_awake => self.world.wake(actor),
            None => {}
        }
        true
    }
}

impl World {
    /// The process of an actor stands still, for one reason more if it did before.
    fn stand_still(&mut self, actor: Actor, pause: Pause) {
        self.actor(actor).pause.get_or_insert(pause).awaits_reply |= pause.awaits_reply;
    }

    /// The process of an actor goes on if it stood still, unless that awaits a reply.
    fn go_on(&mut self, actor: Actor) -> Option<Pause> {
        let has_request = self.has_request(actor);
        self.actor(actor).pause.take_if(|pause| !(pause.awaits_reply && has_request))
    }

    /// Something has woken the code of a client. Whether its process stands still: if it does, the
    /// code runs when it goes on.
    pub(super) fn stands_still(&mut self, actor: Actor) -> bool {
        let pause = self.actor(actor).pause.as_mut();
        pause.map(|pause| pause.is_awake = true).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::gate::GateState;
    use super::super::{ActorState, Gate};
    use super::*;

    const A: Actor = Actor(0);

    /// A client that stands still for these reasons, with a request on its way or without.
    fn paused(awaits_reply: &[bool], has_request: bool) -> World {
        let mut world = World::default();
        world.actors.push(ActorState::new(A));
        let gate_state = if has_request { GateState::Waiting } else { GateState::Empty };
        world.gates.push(Gate { gate_state, ..Gate::new(A, 0, 0) });
        awaits_reply
            .iter()
            .for_each(|&awaits_reply| world.stand_still(A, Pause { awaits_reply, ..Pause::default() }));
        world
    }

    #[test]
    fn a_process_goes_on_when_no_reason_is_left() {
        let goes_on =
            |awaits_reply: &[bool], has_request| paused(awaits_reply, has_request).go_on(A).is_some();
        assert!(!goes_on(&[], false), "it did not stand still");
        assert!(goes_on(&[false], true) && goes_on(&[false], false));
        for awaits_reply in [&[true][..], &[false, true], &[true, false]] {
            assert!(!goes_on(awaits_reply, true) && goes_on(awaits_reply, false), "{awaits_reply:?}");
        }
    }

    #[test]
    fn a_process_that_stands_still_notes_that_it_was_woken() {
        let mut world = paused(&[false], false);
        assert!(world.stands_still(A));
        assert!(world.go_on(A).is_some_and(|pause| pause.is_awake));
        assert!(!world.stands_still(A));
    }
}
