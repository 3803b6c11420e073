//! Time moves in an execution: by a span, or until a timer of a client fires.

use std::time::Duration;

use super::run::Execution;
use crate::live::Moved;
use crate::schedule::SPAN_MAX;
use crate::sim::{Clients, Passage, Simulation, TIMER_MAX, Tries};

impl Execution<'_> {
    /// Moves time by `span`. Requests that timers make clients send meanwhile wait at their gates.
    pub(super) fn advance(&mut self, span: Duration) {
        let before = self.sim.world.now;
        self.move_time(before + span.min(SPAN_MAX), false);
        self.advanced(before);
    }

    /// Lets time pass until a timer fires. If clients try again and again in vain, time passes at
    /// most until something changes. Replies to such tries are in time.
    pub(super) fn wait(&mut self, retrying: &[Tries], change: Option<Duration>) {
        const JUST_BEFORE: Duration = Duration::from_millis(1);
        self.sim.pause_until_replies(retrying.iter().map(|tries| tries.actor));
        let before = change.map(|change| change.saturating_sub(JUST_BEFORE));
        let left = self.sim.world.time_left(self.scenario.lease_max()).unwrap_or(TIMER_MAX);
        let has_fired = self.advance_until_a_timer(before.unwrap_or(TIMER_MAX).min(left));
        if !has_fired && change.is_none() {
            return self.sim.world.note_wait_in_vain(retrying);
        }
        // A lease counts from the last request, which was made before the wait.
        self.try_again(retrying);
        if let Some((change, before)) = change.zip(before).filter(|_| !has_fired) {
            self.advance_until_a_timer(change - before);
        }
    }

    /// Lets each of these clients try once more, as far as they still try.
    fn try_again(&mut self, retrying: &[Tries]) {
        for tries in retrying {
            let commands = if self.sim.world.still_tries(tries) { tries.commands } else { 0 };
            for _ in 0..commands {
                if let [connection] = self.waiting_connections(tries.actor)[..] {
                    self.let_through(tries.actor, connection, Passage::default());
                }
            }
        }
    }

    /// Moves time by `span`, or until a timer of a client makes it act. If a server tells a client
    /// that a key has ended, that counts as one. Returns whether one did.
    pub(super) fn advance_until_a_timer(&mut self, span: Duration) -> bool {
        let before = self.sim.world.now;
        let until = before + span;
        let activity = self.sim.world.activity;
        let has_fired = loop {
            let stop = self.sim.next_event().map_or(until, |after| (self.sim.world.now + after).min(until));
            let has_fired = self.move_time(stop, true);
            if has_fired || stop == until || self.sim.world.now < stop {
                break has_fired;
            }
            self.sim.tick();
            if self.sim.world.activity != activity {
                break true;
            }
        };
        if has_fired {
            self.sim.world.recorder.timer_fired();
        }
        self.advanced(before);
        has_fired
    }

    /// Moves time. If it `stops`, at most until a client acts or a command that waits on its server
    /// times out. Returns whether that happened.
    fn move_time(&mut self, until: Duration, stops: bool) -> bool {
        self.sim.world.record_calls_with_clock_read();
        let before = self.sim.world.activity;
        loop {
            let timeout = self.sim.next_timeout().map(|after| self.sim.world.now + after);
            let stop = timeout.map_or(until, |timeout| timeout.min(until));
            let has_acted = self.move_clients(stop, stops, before);
            if stops && has_acted || self.sim.world.now < stop {
                return has_acted;
            }
            if timeout == Some(stop) {
                self.sim.tick();
                self.quiesce();
            }
            if stop == until || stops && self.sim.world.activity != before {
                return self.sim.world.activity != before;
            }
        }
    }

    /// Moves time while nothing happens on servers. If it `stops`, at most until the activity is no
    /// longer what it was `before`. Returns whether it is not.
    fn move_clients(&mut self, until: Duration, stops: bool, before: u64) -> bool {
        let has_acted = |sim: &Simulation| sim.world.activity != before;
        if let Clients::Learned(_) = &self.sim.clients {
            let stops_at = stops.then_some(before);
            let polls_max = self.scenario.limits.polls;
            self.as_far_as_known(|sim| sim.move_learned(until, stops_at, polls_max));
        }
        let Some(code) = self.sim.code.clone() else { return has_acted(&self.sim) };
        loop {
            let moved = code.move_time(until);
            self.sim.follow_time();
            if self.sim.perform_turns(self.scenario.limits.polls) {
                self.quiesce();
            }
            let is_over = moved != Moved::UntilAct || code.is_expired() || self.sim.world.cut.is_some();
            if is_over || stops && has_acted(&self.sim) {
                return has_acted(&self.sim);
            }
        }
    }

    /// To be called when time has moved.
    fn advanced(&mut self, before: Duration) {
        self.sim.learn_timers();
        self.sim.tick();
        self.quiesce();
        self.sim.world.recorder.time_moved();
        self.sim.advanced(self.sim.world.now - before);
    }
}
