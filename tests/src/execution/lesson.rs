//! Lessons for learned clients. If a client reaches a state in which it has not been seen, its code
//! runs alone, and is told what the client was told. No server and no other client takes part.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use emulator::Emulator;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;

use super::runner::{PARKS_MAX, build_runtime};
use super::{Choice, Execution, Policy, panics};
use crate::actor::Actor;
use crate::schedule::Step;
use crate::sim::{
    ActorState, Clients, Key, Lack, Learned, Quiescence, Recording, Server, Simulation, TIMER_MAX, Telling,
    Told, Unknown,
};
use crate::trace::History;

/// Most lessons in one execution. Each tells all that was told before, so that many take longer
/// than to run the execution with the code of all clients.
const LESSONS_MAX: usize = 8;

/// The runtime on which the tasks of clients run, and the lessons that were given there.
pub(super) struct Lessons {
    runtime: RefCell<Runtime>,
    pub(super) quiescence: Arc<Quiescence>,
    /// Nothing runs there.
    emulator: Emulator,
    given: RefCell<BTreeSet<Lesson>>,
}

/// The state of a client, the time, and whether the turn of the client begins.
type Lesson = (Key, Duration, bool);

impl Default for Lessons {
    fn default() -> Lessons {
        let quiescence = Arc::new(Quiescence::default());
        let runtime = RefCell::new(build_runtime(quiescence.clone()));
        Lessons { runtime, quiescence, emulator: Emulator::new(), given: RefCell::default() }
    }
}

impl Lessons {
    /// Forgets which lessons were given: what they taught is forgotten, too.
    pub(super) fn forget(&self) {
        self.given.borrow_mut().clear();
    }

    /// Runs tasks until this resolves, and ends those that were aborted then.
    pub(super) fn block_on<R>(&self, running: impl Future<Output = R>) -> R {
        let mut runtime = self.runtime.borrow_mut();
        let result = runtime.block_on(running);
        // Tasks of one execution must not run in the next.
        if runtime.metrics().num_alive_tasks() > 0 {
            runtime.block_on(tokio::task::yield_now());
        }
        if runtime.metrics().num_alive_tasks() > 0 {
            *runtime = build_runtime(self.quiescence.clone());
        }
        result
    }
}

impl Execution<'_> {
    /// Lets learned clients act. If a client reaches a state in which it has not been seen, it has
    /// a lesson. If that does not help, the execution ends.
    pub(super) fn as_far_as_known(&self, act: impl Fn() -> Result<(), Unknown>) {
        while let Err(Unknown(actor)) = act() {
            if !self.teach(actor) {
                return self.sim.stop(Lack::UnknownState);
            }
        }
    }

    /// Learns what an actor does in its turn, if that is to come, and when its next timer fires.
    /// Returns `false` if there is no such lesson, or if it was given before.
    pub(super) fn teach(&self, actor: Actor) -> bool {
        let Clients::Learned(learned) = &self.sim.clients else { return false };
        let (key, is_awake) = (self.sim.key(actor), self.sim.state().woken.contains(&actor));
        let lesson = (key, self.sim.now(), is_awake);
        if self.n_lessons.get() == LESSONS_MAX || !self.lessons.given.borrow_mut().insert(lesson) {
            return false;
        }
        self.n_lessons.update(|given| given + 1);
        let activity = self.sim.quiescence.activity();
        let is_taught = self.lessons.block_on(self.give(learned, lesson));
        self.sim.quiescence.set_activity(activity);
        if !panics::take().is_empty() {
            learned.unlearn(&[key.0]);
        }
        is_taught && learned.are_clients_learnable(&[key.0])
    }

    async fn give(&self, learned: &Learned, lesson: Lesson) -> bool {
        let Lessons { quiescence, emulator, .. } = self.lessons;
        let Simulation { config, timers, servers, .. } = &*self.sim;
        let servers = servers.iter().map(|_| Server::Emulator(emulator.clone())).collect();
        let clients = Clients::Teachers(learned.clone());
        let (config, timers) = (config.clone(), timers.clone());
        let sim =
            Simulation::new(servers, quiescence.clone(), config, Recording::Lean, timers, clients, None);
        let mut alone = Execution {
            scenario: self.scenario,
            policy: &mut NoPolicy,
            sim,
            tasks: Vec::new(),
            prepared: &mut None,
            kinds: Vec::new(),
            parks_max: quiescence.parks() + PARKS_MAX,
            lessons: self.lessons,
            n_lessons: Cell::new(0),
        };
        let is_taught = alone.attend(lesson, &learned.tellings(lesson.0.2)).await;
        alone.sim.state().is_running = false;
        alone.tasks.iter().flatten().for_each(AbortHandle::abort);
        is_taught
    }

    /// Tells a client what it was told in an execution. Then its turn begins, if it is awake, and
    /// its next timer fires. Returns whether the client has reached the state of the execution.
    async fn attend(&mut self, ((_, actor, goal), now, is_awake): Lesson, tellings: &[Telling]) -> bool {
        self.sim.state().is_running = true;
        if actor.0 >= self.scenario.actors.len() {
            self.sim.state().actors.push(ActorState::new(actor));
        }
        for Telling { before, at, told } in tellings {
            // Some of it a client tells itself in its turn.
            if self.sim.key(actor).2 == *before {
                self.tell(actor, *at, told).await;
            }
        }
        // The turn of a client whose tasks run on has begun by itself.
        if is_awake && self.sim.key(actor).2 == goal {
            self.tell(actor, now, &Told::Turn).await;
        }
        let state = if is_awake { goal.in_turn(now) } else { goal };
        if self.sim.key(actor).2 != state {
            return false;
        }
        let has_timer = self.advance_until_a_timer(TIMER_MAX).await;
        if let Some(timers) = &self.sim.timers {
            timers.insert(actor, state, has_timer);
        }
        true
    }

    /// Tells a client this at this time. Its process stands still until its turn begins, unless it
    /// has tasks that would run on.
    async fn tell(&mut self, actor: Actor, at: Duration, told: &Told) {
        let ActorState { is_started, spawned, .. } = *self.sim.state().actor(actor);
        let stands_still = is_started && spawned == 0;
        if stands_still {
            self.sim.pause(actor);
        }
        let away = at.saturating_sub(self.sim.now());
        if !away.is_zero() {
            self.advance(away).await;
        }
        match told {
            Told::Turn if !is_started => self.begin_alone(actor).await,
            Told::Turn => self.resume(actor).await,
            _ => {
                self.sim.tell_again(actor, told);
                if !stands_still {
                    self.quiesce().await;
                }
            }
        }
    }

    async fn begin_alone(&mut self, actor: Actor) {
        if actor.0 < self.scenario.actors.len() {
            return self.start(actor).await;
        }
        self.sim.state().actor(actor).is_started = true;
        if let Some((_, probe)) = &self.scenario.probe {
            let task = self.spawn(actor, probe, |is_granted| is_granted);
            self.tasks.push(task);
            self.quiesce().await;
        }
    }
}

/// A client that runs alone has no choice.
struct NoPolicy;

impl Policy for NoPolicy {
    fn choose(&mut self, _: &[Step], _: &History) -> Choice {
        Choice::Abort
    }
}
