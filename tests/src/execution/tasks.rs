//! The clients of an execution: they start, run until they can do nothing more, and panic.

use super::run::Execution;
use super::start::start;
use crate::actor::Actor;
use crate::live::take_panics;
use crate::scenario::Act;
use crate::sim::{ActorState, Clients, Life};
use crate::trace::EventKind;

impl Execution<'_> {
    /// Starts an actor, and waits until its requests are at their gates.
    pub(super) fn start(&mut self, actor: Actor) {
        self.sim.world.actors[actor.0].life = Life::Running;
        self.spawn(actor, &self.scenario.actors[actor.0], |()| true);
        self.quiesce();
    }

    /// Starts the code of a client. `value` is what its result means.
    pub(super) fn spawn<R: 'static>(&mut self, actor: Actor, act: &Act<R>, value: fn(R) -> bool) {
        match &self.live {
            Some(live) => start(live, actor, act, value, self.scenario.limits.polls),
            None => self.sim.world.wake(actor),
        }
    }

    /// Lets clients run until they can do nothing more.
    pub(super) fn quiesce(&mut self) {
        let polls_max = self.scenario.limits.polls;
        self.sim.end_closed_subscriptions();
        self.sim.end_waits();
        if let Clients::Learned(_) = &self.sim.clients {
            return self.as_far_as_known(|sim| sim.run_learned(polls_max));
        }
        loop {
            self.sim.code.iter().for_each(|code| code.run());
            if !self.sim.perform_turns(polls_max) {
                return;
            }
        }
    }

    /// Records the panics of tasks that actors spawned. If it is not clear whose task it was, an
    /// actor is named that has tasks.
    pub(super) fn note_panics(&mut self) {
        for text in take_panics() {
            let world = &mut self.sim.world;
            let last = world.history().footprints.last();
            let moved: Vec<Actor> = last.into_iter().flat_map(|footprint| footprint.clients()).collect();
            let ran = |actor: &&ActorState| moved.contains(&actor.actor);
            let actors = || world.actors.iter().filter(|actor| actor.life != Life::Unstarted);
            let owner = actors().find(ran).or_else(|| actors().max_by_key(|actor| actor.spawned));
            let actor = owner.map_or(Actor(0), |owner| owner.actor);
            let error = format!("a task that it spawned panicked: {text}");
            world.record(EventKind::Failed { actor, error });
            self.sim.note_unlearnable(actor);
        }
    }
}
