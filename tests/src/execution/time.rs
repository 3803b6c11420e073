//! Time moves in an execution: by a span, or until a timer of a client fires.

use std::time::Duration;

use super::Execution;
use crate::schedule::SPAN_MAX;
use crate::sim::{Clients, Passage, TIMER_MAX, Tries};

impl Execution<'_> {
    /// Moves time by `span`. Requests that timers make clients send meanwhile wait at their gates.
    pub(super) async fn advance(&self, span: Duration) {
        let before = self.sim.now();
        if self.move_learned(span.min(SPAN_MAX), false).is_some() {
            return self.advanced(before);
        }
        self.sim.unfreeze_time();
        tokio::select! {
            biased;
            () = self.sim.quiescence.wait_for_parks(self.parks_max) => {}
            () = tokio::time::sleep_until(self.sim.instant(before + span.min(SPAN_MAX))) => {}
        }
        self.quiesce().await;
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
        let (before, activity) = (self.sim.now(), self.sim.quiescence.activity());
        if let Some(has_fired) = self.move_learned(span, true) {
            if has_fired {
                self.sim.state().recorder.timer_fired();
            }
            self.advanced(before);
            return has_fired;
        }
        self.sim.unfreeze_time();
        let is_over = {
            // If the driver sleeps too, the runtime moves its paused clock from timer to timer.
            let over = tokio::time::sleep_until(self.sim.instant(before + span));
            tokio::select! {
                biased;
                () = self.sim.quiescence.wait_for_activity(activity, self.parks_max) => false,
                () = over => true,
            }
        };
        if is_over {
            self.quiesce().await;
        }
        let has_fired = self.sim.quiescence.activity() != activity;
        if has_fired {
            self.sim.state().recorder.timer_fired();
        }
        self.advanced(before);
        has_fired
    }

    /// Moves time, if clients are learned. Returns whether one acted.
    fn move_learned(&self, span: Duration, stops: bool) -> Option<bool> {
        let Clients::Learned(learned) = &self.sim.clients else { return None };
        let (until, polls_max) = (self.sim.now() + span, self.scenario.limits.polls);
        let before = self.sim.quiescence.activity();
        let stops_at = stops.then_some(before);
        self.as_far_as_known(|| self.sim.move_learned(learned, until, stops_at, polls_max));
        Some(self.sim.quiescence.activity() != before)
    }

    /// To be called when time has moved.
    fn advanced(&self, before: Duration) {
        self.sim.freeze_time();
        self.sim.learn_timers();
        self.sim.tick();
        self.sim.state().recorder.time_moved();
        self.sim.advanced(self.sim.now() - before);
    }
}
