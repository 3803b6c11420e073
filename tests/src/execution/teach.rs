//! When a learned client has a lesson.

use std::sync::Arc;

use super::lesson::{Lesson, Pupil};
use super::run::Execution;
use crate::actor::Actor;
use crate::live::take_panics;
use crate::memo::Memory;
use crate::sim::{Clients, Lack, START, Simulation, Unknown};
use crate::trace::LocalState;

/// Most lessons in one execution. Each tells all that was told before, so that many take longer
/// than to run the execution with the code of all clients.
const LESSONS_MAX: usize = 8;

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
        let runtime = self.lessons.runtime.get();
        let entered = runtime.enter();
        let is_taught = self.give(&learned, lesson);
        drop(entered);
        self.lessons.runtime.end_tasks();
        if !take_panics().is_empty() {
            learned.unlearn(&[key.0]);
        }
        is_taught && learned.are_clients_learnable(&[key.0])
    }

    fn give(&mut self, learned: &Memory, (key, now, is_awake): Lesson) -> bool {
        let (code, actor, goal) = key;
        let Simulation { config, timers, .. } = &*self.sim;
        let live = self.lessons.runtime.clients(config.terms.clone(), START);
        let (scenario, ended) = (self.scenario, Arc::new(self.sim.world.ended()));
        let state = match actor.as_final() {
            Some(_) => LocalState::told_of(&ended),
            None => LocalState::default(),
        };
        let mut pupil = Pupil {
            scenario,
            live,
            learned,
            code,
            actor,
            state,
            ended,
            has_started: false,
            is_running: false,
            tasks: 0,
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
        pupil.live.end_all();
        is_taught
    }
}
