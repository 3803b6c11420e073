//! The tasks of actors: how they start, are polled and end, and the tasks that they spawn.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use tokio::task::AbortHandle;

use super::{Execution, panics};
use crate::actor::Actor;
use crate::client::Client;
use crate::live::{End, LiveClient, Part, tasks};
use crate::scenario::Act;
use crate::sim::{ActorState, Clients};
use crate::trace::EventKind;

impl Execution<'_> {
    /// Starts an actor, and waits until its requests are at their gates.
    pub(super) fn start(&mut self, actor: Actor) {
        self.sim.world.actors[actor.0].is_started = true;
        let task = self.spawn(actor, &self.scenario.actors[actor.0], |()| true);
        if task.is_some() {
            self.tasks.resize(self.scenario.actors.len(), None);
            self.tasks[actor.0] = task;
        }
        self.quiesce();
    }

    /// Starts the code of a client, as a task unless it is learned. `value` is what its result
    /// means.
    pub(super) fn spawn<R: 'static>(
        &mut self,
        actor: Actor,
        act: &Act<R>,
        value: fn(R) -> bool,
    ) -> Option<AbortHandle> {
        let Some(live) = &self.sim.live else {
            self.sim.world.wake(actor);
            return None;
        };
        Some(spawn(live.client(actor), act, value, self.scenario.limits.polls))
    }

    /// Lets clients run until they can do nothing more.
    pub(super) fn quiesce(&mut self) {
        let polls_max = self.scenario.limits.polls;
        self.sim.end_closed_subscriptions();
        if let Clients::Learned(learned) = &self.sim.clients {
            let learned = learned.clone();
            return self.as_far_as_known(|sim| sim.run_learned(&learned, polls_max));
        }
        loop {
            self.sim.live.iter().for_each(|live| live.run());
            if !self.sim.perform_turns(polls_max) {
                return;
            }
        }
    }

    /// Records the panics of tasks that actors spawned. If it is not clear whose task it was, an
    /// actor is named that has tasks.
    pub(super) fn note_panics(&mut self) {
        for text in panics::take() {
            let world = &mut self.sim.world;
            let last = world.history().footprints.last();
            let moved: Vec<Actor> = last.into_iter().flat_map(|footprint| footprint.clients()).collect();
            let ran = |actor: &&ActorState| moved.contains(&actor.actor);
            let actors = || world.actors.iter().filter(|actor| actor.is_started);
            let owner = actors().find(ran).or_else(|| actors().max_by_key(|actor| actor.spawned));
            let actor = owner.map_or(Actor(0), |owner| owner.actor);
            let error = format!("a task that it spawned panicked: {text}");
            world.record(EventKind::Failed { actor, error });
            self.sim.note_unlearnable(actor);
        }
    }
}

/// Starts the code of a client, as a task. `value` is what its result means.
pub(super) fn spawn<R: 'static>(
    client: LiveClient,
    act: &Act<R>,
    value: fn(R) -> bool,
    polls_max: u64,
) -> AbortHandle {
    let act = act.clone();
    let task = tokio::spawn(async move {
        // This is dropped last, and also when the task is aborted.
        let _ended = Ended(client.clone());
        let mut running = pin!(async { act(Client(client.clone())).await });
        let running = poll_fn(|cx| {
            client.is_woken();
            if client.stands_still(Part::Main, cx.waker()) || !client.may_poll(polls_max) {
                return Poll::Pending;
            }
            let before = tasks();
            let poll = client.running(|| panics::within(|| running.as_mut().poll(cx)));
            client.polled(before);
            match poll {
                Ok(Poll::Pending) => Poll::Pending,
                Ok(Poll::Ready(Ok(result))) => Poll::Ready(End::Done(value(result))),
                Ok(Poll::Ready(Err(error))) => Poll::Ready(End::Error(error.to_string())),
                Err(panic) => Poll::Ready(End::Panic(format!("its code panicked: {panic}"))),
            }
        });
        client.end(running.await);
    });
    task.abort_handle()
}

/// Notes that the task of a client has ended, for whatever reason.
struct Ended(LiveClient);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.task_ended();
    }
}
