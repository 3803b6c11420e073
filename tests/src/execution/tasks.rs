//! The tasks of actors: how they start, are polled and end, and the tasks that they spawn.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::task::AbortHandle;

use super::{Execution, panics};
use crate::actor::Actor;
use crate::client::Client;
use crate::scenario::Act;
use crate::sim::{ActorState, Clients, End, Part, Simulation, tasks};
use crate::trace::EventKind;

impl Execution<'_> {
    /// Starts an actor, and waits until its requests are at their gates.
    pub(super) async fn start(&mut self, actor: Actor) {
        self.sim.state().actors[actor.0].is_started = true;
        let task = self.spawn(actor, &self.scenario.actors[actor.0], |()| true);
        if task.is_some() {
            self.tasks.resize(self.scenario.actors.len(), None);
            self.tasks[actor.0] = task;
        }
        self.quiesce().await;
    }

    /// Starts the code of a client, as a task unless it is learned. `value` is what its result
    /// means.
    pub(super) fn spawn<R: 'static>(
        &self,
        actor: Actor,
        act: &Act<R>,
        value: fn(R) -> bool,
    ) -> Option<AbortHandle> {
        if let Clients::Learned(..) = self.sim.clients {
            self.sim.state().wake(actor, None);
            return None;
        }
        let client = Client::new(self.sim.clone(), actor);
        let finish = Finish { sim: self.sim.clone(), actor };
        let (act, sim, polls_max) = (act.clone(), self.sim.clone(), self.scenario.limits.polls);
        let task = tokio::spawn(async move {
            // This is dropped last, and also when the task is aborted.
            let _finish = finish;
            let mut running = pin!(async { act(client).await });
            let running = poll_fn(|cx| {
                sim.is_woken(actor);
                if sim.stands_still(actor, Part::Main, cx.waker()) || !sim.may_poll(actor, polls_max) {
                    return Poll::Pending;
                }
                let before = tasks();
                let poll = sim.quiescence.running(actor, || panics::within(|| running.as_mut().poll(cx)));
                sim.polled(actor, before);
                let end = match poll {
                    Ok(Poll::Pending) => None,
                    Ok(Poll::Ready(Ok(result))) => Some(End::Done(value(result))),
                    Ok(Poll::Ready(Err(error))) => Some(End::Error(error.to_string())),
                    Err(panic) => Some(End::Panic(format!("its code panicked: {panic}"))),
                };
                end.iter().for_each(|end| sim.note_end_of_code(actor, end));
                end.map_or(Poll::Pending, Poll::Ready)
            });
            sim.end_client(actor, &running.await);
        });
        Some(task.abort_handle())
    }

    /// Lets clients run until they can do nothing more.
    pub(super) async fn quiesce(&self) {
        if let Clients::Learned(learned) = &self.sim.clients {
            self.as_far_as_known(|| self.sim.run_learned(learned, self.scenario.limits.polls));
        } else {
            self.sim.quiescence.wait().await;
        }
    }

    /// Records the panics of tasks that actors spawned. If it is not clear whose task it was, an
    /// actor is named that has tasks.
    pub(super) fn note_panics(&self) {
        for text in panics::take() {
            let mut state = self.sim.state();
            let last = state.history().footprints.last();
            let moved: Vec<Actor> = last.into_iter().flat_map(|footprint| footprint.clients()).collect();
            let ran = |actor: &&ActorState| moved.contains(&actor.actor);
            let actors = || state.actors.iter().filter(|actor| actor.is_started);
            let owner = actors().find(ran).or_else(|| actors().max_by_key(|actor| actor.spawned));
            let actor = owner.map_or(Actor(0), |owner| owner.actor);
            let error = format!("a task that it spawned panicked: {text}");
            state.record(self.sim.now(), EventKind::Failed { actor, error });
            drop(state);
            self.sim.note_unlearnable(actor);
        }
    }
}

/// Records that an actor has ended, for whatever reason.
struct Finish {
    sim: Arc<Simulation>,
    actor: Actor,
}

impl Drop for Finish {
    fn drop(&mut self) {
        self.sim.finish_client(self.actor);
    }
}
