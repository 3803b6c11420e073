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
use crate::sim::{ActorState, Part, Simulation};
use crate::trace::EventKind;

impl Execution<'_> {
    /// Starts an actor, and waits until its requests are at their gates.
    pub(super) async fn start(&mut self, actor: Actor) {
        self.sim.state().actors[actor.0].is_started = true;
        let task = self.spawn(actor, &self.scenario.actors[actor.0], |_| {});
        self.tasks[actor.0] = Some(task);
        self.sim.quiescence.wait().await;
    }

    pub(super) fn spawn<R: 'static>(
        &self,
        actor: Actor,
        act: &Act<R>,
        done: impl FnOnce(R) + Send + 'static,
    ) -> AbortHandle {
        let client = Client::new(self.sim.clone(), actor);
        let finish = Finish { sim: self.sim.clone(), actor };
        let (act, sim, polls_max) = (act.clone(), self.sim.clone(), self.scenario.limits.polls);
        tokio::spawn(async move {
            // This is dropped last, and also when the task is aborted.
            let _finish = finish;
            let mut running = pin!(async { act(client).await });
            let running = poll_fn(|cx| {
                if sim.stands_still(actor, Part::Main, cx.waker()) {
                    return Poll::Pending;
                }
                let at = sim.now();
                if !sim.state().may_poll(at, actor, polls_max) {
                    return Poll::Pending;
                }
                sim.state().recorder.client_ran(actor);
                sim.observes(actor, String::new);
                let poll = sim.quiescence.running(actor, || panics::within(|| running.as_mut().poll(cx)));
                poll.map_or_else(|panic| Poll::Ready(Err(panic)), |poll| poll.map(Ok))
            });
            match running.await {
                Ok(Ok(result)) => done(result),
                Ok(Err(error)) => {
                    let error = error.to_string();
                    let got_fault_error = sim.state().got_fault_error(actor);
                    sim.record(if got_fault_error {
                        EventKind::GaveUp { actor, error }
                    } else {
                        EventKind::Failed { actor, error }
                    });
                }
                Err(panic) => {
                    sim.record(EventKind::Failed { actor, error: format!("its code panicked: {panic}") });
                }
            }
        })
        .abort_handle()
    }

    /// Counts the tasks of the actors besides their own. If it is not clear whose task came, any
    /// actor may own it. If it is not clear whose task went, no actor lost one.
    pub(super) fn count_tasks(&self) {
        let mut state = self.sim.state();
        let runs = |actor: &&ActorState| actor.is_started && !actor.is_finished && !actor.is_crashed;
        let own = state.actors.iter().filter(runs).count();
        let spawned = tokio::runtime::Handle::current().metrics().num_alive_tasks().saturating_sub(own);
        let known = std::mem::replace(&mut state.spawned, spawned);
        let moved = state.history().footprints.last().map_or(0, |footprint| footprint.actors);
        for (nth, actor) in state.actors.iter_mut().enumerate() {
            let may_be_its = moved == 0 || moved >> nth & 1 == 1;
            if spawned == 0 {
                actor.spawned = 0;
            } else if moved == 1 << nth || spawned > known && may_be_its {
                actor.spawned = (actor.spawned + spawned).saturating_sub(known);
            }
        }
    }

    /// Records the panics of tasks that actors spawned. If it is not clear whose task it was, an
    /// actor is named that has tasks.
    pub(super) fn note_panics(&self) {
        for text in panics::take() {
            let mut state = self.sim.state();
            let moved = state.history().footprints.last().map_or(0, |footprint| footprint.actors);
            let ran = |actor: &&ActorState| moved >> actor.actor.0 & 1 == 1;
            let actors = || state.actors.iter().filter(|actor| actor.is_started);
            let owner = actors().find(ran).or_else(|| actors().max_by_key(|actor| actor.spawned));
            let actor = owner.map_or(Actor(0), |owner| owner.actor);
            let error = format!("a task that it spawned panicked: {text}");
            state.record(self.sim.now(), EventKind::Failed { actor, error });
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
        let mut state = self.sim.state();
        let idx = state.idx(self.actor);
        state.actors[idx].is_finished = true;
        if !state.actors[idx].is_crashed {
            state.note_end(self.sim.now(), self.actor);
        }
        self.sim.quiescence.note_activity();
    }
}
