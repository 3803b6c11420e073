//! The end of an execution: no more faults strike, every client must come to its end, and fresh
//! clients probe. No policy chooses these steps, and oracles judge them later.

use super::{Execution, STEPS_MAX, TIMER_MAX};
use crate::actor::{ACTORS_MAX, Actor};
use crate::scenario::Act;
use crate::schedule::Step;
use crate::sim::{ActorState, GRACE, Gate};
use crate::trace::EventKind;

impl Execution<'_> {
    /// Ends an execution without further faults. Every client runs to its end, in turns. If a
    /// client crashed, a message was lost or an operation was cancelled, a lease passes. Then fresh
    /// clients must get everything.
    pub(super) async fn heal(&mut self) {
        for round in 0.. {
            let active = self.active();
            let mut has_moved = false;
            while let Some((actor, connection)) = self.late() {
                self.take(Step::Late(actor, connection)).await;
                has_moved = true;
            }
            if active.is_empty() {
                break;
            }
            for &actor in &active {
                for connection in self.connections(actor, Gate::awaits_reply) {
                    self.take(Step::Receive(actor, connection)).await;
                    has_moved = true;
                }
                for connection in self.waiting_connections(actor) {
                    self.take(Step::Run(actor, connection)).await;
                    has_moved = true;
                }
            }
            if round == STEPS_MAX || !has_moved && !self.advance_until_a_timer(TIMER_MAX).await {
                active.into_iter().for_each(|actor| self.sim.record(EventKind::Stuck { actor }));
                return;
            }
        }
        let Some((wanted, probe)) = &self.scenario.probe else { return };
        if let Some(away) = self.sim.outage() {
            self.advance(away).await;
        }
        // No client can release what a crash, a lost message or a cancellation left.
        let seen = self.sim.state().history().reached;
        let after_lease = seen.crash || seen.lost || seen.cancel;
        if after_lease {
            self.advance(self.scenario.lease_max() + GRACE).await;
        }
        let mut granted = 0;
        for n in 1..=*wanted {
            let before = self.sim.now();
            let is_granted = self.run_alone(ACTORS_MAX + n as usize, probe).await.unwrap_or(false);
            // A grant that is free is granted at once, without waiting.
            granted += u32::from(is_granted && (after_lease || self.sim.now() == before));
        }
        self.sim.record(EventKind::Probed { granted, wanted: *wanted, after_lease });
    }

    /// Runs an actor to its end while nothing else moves. `None` if it failed or never ended.
    pub(super) async fn run_alone<R: Send + 'static>(&self, number: usize, act: &Act<R>) -> Option<R> {
        let actor = Actor(number);
        let mut state = ActorState::new(actor);
        (state.is_started, state.is_alone) = (true, true);
        self.sim.state().actors.push(state);
        let (send, mut receive) = tokio::sync::oneshot::channel();
        let task = self.spawn(actor, act, |result| _ = send.send(result));
        self.sim.quiescence.wait().await;
        // The actor may sleep, and then go on by itself.
        for _ in 0..STEPS_MAX {
            if !self.sim.state().can_act(actor) || !self.advance_until_a_timer(TIMER_MAX).await {
                break;
            }
        }
        task.abort();
        receive.try_recv().ok()
    }
}
