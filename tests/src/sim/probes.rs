//! Fresh clients that probe at the end of an execution. In equal states of the servers, and at
//! equal times, they do the same.

use std::time::Duration;

use super::clients::Clients;
use super::{Recording, Simulation};
use crate::memo::{BeforeProbes, Probes};
use crate::trace::Reached;

impl Simulation {
    /// The state before the probes. `None` if they may depend on more.
    pub(crate) fn before_probes(&self, wanted: u32, after: Option<Duration>) -> Option<BeforeProbes> {
        let world = &self.world;
        let is_plain = world.grants.is_empty() && !world.is_clock_set && self.recording == Recording::Lean;
        let is_known = matches!(self.clients, Clients::Learned(_)) && is_plain;
        is_known.then(|| BeforeProbes {
            code: self.config.probe_code,
            judges_times: self.config.judges_times,
            wanted,
            after,
            at: self.world.now,
            servers: world.states_of_primaries(),
            slot_map: world.slot_map.clone(),
        })
    }

    /// Adds the history of probes that are known. Returns whether they are.
    pub(crate) fn repeat_probes(&mut self, before: &BeforeProbes) -> bool {
        let Some(learned) = self.learned() else { return false };
        let Some(probes) = learned.known().servers.probes(before) else { return false };
        let world = &mut self.world;
        probes.events.iter().for_each(|event| world.recorder.event(event.at, event.kind.clone()));
        let reached = world.recorder.reached();
        *reached = reached.or(probes.reached);
        true
    }

    /// The probes begin. Returns the number of events so far, and what was reached.
    pub(crate) fn begin_probes(&mut self) -> (usize, Reached) {
        let world = &mut self.world;
        let events = world.history().events.len();
        (events, std::mem::take(world.recorder.reached()))
    }

    /// The probes have ended. Learns what they did, if they did not depend on more.
    pub(crate) fn end_probes(&mut self, before: Option<BeforeProbes>, (events, so_far): (usize, Reached)) {
        let world = &mut self.world;
        let reached = *world.recorder.reached();
        *world.recorder.reached() = reached.or(so_far);
        let learned = self.clients.learned().filter(|_| world.lack().is_none());
        let Some((before, learned)) = before.zip(learned) else {
            return;
        };
        let events = world.history().events[events..].to_vec();
        learned.known().servers.learn_probes(before, Probes { events, reached });
    }
}
