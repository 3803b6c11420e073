//! Lessons for learned clients. If a client reaches a state in which it has not been seen, its code
//! runs alone, and is told what the client was told. No server and no other client takes part.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::AbortHandle;

use super::runner::{PARKS_MAX, build_runtime};
use super::tasks::spawn;
use super::{Execution, panics};
use crate::actor::Actor;
use crate::live::{Act, Begun, Live, Noticed, Quiescence, Telling, Told, Turn, tasks};
use crate::scenario::Scenario;
use crate::sim::{Clients, CodeId, Key, Lack, Learned, START, Simulation, TIMER_MAX, Timer, Unknown};
use crate::trace::LocalState;

/// Most lessons in one execution. Each tells all that was told before, so that many take longer
/// than to run the execution with the code of all clients.
const LESSONS_MAX: usize = 8;

/// The runtime on which the tasks of clients run, and the lessons that were given there.
pub(super) struct Lessons {
    pub(super) runtime: Arc<Runtime>,
    pub(super) quiescence: Arc<Quiescence>,
    given: BTreeSet<Lesson>,
}

/// The state of a client, the time, and whether the turn of the client begins.
type Lesson = (Key, Duration, bool);

impl Default for Lessons {
    fn default() -> Lessons {
        let quiescence = Arc::new(Quiescence::default());
        let runtime = Arc::new(build_runtime(quiescence.clone()));
        Lessons { runtime, quiescence, given: BTreeSet::new() }
    }
}

impl Lessons {
    /// Forgets which lessons were given: what they taught is forgotten, too.
    pub(super) fn forget(&mut self) {
        self.given.clear();
    }

    /// Ends the tasks that were aborted. Tasks of one execution must not run in the next.
    pub(super) fn end_tasks(&mut self) {
        if self.runtime.metrics().num_alive_tasks() > 0 {
            self.runtime.block_on(tokio::task::yield_now());
        }
        if self.runtime.metrics().num_alive_tasks() > 0 {
            self.runtime = Arc::new(build_runtime(self.quiescence.clone()));
        }
    }
}

impl Execution<'_> {
    /// Lets learned clients act. If a client reaches a state in which it has not been seen, it has
    /// a lesson. If that does not help, the execution ends.
    pub(super) fn as_far_as_known(&mut self, act: impl Fn(&mut Simulation) -> Result<(), Unknown>) {
        while let Err(Unknown(actor)) = act(&mut self.sim) {
            if !self.teach(actor) {
                return self.sim.world.stop(Lack::UnknownState);
            }
        }
    }

    /// Learns what an actor does in its turn, if that is to come, and when its next timer fires.
    /// Returns `false` if there is no such lesson, or if it was given before.
    pub(super) fn teach(&mut self, actor: Actor) -> bool {
        let Clients::Learned(learned) = &self.sim.clients else { return false };
        let learned = learned.clone();
        let (key, is_awake) = (self.sim.key(actor), self.sim.world.woken.contains(&actor));
        let lesson = (key, self.sim.world.now, is_awake);
        if self.n_lessons == LESSONS_MAX || !self.lessons.given.insert(lesson) {
            return false;
        }
        self.n_lessons += 1;
        let runtime = self.lessons.runtime.clone();
        let entered = runtime.enter();
        let is_taught = self.give(&learned, lesson);
        drop(entered);
        self.lessons.end_tasks();
        if !panics::take().is_empty() {
            learned.unlearn(&[key.0]);
        }
        is_taught && learned.are_clients_learnable(&[key.0])
    }

    fn give(&mut self, learned: &Learned, (key, now, is_awake): Lesson) -> bool {
        let (code, actor, goal) = key;
        let Simulation { config, timers, .. } = &*self.sim;
        let Lessons { runtime, quiescence, .. } = self.lessons;
        let live = Live::new(runtime, quiescence.clone(), config.terms.clone(), START);
        let parks_max = live.quiescence.parks() + PARKS_MAX;
        let (scenario, state) = (self.scenario, LocalState::default());
        let mut pupil = Pupil {
            scenario,
            live,
            learned,
            code,
            actor,
            state,
            task: None,
            is_running: false,
            tasks: 0,
            parks_max,
        };
        for telling in learned.tellings(goal) {
            pupil.attend(&telling);
        }
        // The turn of a client whose tasks run on has begun by itself.
        if is_awake && pupil.state == goal {
            pupil.begin_turn(now);
        }
        let state = if is_awake { goal.in_turn(now) } else { goal };
        let is_taught = pupil.state == state;
        if is_taught {
            let has_timer = pupil.await_activity();
            if let Some(timers) = timers {
                timers.insert(actor, state, has_timer);
            }
        }
        pupil.task.iter().for_each(AbortHandle::abort);
        is_taught
    }
}

/// A client whose code runs alone, and is told what it was told in an execution.
struct Pupil<'a> {
    scenario: &'a Scenario,
    live: Arc<Live>,
    learned: &'a Learned,
    code: CodeId,
    actor: Actor,
    state: LocalState,
    task: Option<AbortHandle>,
    /// Its own code runs.
    is_running: bool,
    /// The number of its tasks besides its own.
    tasks: usize,
    parks_max: u64,
}

impl Pupil<'_> {
    /// Tells the client what it was told. Its process stands still until its turn begins, unless
    /// it has tasks that would run on.
    fn attend(&mut self, Telling { before, at, told, after }: &Telling) {
        // The turn of a client whose tasks run on has begun by itself.
        if self.state != *before {
            return;
        }
        if let Told::Turn = told {
            return self.begin_turn(*at);
        }
        self.stand_still_until(*at);
        let is_told = self.live.deliver(self.actor, told);
        if is_told && self.state == *before {
            self.state = *after;
        }
        if self.tasks > 0 {
            self.run();
        }
    }

    fn begin_turn(&mut self, at: Duration) {
        let before = self.state;
        self.stand_still_until(at);
        if self.state != before {
            return;
        }
        if self.task.is_none() {
            let (client, polls_max) = (self.live.client(self.actor), self.scenario.limits.polls);
            let own = self
                .scenario
                .actors
                .get(self.actor.0)
                .map(|act| spawn(client.clone(), act, |()| true, polls_max));
            let probe = || {
                let (_, probe) = self.scenario.probe.as_ref()?;
                Some(spawn(client.clone(), probe, |is_granted| is_granted, polls_max))
            };
            self.task = own.or_else(probe);
            self.is_running = true;
        }
        self.live.resume(self.actor);
        self.run();
    }

    /// Moves time to this, while the process stands still.
    fn stand_still_until(&mut self, at: Duration) {
        if self.task.is_some() && self.tasks == 0 {
            self.live.pause(self.actor);
        }
        if at > self.live.now() {
            while !self.move_time(at) {}
        }
    }

    /// Moves time to this, or to the next turn. Returns whether it is there, or moves no more.
    fn move_time(&mut self, until: Duration) -> bool {
        let is_there = self.live.move_time(until, self.parks_max);
        self.learn();
        is_there || self.is_over()
    }

    /// Whether the lesson has taken too long.
    fn is_over(&self) -> bool {
        self.live.quiescence.parks() >= self.parks_max || self.live.quiescence.is_expired()
    }

    /// Lets the code run as far as it can.
    fn run(&mut self) {
        self.live.run();
        self.learn();
    }

    /// Waits until a timer makes the client do something that its execution has to handle. Returns
    /// whether one does.
    fn await_activity(&mut self) -> bool {
        loop {
            let is_there = self.live.move_time(self.live.now() + TIMER_MAX, self.parks_max);
            if self.learn() {
                return true;
            }
            if is_there || self.is_over() {
                self.learned.learn_timer(self.key(), Timer::NotBefore(self.live.now()));
                return false;
            }
        }
    }

    fn key(&self) -> Key {
        (self.code, self.actor, self.state)
    }

    /// Learns what the client has just done. Returns whether an execution has to handle that.
    fn learn(&mut self) -> bool {
        let mut is_activity = false;
        let is_running = self.is_running;
        for Noticed { actor, fired, is_sharing, begun, .. } in self.live.take_noticed(|_| is_running) {
            fired.into_iter().for_each(|at| self.learned.learn_timer(self.key(), Timer::At(at)));
            if is_sharing || actor != self.actor {
                self.learned.note_sharing(self.code);
            }
            let Some(Begun { turn, .. }) = begun.filter(|_| actor == self.actor) else { continue };
            self.is_running &= !turn.acts.iter().any(|act| matches!(act, Act::End(_)));
            is_activity |= turn.acts.iter().any(Act::is_activity);
            let now = tasks().saturating_sub(usize::from(self.is_running));
            let more = now.cast_signed() - std::mem::replace(&mut self.tasks, now).cast_signed();
            self.state = self.state.in_turn(self.live.now());
            self.learned.learn(self.key(), Turn { tasks: more, ..turn });
        }
        is_activity
    }
}
