use std::time::Duration;

use super::{Execution, GRACE};
use crate::fault::{Budget, RequestFault};
use crate::schedule::{ClockOwner, SPAN_MAX, Step};
use crate::sim::{Gate, Traffic};

impl Execution<'_> {
    /// What can happen now, the likeliest first: whoever ran last goes on, then the others, then the faults, and time last.
    pub(super) fn enabled_steps(&self, enabled: &mut Vec<Step>) {
        enabled.clear();
        let state = self.sim.state();
        let faults = &self.scenario.faults;
        let last_step = state.last_step();
        // A clock is wrong from the start or not at all, unless it jumps.
        if last_step.is_none() {
            let clients = || state.actors.iter().map(|state| ClockOwner::Client(state.actor));
            let servers = || (0..self.sim.servers.len()).map(ClockOwner::Server);
            let both_ways = |step: fn(ClockOwner, i64) -> Step, by: i64| {
                move |owner| [by, -by].into_iter().filter(|&by| by != 0).map(move |by| step(owner, by))
            };
            let skewed = |by: Duration| both_ways(Step::Skew, millis(by));
            let drifting = |ppm: u32| both_ways(Step::Drift, ppm.into());
            enabled.extend(clients().flat_map(skewed(faults.skew)));
            enabled.extend(clients().flat_map(drifting(faults.drift_ppm)));
            enabled.extend(servers().flat_map(skewed(faults.server_skew)));
            enabled.extend(servers().flat_map(drifting(faults.server_drift_ppm)));
        }
        let goes_first = enabled.len();
        let last_actor = match last_step {
            Some(Step::Run(actor, _) | Step::Start(actor) | Step::RequestFault(actor, ..)) => Some(actor),
            _ => None,
        };
        // What is behind a request that is still on its way waits until that has come.
        let waiting = || state.gates.iter().filter(|gate| gate.waits() && gate.late.is_empty());
        for gate in waiting() {
            let place = if Some(gate.actor) == last_actor { goes_first } else { enabled.len() };
            enabled.insert(place, Step::Run(gate.actor, gate.nth));
        }
        // Whoever waits for something that never comes does not wait for time.
        let in_vain = last_step == Some(Step::Wait)
            && state.history.footprints.last().is_some_and(|touch| !touch.fires_timer);
        let all_sleep = !state.gates.iter().any(Gate::waits)
            && !in_vain
            && state.actors.iter().any(|other| state.can_act(other.actor));
        let on_their_way = state.gates.iter().filter(|gate| !gate.late.is_empty());
        enabled.extend(on_their_way.map(|gate| Step::Late(gate.actor, gate.nth)));
        let unstarted = || state.actors.iter().filter(|state| !state.is_started).map(|state| state.actor);
        enabled.extend(unstarted().map(|actor| Step::Run(actor, 0)));
        // What a client does before its first command is to read its clock: that makes a difference only where time may move, or the clock
        // jump. And what can be cancelled is to have begun.
        if faults.stalls > 0 || faults.cancels > 0 || !faults.client_jump.is_zero() {
            enabled.extend(unstarted().map(Step::Start));
        }
        // As long as there is something left to take, a fault is possible wherever the actor could go on.
        let lasts = |budget| faults.of(budget) > 0 && state.spent(budget) < faults.of(budget);
        for &fault in RequestFault::ALL.iter().filter(|fault| lasts(fault.budget())) {
            let is_possible = |gate: &&Gate| {
                (gate.traffic != Traffic::Messages || fault == RequestFault::DropBefore)
                    && (fault != RequestFault::CancelAfter || state.can_cancel(gate.operation))
            };
            let befalls = |gate: &Gate| Step::RequestFault(gate.actor, gate.nth, fault);
            enabled.extend(waiting().filter(is_possible).map(befalls));
            // Whether the first command can be cancelled is known when the actor has started.
            let first = unstarted().filter(|_| fault != RequestFault::CancelAfter);
            enabled.extend(first.map(|actor| Step::RequestFault(actor, 0, fault)));
        }
        if lasts(Budget::Cancels) {
            let alive = state.actors.iter().map(|other| other.actor).filter(|&actor| state.can_act(actor));
            enabled.extend(alive.filter(|&actor| state.operation(actor).is_some()).map(Step::Cancel));
        }
        if lasts(Budget::Crashes) {
            let alive = state.actors.iter().filter(|other| state.can_act(other.actor));
            enabled.extend(alive.map(|state| Step::Crash(state.actor)));
        }
        if lasts(Budget::ClientClocks) {
            let by_ms = millis(faults.client_jump);
            let jumps = |owner| [by_ms, -by_ms].map(|by_ms| Step::Jump(owner, by_ms));
            let alive = state.actors.iter().map(|other| other.actor).filter(|&actor| state.can_act(actor));
            enabled.extend(alive.map(ClockOwner::Client).flat_map(jumps));
        }
        let servers = 0..self.sim.servers.len();
        let server_faults = || state.spent(Budget::Servers);
        if !faults.jump.is_zero() && server_faults() == 0 {
            let by_ms = millis(faults.jump);
            enabled.extend(servers.clone().map(|server| Step::Jump(ClockOwner::Server(server), by_ms)));
        }
        if faults.restarts > 0 && server_faults() < faults.restarts {
            enabled.extend(servers.clone().map(Step::Restart));
        }
        if lasts(Budget::Reloads) {
            let reloads = |server| (0..=faults.unsynced).map(move |lost| Step::Reload(server, lost));
            enabled.extend(servers.clone().flat_map(reloads));
        }
        if lasts(Budget::Flushes) {
            enabled.extend(servers.map(Step::Flush));
        }
        if lasts(Budget::Stalls) {
            let may_wake = state.actors.iter().any(|other| other.may_wake);
            drop(state);
            let now = self.sim.now();
            let instants = self.sim.instants();
            if instants.is_empty() {
                // Nothing runs out on the server, but a clock that was read a moment ago is older than one that is read now; and
                // what clients have written down in place of a time to live may be over.
                let spans = [Duration::from_millis(1), (self.scenario.lease_max() + GRACE).min(SPAN_MAX)];
                enabled.extend(spans.map(Step::Advance));
            }
            enabled.extend(instants.into_iter().map(|at| Step::Advance(at - now)));
            if may_wake && !all_sleep {
                enabled.push(Step::Wait);
            }
        }
        if all_sleep {
            enabled.insert(goes_first, Step::Wait);
        }
    }
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}
