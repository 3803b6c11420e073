//! Clients are told something. Their local states follow from all that they were told.

use super::Simulation;
use super::clients::Clients;
use crate::actor::Actor;
use crate::live::Told;

impl Simulation {
    /// A client is told something, which is a part of its local state from now on. It is woken,
    /// unless only its clock is told.
    pub(super) fn tell(&mut self, actor: Actor, told: &Told) {
        if self.timers.is_some() || !matches!(self.clients, Clients::Tasks) {
            let at = self.world.now;
            let client = self.world.actor(actor);
            let before = client.local_state;
            let after = before.after(at, told);
            client.local_state = after;
            if let Some(learned) = self.learned() {
                learned.note_telling(before, at, told, after);
            }
        }
        self.bring(actor, told);
    }

    /// Brings something to a client.
    pub(super) fn bring(&mut self, actor: Actor, told: &Told) {
        match &self.code {
            Some(code) => _ = code.deliver(actor, told),
            None => match told {
                Told::Answered { .. } | Told::Heard { .. } | Told::Cancelled(_) => self.world.wake(actor),
                Told::Clock { .. } | Told::Turn | Told::Other => {}
            },
        }
    }
}
