//! The end of an execution: no more faults strike, every client must come to its end, and fresh
//! clients probe. No policy chooses these steps, and oracles judge them later.

use super::run::Execution;
use crate::actor::{ACTORS_MAX, Actor};
use crate::scenario::Act;
use crate::schedule::Step;
use crate::sim::{ActorState, GRACE, Gate, Life, Passage, TIMER_MAX, World};
use crate::trace::EventKind;

impl Execution<'_> {
    /// Ends an execution without further faults. Every client runs to its end, in turns. If a
    /// client crashed, a message was lost or an operation was cancelled, a lease passes. Then fresh
    /// clients probe.
    pub(super) fn heal(&mut self) {
        self.resume_all();
        loop {
            let active = self.active();
            let mut has_moved = false;
            while let Some((actor, connection)) = self.late() {
                self.take(Step::Late(actor, connection));
                has_moved = true;
            }
            if active.is_empty() {
                break;
            }
            for &actor in &active {
                for connection in self.connections(actor, Gate::awaits_reply) {
                    self.take(Step::Receive(actor, connection));
                    has_moved = true;
                }
                if !self.sim.world.retries(actor) {
                    has_moved |= self.run_requests(actor);
                }
            }
            if self.is_cut() {
                return;
            }
            if !has_moved && !self.wait_or_retry(&active) {
                active.into_iter().for_each(|actor| self.sim.world.record(EventKind::Stuck { actor }));
                return;
            }
        }
        self.probe();
    }

    /// Lets fresh clients probe: they must get everything.
    fn probe(&mut self) {
        let Some((wanted, probe)) = &self.scenario.probe else { return };
        if let Some(away) = self.sim.outage() {
            self.advance(away);
        }
        // No client can release what a crash, a lost message or a cancellation left.
        let seen = self.sim.world.history().reached;
        let after_lease = seen.crash || seen.lost || seen.cancel;
        if after_lease {
            self.let_a_lease_pass();
        }
        let before = self.sim.before_probes(*wanted, after_lease);
        if before.as_ref().is_some_and(|before| self.sim.repeat_probes(before)) {
            return;
        }
        let so_far = self.sim.begin_probes();
        let mut granted = 0;
        for n in 1..=*wanted {
            let before = self.sim.world.now;
            // A guard that the code drops at its end must not give its grant to the next client.
            let is_granted = self
                .run_alone(ACTORS_MAX + n as usize, probe, |is_granted| is_granted, World::runs)
                .unwrap_or(false);
            // A grant that is free is granted at once, without waiting.
            granted += u32::from(is_granted && (after_lease || self.sim.world.now == before));
        }
        self.sim.world.record(EventKind::Probed { granted, wanted: *wanted, after_lease });
        self.sim.end_probes(before, so_far);
    }

    /// A lease and some grace pass. Tasks that clients have left behind go on meanwhile.
    fn let_a_lease_pass(&mut self) {
        let until = self.sim.world.now + self.scenario.lease_max() + GRACE;
        while self.advance_until_a_timer(until.saturating_sub(self.sim.world.now)) && !self.is_cut() {
            // A reply may make a task send more.
            while self.let_all_through() && !self.is_cut() {}
        }
    }

    /// Lets the requests through that wait. Returns whether there were any.
    fn let_all_through(&mut self) -> bool {
        let mut has_moved = false;
        for actor in self.active() {
            for connection in self.waiting_connections(actor) {
                self.let_through(actor, connection, Passage::default());
                has_moved = true;
            }
        }
        has_moved
    }

    /// Runs the requests of an actor that wait. Returns whether there were any.
    fn run_requests(&mut self, actor: Actor) -> bool {
        let waiting = self.waiting_connections(actor);
        for &connection in &waiting {
            self.take(Step::Run(actor, connection));
        }
        !waiting.is_empty()
    }

    /// Nothing is to be done but to let time pass, or to try once more what has not changed.
    /// Returns whether something happened.
    fn wait_or_retry(&mut self, active: &[Actor]) -> bool {
        let retrying = self.sim.world.retrying();
        let change = self.sim.next_change(&retrying);
        let may_sleep = retrying.len() < active.len() || !self.sim.world.have_waited_in_vain(&retrying);
        if change.is_some() || may_sleep {
            self.take(Step::Wait);
            if self.sim.world.has_timer_fired() {
                return true;
            }
        }
        for tries in &retrying {
            self.run_requests(tries.actor);
        }
        !retrying.is_empty()
    }

    /// Runs an actor while nothing else moves, as long as `goes_on`. `None` if it failed or never
    /// ended.
    pub(super) fn run_alone<R: 'static>(
        &mut self,
        number: usize,
        act: &Act<R>,
        value: fn(R) -> bool,
        goes_on: fn(&World, Actor) -> bool,
    ) -> Option<bool> {
        let actor = Actor(number);
        let mut client = ActorState::new(actor);
        client.life = Life::Running;
        self.sim.world.actors.push(client);
        self.spawn(actor, act, value);
        self.quiesce();
        let mut waits = 0;
        while goes_on(&self.sim.world, actor) && !self.lessons.runtime.quiescence.is_expired() {
            let waiting = self.waiting_connections(actor);
            for &connection in &waiting {
                self.sim.world.actor(actor).polls = (0, 0);
                self.let_through(actor, connection, Passage::default());
            }
            if waiting.is_empty() {
                // The actor may sleep, and then go on by itself.
                waits += 1;
                if waits > self.scenario.limits.steps || !self.advance_until_a_timer(TIMER_MAX) {
                    break;
                }
            }
        }
        // If the time is over, that is recorded.
        self.is_cut();
        self.sim.code.iter().for_each(|code| code.end(actor));
        self.sim.drop_client(actor);
        match self.sim.world.actor(actor).life {
            Life::Ended(result) => result,
            Life::Unstarted | Life::Running | Life::Crashed => None,
        }
    }
}
