//! Lessons for learned clients. If a client reaches a state in which it has not been seen, its code
//! runs alone, and is told what the client was told. No server and no other client takes part.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::start::{judged_by, start};
use crate::actor::Actor;
use crate::live::{Act, Begun, Code as _, Live, Moved, Noticed, PausedRuntime, Telling, Told, Turn};
use crate::memo::{CodeId, Key, Memory, Timer};
use crate::scenario::Scenario;
use crate::sim::TIMER_MAX;
use crate::trace::{Ended, LocalState};

/// The runtime on which the code of clients runs, and the lessons that were given there.
#[derive(Default)]
pub(super) struct Lessons {
    pub(super) runtime: PausedRuntime,
    pub(super) given: BTreeSet<Lesson>,
}

/// The state of a client, the time, and whether the turn of the client begins.
pub(super) type Lesson = (Key, Duration, bool);

impl Lessons {
    /// Forgets which lessons were given: what they taught is forgotten, too.
    pub(super) fn forget(&mut self) {
        self.given.clear();
    }
}

/// A client whose code runs alone, and is told what it was told in an execution.
pub(super) struct Pupil<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) live: Arc<Live>,
    pub(super) learned: &'a Memory,
    pub(super) code: CodeId,
    pub(super) actor: Actor,
    pub(super) state: LocalState,
    /// How the actors have ended, for one that judges that.
    pub(super) ended: Arc<Ended>,
    pub(super) has_started: bool,
    /// Its own code runs.
    pub(super) is_running: bool,
    /// The number of its tasks besides its own.
    pub(super) tasks: usize,
}

impl Pupil<'_> {
    /// Tells the client what it was told. Its process stands still until its turn begins, unless
    /// it has tasks that would run on.
    pub(super) fn attend(&mut self, Telling { before, at, told, after }: &Telling) {
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

    pub(super) fn begin_turn(&mut self, at: Duration) {
        let before = self.state;
        self.stand_still_until(at);
        if self.state != before {
            return;
        }
        if !self.has_started {
            let (actor, polls_max) = (self.actor, self.scenario.limits.polls);
            let Scenario { actors, finals, probe, .. } = self.scenario;
            let judge = actor.as_final().and_then(|nth| finals.get(nth));
            match (actors.get(actor.0), judge, probe) {
                (Some(act), ..) => start(&self.live, actor, act, |()| true, polls_max),
                (None, Some(judge), _) => {
                    start(&self.live, actor, &judged_by(judge, &self.ended), |()| true, polls_max);
                }
                (None, None, Some((_, probe))) => {
                    start(&self.live, actor, probe, |is_granted| is_granted, polls_max);
                }
                (None, None, None) => {}
            }
            (self.has_started, self.is_running) = (true, true);
        }
        self.live.resume(self.actor);
        self.run();
    }

    /// Moves time to this, while the process stands still.
    fn stand_still_until(&mut self, at: Duration) {
        if self.has_started && self.tasks == 0 {
            self.live.pause(self.actor);
        }
        if at > self.live.now() {
            while !self.move_time(at) {}
        }
    }

    /// Moves time to this, or to the next turn. Returns whether it is there, or moves no more.
    fn move_time(&mut self, until: Duration) -> bool {
        let moved = self.live.move_time(until);
        self.learn();
        moved != Moved::UntilAct || self.live.is_expired()
    }

    /// Lets the code run as far as it can.
    fn run(&mut self) {
        self.live.run();
        self.learn();
    }

    /// Waits until a timer makes the client do something that its execution has to handle. Returns
    /// whether one does.
    pub(super) fn await_activity(&mut self) -> bool {
        loop {
            let moved = self.live.move_time(self.live.now() + TIMER_MAX);
            if self.learn() {
                return true;
            }
            if moved != Moved::UntilAct || self.live.is_expired() {
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
        for Noticed { actor, fired, is_sharing, begun, .. } in self.live.take_noticed(&|_| is_running) {
            fired.into_iter().for_each(|at| self.learned.learn_timer(self.key(), Timer::At(at)));
            if is_sharing || actor != self.actor {
                self.learned.note_sharing(self.code);
            }
            let Some(Begun { turn, .. }) = begun.filter(|_| actor == self.actor) else { continue };
            self.is_running &= !turn.acts.iter().any(|act| matches!(act, Act::End(_)));
            is_activity |= turn.acts.iter().any(Act::is_activity);
            let now = self.live.tasks().saturating_sub(usize::from(self.is_running));
            let more = now.cast_signed() - std::mem::replace(&mut self.tasks, now).cast_signed();
            self.state = self.state.in_turn(self.live.now());
            self.learned.learn(self.key(), Turn { tasks: more, ..turn });
        }
        is_activity
    }
}
