//! The end of an execution: no more faults strike, every client must come to its end, and fresh
//! clients judge the end and probe. No policy chooses these steps, and oracles judge them later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::run::Execution;
use super::start::judged_by;
use crate::actor::{ACTORS_MAX, Actor};
use crate::scenario::{Act, Judge};
use crate::schedule::Step;
use crate::sim::{ActorState, Gate, Life, Passage, TIMER_MAX, World};
use crate::trace::{EventKind, LocalState};

impl Execution<'_> {
    /// Ends an execution without further faults. Every client runs to its end, in turns. If a
    /// client crashed, a message was lost or an operation was cancelled, a lease passes. Then fresh
    /// clients judge the end and probe.
    pub(super) fn heal(&mut self) {
        self.resume_all();
        if self.sim.heal_replication() {
            self.quiesce();
        }
        while let Some(end) = self.sim.world.next_end_of_move() {
            self.take(Step::Fault(end));
        }
        loop {
            let active = self.active();
            let mut has_moved = false;
            while let Some((actor, connection)) = self.late() {
                self.take(Step::Late(actor, connection));
                has_moved = true;
            }
            self.sim.world.note_evening();
            if active.is_empty() || self.sim.world.do_services_rest(self.scenario.lease_max()) {
                break;
            }
            for &actor in &active {
                for connection in self.connections(actor, Gate::receives) {
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
                let mut stuck = active;
                stuck.retain(|&actor| !self.sim.world.actor(actor).is_service);
                if stuck.is_empty() {
                    break;
                }
                stuck.into_iter().for_each(|actor| self.sim.world.record(EventKind::Stuck { actor }));
                return;
            }
        }
        let has_all = self.sim.world.actors.iter().all(|client| client.life != Life::Unstarted);
        let finals: &[Judge] = match self.scenario.is_part() || !has_all {
            true => &[],
            false => &self.scenario.finals,
        };
        let is_judged = has_all && !self.scenario.is_part() && self.scenario.judges_end();
        if finals.is_empty() && self.scenario.probe.is_none() && !is_judged {
            return;
        }
        let after = self.let_the_end_come();
        self.end_services();
        if is_judged {
            self.sim.world.record(EventKind::AllEnded);
        }
        finals.iter().enumerate().for_each(|(nth, judge)| self.judge(nth, judge));
        self.probe(after);
    }

    /// Waits until the servers are back, and until what a crash, a lost message or a cancellation
    /// left has had its time to end. Returns that time.
    fn let_the_end_come(&mut self) -> Option<Duration> {
        if let Some(away) = self.sim.outage() {
            self.advance(away);
        }
        let seen = self.sim.world.history().reached;
        let is_lost = seen.crash || seen.lost || seen.cancel;
        let after = is_lost.then(|| self.scenario.recovery());
        after.into_iter().for_each(|after| self.let_pass(after));
        after
    }

    /// Ends the services, so that they take nothing from those that judge.
    fn end_services(&mut self) {
        let services: Vec<Actor> = self.sim.world.services().map(|service| service.actor).collect();
        services.into_iter().for_each(|service| self.end(service));
    }

    /// Ends a client, and drops what its code holds.
    fn end(&mut self, actor: Actor) {
        self.sim.code.iter().for_each(|code| code.end(actor));
        self.sim.drop_client(actor);
    }

    /// Lets a fresh client judge the end.
    fn judge(&mut self, nth: usize, judge: &Judge) {
        let (actor, ended) = (Actor::of_final(nth), Arc::new(self.sim.world.ended()));
        let state = LocalState::told_of(&ended);
        self.run_alone(actor, state, &judged_by(judge, &ended), |()| true, World::runs);
        let is_own = |kind: &EventKind| matches!(kind, EventKind::Judged { judge, .. } if *judge == actor);
        if !self.sim.world.history().events.iter().rev().any(|event| is_own(&event.kind)) {
            let violation = Some("the code that judges it does not come to its end".into());
            self.sim.world.record(EventKind::Judged { judge: actor, violation });
        }
    }

    /// Lets fresh clients probe: they must get everything.
    fn probe(&mut self, after: Option<Duration>) {
        let Some((wanted, probe)) = &self.scenario.probe else { return };
        let before = self.sim.before_probes(*wanted, after);
        if before.as_ref().is_some_and(|before| self.sim.repeat_probes(before)) {
            return;
        }
        let so_far = self.sim.begin_probes();
        let mut granted = 0;
        for n in 1..=*wanted {
            let before = self.sim.world.now;
            // A guard that the code drops at its end must not give its grant to the next client.
            let is_granted = self
                .run_alone(
                    Actor(ACTORS_MAX + n as usize),
                    LocalState::default(),
                    probe,
                    |is_granted| is_granted,
                    World::runs,
                )
                .unwrap_or(false);
            // A grant that is free is granted at once, without waiting.
            granted += u32::from(is_granted && (after.is_some() || self.sim.world.now == before));
        }
        self.sim.world.record(EventKind::Probed { granted, wanted: *wanted, after });
        self.sim.end_probes(before, so_far);
    }

    /// This much time passes. Tasks that clients have left behind go on meanwhile.
    fn let_pass(&mut self, span: Duration) {
        let until = self.sim.world.now + span;
        loop {
            // Services may have left it to others to go on.
            self.let_all_through();
            let left = until.saturating_sub(self.sim.world.now);
            if left.is_zero() || self.is_cut() {
                return;
            }
            if !self.advance_until_a_timer(left) && self.sim.world.now < until {
                // Clients have acted too often.
                return;
            }
        }
    }

    /// Lets requests through until none waits but those of clients that do the same again and
    /// again. Each of these tries once more: something may have changed.
    fn let_all_through(&mut self) {
        let mut passed: BTreeMap<Actor, usize> = BTreeMap::new();
        loop {
            let mut has_moved = false;
            for actor in self.active() {
                let commands = passed.entry(actor).or_default();
                if self.sim.world.len_of_try(actor).is_some_and(|len| *commands >= len) {
                    continue;
                }
                for connection in self.waiting_connections(actor) {
                    self.let_through(actor, connection, Passage::default());
                    *commands += 1;
                    has_moved = true;
                }
            }
            if !has_moved || self.is_cut() {
                return;
            }
        }
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
        actor: Actor,
        local_state: LocalState,
        act: &Act<R>,
        value: fn(R) -> bool,
        goes_on: fn(&World, Actor) -> bool,
    ) -> Option<bool> {
        let mut client = ActorState::new(actor);
        (client.life, client.local_state) = (Life::Running, local_state);
        self.sim.world.actors.push(client);
        self.spawn(actor, act, value);
        self.quiesce();
        let mut waits = 0..self.scenario.limits.steps;
        while goes_on(&self.sim.world, actor) && !self.lessons.runtime.quiescence.is_expired() {
            let waiting = self.waiting_connections(actor);
            for &connection in &waiting {
                self.sim.world.actor(actor).polls = (0, 0);
                self.let_through(actor, connection, Passage::default());
            }
            if waiting.is_empty() {
                // The actor may sleep, and then go on by itself.
                if waits.next().is_none() || !self.advance_until_a_timer(TIMER_MAX) {
                    break;
                }
            }
        }
        // If the time is over, that is recorded.
        self.is_cut();
        self.end(actor);
        match self.sim.world.actor(actor).life {
            Life::Ended(result) => result,
            Life::Unstarted | Life::Running | Life::Crashed => None,
        }
    }
}
