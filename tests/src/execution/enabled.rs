//! The steps that can happen next in an execution, within the fault budgets of its scenario. This
//! file does not choose among them; the policy does.

use std::time::Duration;

use super::run::Execution;
use crate::actor::Actor;
use crate::fault::{Amounts, Budget, Effect, Fault, FaultKind, FaultRow, Faults, Target, TargetKind};
use crate::live::Traffic;
use crate::scenario::{LateReplies, Scenario};
use crate::schedule::Step;
use crate::sim::{ActorState, Gate, Life, Tries, World};

/// Most times that others sleep after a stall while something is slow. Clients that poll would
/// sleep for ever.
const WAITS_IN_STALL_MAX: usize = 2;

impl Execution<'_> {
    /// Lists the steps that can happen now: first the actor that ran last, then the other actors,
    /// late requests, faults, and time last.
    ///
    /// Clocks are set before all else. If every client sleeps, time comes before the actors.
    pub(super) fn enabled_steps(&mut self, enabled: &mut Vec<Step>) {
        enabled.clear();
        self.sim.world.note_evening();
        self.sim.world.is_at_rest = self.sim.world.do_services_rest(self.scenario.lease_max());
        if self.sim.world.is_at_rest {
            return self.enabled_at_rest(enabled);
        }
        let retrying = self.sim.world.retrying();
        self.sim.world.note_retries(&retrying);
        let change = self.sim.next_change(&retrying);
        self.sim.world.note_livelock();
        let world = &self.sim.world;
        let tries_in_vain = |actor| retrying.iter().any(|tries| tries.actor == actor);
        let last_step = world.last_step();
        // A clock is wrong from the start or not at all, unless it jumps.
        if last_step.is_none() {
            let setup = self.kinds.iter().filter(|kind| kind.row().budget.is_none());
            setup.for_each(|&kind| self.enabled_faults(kind, world, enabled));
        }
        let goes_first = enabled.len();
        self.enabled_messages(world, world.last_actor(), tries_in_vain, enabled);
        let is_slow = world.gates.iter().any(|gate| gate.is_slow() && !tries_in_vain(gate.actor));
        let sleeps = |other: &&ActorState| {
            world.can_act(other.actor)
                && !tries_in_vain(other.actor)
                // Nothing is slow unless others sleep meanwhile.
                && (!is_slow || other.may_wake && !world.has_request(other.actor))
        };
        let is_too_slow = is_slow && world.waits_in_stall() >= WAITS_IN_STALL_MAX;
        let is_awake = |gate: &Gate| gate.is_busy() && !gate.is_slow() && !tries_in_vain(gate.actor);
        // A service that does the same again and again leaves it to others to begin.
        let is_service = |tries: &Tries| world.actors[tries.actor.0].is_service;
        let leaves_it = world.actors.iter().any(|client| client.life == Life::Unstarted)
            && !world.actors.iter().any(|other| sleeps(&other))
            && retrying.iter().all(is_service);
        let all_sleep = !leaves_it
            && !world.gates.iter().any(is_awake)
            && !is_too_slow
            && (change.is_some()
                || world.actors.iter().any(|other| sleeps(&other))
                // A client that tries in vain may have a timer that ends its tries.
                || !is_slow && !world.have_waited_in_vain(&retrying))
            // If a client waits for something that never comes, it does not wait for time.
            && !world.has_waited_in_vain();
        let is_next = |gate: &&Gate| gate.waits() && gate.late.is_empty() && tries_in_vain(gate.actor);
        let waiting = world.gates.iter().filter(is_next);
        let again: Vec<Step> = waiting.map(|gate| Step::Run(gate.actor, gate.nth)).collect();
        let on_their_way = world.gates.iter().filter(|gate| !gate.late.is_empty());
        enabled.extend(on_their_way.map(|gate| Step::Late(gate.actor, gate.nth)));
        let unstarted =
            || world.actors.iter().filter(|client| client.life == Life::Unstarted).map(|client| client.actor);
        enabled.extend(unstarted().map(|actor| Step::Run(actor, 0)));
        if has_starts(self.scenario) {
            enabled.extend(unstarted().map(Step::Start));
        }
        let later = self.kinds.iter().filter(|kind| kind.row().budget.is_some());
        later.for_each(|&kind| self.enabled_faults(kind, world, enabled));
        self.enabled_stalls(all_sleep, enabled);
        if all_sleep {
            enabled.insert(goes_first, Step::Wait);
        }
        if self.policy.tries_in_vain() || !all_sleep && enabled.iter().all(|step| step.is_fault()) {
            // If nothing else can happen, the tries may still have an end.
            enabled.splice(goes_first..goes_first, again);
        }
    }

    /// Adds the faults of services that wait, and the step with which the execution is over. It is
    /// over at once if no such fault can strike: a fault that comes later would change nothing.
    fn enabled_at_rest(&self, enabled: &mut Vec<Step>) {
        let world = &self.sim.world;
        if world.is_over {
            return;
        }
        let strikes_later = |row: &FaultRow| row.target == TargetKind::Client && row.budget.is_some();
        let kinds = self.kinds.iter().filter(|kind| strikes_later(kind.row()));
        kinds.for_each(|&kind| self.enabled_faults(kind, world, enabled));
        if !enabled.is_empty() {
            enabled.insert(0, Step::Wait);
        }
    }

    /// Adds the steps in which time moves while clients have requests to send, within the budget.
    fn enabled_stalls(&self, all_sleep: bool, enabled: &mut Vec<Step>) {
        let world = &self.sim.world;
        if world.spent(Budget::STALLS) >= self.scenario.faults.stalls {
            return;
        }
        // A client without a timer notices nothing while time moves.
        let with_timers: Vec<Actor> =
            world.actors.iter().filter(|other| other.may_wake).map(|other| other.actor).collect();
        let (now, instants) = (self.sim.world.now, self.sim.instants());
        enabled.extend(instants.iter().map(|&at| Step::Advance(at - now)));
        for &actor in with_timers.iter().filter(|_| !self.scenario.are_replies_prompt()) {
            let pause = |&at: &Duration| {
                let amount = (at - now).as_millis() as i64;
                Step::Fault(Fault { target: Target::Client(actor), kind: FaultKind::Pause, amount })
            };
            enabled.extend(instants.iter().map(pause));
        }
        if !with_timers.is_empty() && !all_sleep && !world.has_waited_in_vain() {
            enabled.push(Step::Wait);
        }
    }

    /// Adds the steps of requests, replies and messages that wait, those of `first` before all
    /// others.
    fn enabled_messages(
        &self,
        world: &World,
        first: Option<Actor>,
        tries_in_vain: impl Fn(Actor) -> bool,
        enabled: &mut Vec<Step>,
    ) {
        let goes_first = enabled.len();
        // Whether the budget of stalls is spent already must not count: an earlier stall would then
        // change which steps of an independent client are possible.
        let Scenario { faults, late_replies, .. } = self.scenario;
        let can_reply_late = |gate: &Gate| {
            let readings = &world.actors[gate.actor.0].readings_inside;
            let is_late = match late_replies {
                LateReplies::All => true,
                LateReplies::BeforeReadings => {
                    gate.brief().is_some_and(|request| readings.contains(&request))
                }
                LateReplies::None => false,
            };
            is_late && faults.stalls > 0 && !gate.is_one_way()
        };
        // A request behind one that is still on its way has to wait for that one.
        // A client that tried in vain waits for a change.
        let is_ready = |gate: &&Gate| gate.is_busy() && gate.late.is_empty() && !tries_in_vain(gate.actor);
        for gate in world.gates.iter().filter(is_ready) {
            let place = if Some(gate.actor) == first { goes_first } else { enabled.len() };
            if gate.receives() {
                enabled.insert(place, Step::Receive(gate.actor, gate.nth));
            }
            if !gate.waits() {
                continue;
            }
            enabled.insert(place, Step::Run(gate.actor, gate.nth));
            if can_reply_late(gate) {
                enabled.insert(place, Step::Send(gate.actor, gate.nth));
            }
        }
    }

    /// Adds the steps of a fault kind, for each target that it can strike now, unless its budget is
    /// used up. A request fault can strike the first request of an actor that has not started,
    /// unless it needs an operation.
    fn enabled_faults(&self, kind: FaultKind, world: &World, enabled: &mut Vec<Step>) {
        let row = kind.row();
        if !has_budget(kind, &self.scenario.faults, world) {
            return;
        }
        let mut strike = |target| {
            let amounts = self.amounts(row.amounts, target).into_iter();
            enabled.extend(amounts.map(|amount| Step::Fault(Fault { target, kind, amount })));
        };
        let is_meant = |actor: Actor| !row.respawns || world.actors[actor.0].is_service;
        match (row.target, row.effect) {
            (TargetKind::Connection, Effect::Request(fault)) => {
                let can_strike = |gate: &&Gate| {
                    gate.waits()
                        && gate.late.is_empty()
                        && (!gate.is_one_way() || gate.traffic == Traffic::Messages && fault.strikes_messages)
                        && (!row.needs_operation || world.can_cancel(gate.operation))
                        && is_meant(gate.actor)
                };
                let waiting = world.gates.iter().filter(can_strike);
                waiting.for_each(|gate| strike(Target::Connection(gate.actor, gate.nth)));
                let can_start = |actor: &&ActorState| {
                    actor.life == Life::Unstarted && !row.needs_operation && is_meant(actor.actor)
                };
                let unstarted = world.actors.iter().filter(can_start);
                unstarted.for_each(|actor| strike(Target::Connection(actor.actor, 0)));
            }
            (TargetKind::Connection, Effect::Act(_) | Effect::Pause) => {}
            (TargetKind::Client, _) => {
                let can_strike = |actor: Actor| {
                    (row.budget.is_none() || world.can_act(actor))
                        && (!row.needs_operation || world.operation(actor).is_some())
                        && is_meant(actor)
                };
                let actors = world.actors.iter().map(|client| client.actor);
                actors.filter(|&actor| can_strike(actor)).for_each(|actor| strike(Target::Client(actor)));
            }
            (TargetKind::Server, _) => {
                let primaries = world.primaries();
                // The clock of a replica counts when it takes over.
                let replicas = world.candidates().filter(|_| row.budget.is_none());
                primaries.chain(replicas).map(Target::Server).for_each(strike);
            }
            (TargetKind::Node, _) => {
                let replicas = world.candidates().filter(|&node| self.sim.is_seen(node));
                world.primaries().chain(replicas).map(Target::Server).for_each(strike);
            }
            (TargetKind::Replica, _) => world.candidates().map(Target::Server).for_each(strike),
        }
    }

    /// The amounts with which a fault can strike a target now.
    fn amounts(&self, amounts: Amounts, target: Target) -> Vec<i64> {
        let faults = &self.scenario.faults;
        match (amounts, target) {
            (Amounts::Of(amounts), _) => amounts(faults),
            (Amounts::LostWrites, Target::Server(node)) => self.sim.world.may_lack(node, faults.behind),
            (Amounts::Unacknowledged, Target::Connection(actor, connection)) => {
                let gate = self.gate(actor, connection, Gate::waits);
                gate.map_or(Vec::new(), |gate| self.sim.may_be_unacknowledged(gate))
            }
            (Amounts::Stale, Target::Connection(actor, connection)) => {
                let gate = self.gate(actor, connection, Gate::waits);
                gate.map_or(Vec::new(), |gate| self.sim.may_be_stale(gate))
            }
            (Amounts::SlotsElsewhere, Target::Server(node)) => self.sim.slots_elsewhere(node),
            (Amounts::SlotsOnTheirWay, Target::Server(node)) => self.sim.world.slots_on_their_way(node),
            (
                Amounts::LostWrites
                | Amounts::Unacknowledged
                | Amounts::Stale
                | Amounts::SlotsElsewhere
                | Amounts::SlotsOnTheirWay,
                _,
            ) => Vec::new(),
        }
    }
}

/// The kinds of faults that have a budget at all.
pub(super) fn kinds(faults: &Faults) -> Vec<FaultKind> {
    FaultKind::ALL.iter().copied().filter(|&kind| faults.allows(kind)).collect()
}

/// Whether it matters when a client begins, and not only when its first command runs.
fn has_starts(scenario: &Scenario) -> bool {
    let Scenario { faults, reads_replicas, .. } = scenario;
    // It can read its clock before: that matters only if time can move or a clock can jump.
    let reads_clock = faults.stalls > 0 || !faults.jump.is_zero();
    // An operation must have begun before it can be cancelled, and a connection before its server
    // is the old primary. A slot moves only when a request has named it, and a replica lacks
    // something only for a request that waits.
    reads_clock
        || faults.cancels > 0
        || faults.old_primary_writable > 0
        || faults.moves > 0
        || *reads_replicas && faults.behind > 0
}

/// Whether a fault of this kind can still strike.
fn has_budget(kind: FaultKind, faults: &Faults, world: &World) -> bool {
    let row = kind.row();
    row.budget.is_none_or(|budget| world.spent(budget) < (row.limit)(faults))
}
