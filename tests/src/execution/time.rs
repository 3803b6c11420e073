//! Time moves in an execution: by a span, or until a timer of a client fires.

use std::time::Duration;

use super::Execution;
use crate::schedule::SPAN_MAX;
use crate::sim::{Clients, Passage, TIMER_MAX, Tries};

impl Execution<'_> {
    /// Moves time by `span`. Requests that timers make clients send meanwhile wait at their gates.
    pub(super) async fn advance(&self, span: Duration) {
        let before = self.sim.now();
        self.move_time(before + span.min(SPAN_MAX), false).await;
        self.advanced(before);
    }

    /// Lets time pass until a timer fires. If clients try again and again in vain, time passes at
    /// most until something changes. Replies to such tries are in time.
    pub(super) async fn wait(&self, retrying: &[Tries], change: Option<Duration>) {
        const JUST_BEFORE: Duration = Duration::from_millis(1);
        self.sim.pause_until_replies(retrying.iter().map(|tries| tries.actor));
        let before = change.map(|change| change.saturating_sub(JUST_BEFORE));
        let has_fired = self.advance_until_a_timer(before.unwrap_or(TIMER_MAX)).await;
        if !has_fired && change.is_none() {
            return self.sim.state().note_wait_in_vain(retrying);
        }
        // A lease counts from the last request, which was made before the wait.
        self.try_again(retrying).await;
        if let Some((change, before)) = change.zip(before).filter(|_| !has_fired) {
            self.advance_until_a_timer(change - before).await;
        }
    }

    /// Lets each of these clients try once more, as far as they still try.
    async fn try_again(&self, retrying: &[Tries]) {
        for tries in retrying.iter().filter(|tries| self.sim.state().still_tries(tries)) {
            for _ in 0..tries.commands {
                if let [connection] = self.waiting_connections(tries.actor)[..] {
                    self.let_through(tries.actor, connection, Passage::default()).await;
                }
            }
        }
    }

    /// Moves time by `span`, or until a timer of a client makes it act. Returns whether one did.
    pub(super) async fn advance_until_a_timer(&self, span: Duration) -> bool {
        let before = self.sim.now();
        let has_fired = self.move_time(before + span, true).await;
        if has_fired {
            self.sim.state().recorder.timer_fired();
        }
        self.advanced(before);
        has_fired
    }

    /// Moves time. If it `stops`, at most until a client acts. Returns whether one did.
    async fn move_time(&self, until: Duration, stops: bool) -> bool {
        let before = self.sim.quiescence.activity();
        let has_acted = || self.sim.quiescence.activity() != before;
        if let Clients::Learned(learned) = &self.sim.clients {
            let stops_at = stops.then_some(before);
            let polls_max = self.scenario.limits.polls;
            self.as_far_as_known(|| self.sim.move_learned(learned, until, stops_at, polls_max));
        }
        let Some(live) = &self.sim.live else { return has_acted() };
        loop {
            let is_there = live.move_time(until, self.parks_max).await;
            if self.sim.perform_turns(self.scenario.limits.polls) {
                self.quiesce().await;
            }
            let is_over = self.sim.quiescence.parks() >= self.parks_max
                || self.sim.quiescence.is_expired()
                || self.sim.state().is_endless;
            if is_there || is_over || stops && has_acted() {
                return has_acted();
            }
        }
    }

    /// To be called when time has moved.
    fn advanced(&self, before: Duration) {
        self.sim.learn_timers();
        self.sim.tick();
        self.sim.state().recorder.time_moved();
        self.sim.advanced(self.sim.now() - before);
    }
}
