//! Services: clients whose code need not end. When all other actors have ended, an execution goes
//! on until every service waits.

use std::time::Duration;

use super::retries::TRIES;
use super::{ActorState, GRACE, Life, World};
use crate::actor::Actor;

impl World {
    /// Notes whether all actors but services have ended, if there are services.
    pub(crate) fn note_evening(&mut self) {
        let is_over = |client: &ActorState| client.life != Life::Unstarted && !self.can_act(client.actor);
        let has_services = self.services().next().is_some();
        if has_services
            && self.evening.is_none()
            && self.actors.iter().filter(|client| !client.is_service).all(is_over)
        {
            self.evening = Some(self.now);
        }
    }

    /// The services, in order.
    pub(crate) fn services(&self) -> impl Iterator<Item = &ActorState> {
        self.actors.iter().filter(|client| client.is_service)
    }

    /// How much time services have left. `None` while others act.
    pub(crate) fn time_left(&self, lease: Duration) -> Option<Duration> {
        Some((self.evening? + lease + GRACE).saturating_sub(self.now))
    }

    /// Whether all other actors have ended, and every service waits.
    pub(crate) fn do_services_rest(&self, lease: Duration) -> bool {
        self.time_left(lease).is_some_and(|left| self.services().all(|service| self.rests(service, left)))
    }

    /// Whether a service waits that has this time left.
    fn rests(&self, service: &ActorState, left: Duration) -> bool {
        let actor = service.actor;
        match self.can_act(actor) {
            false => service.life != Life::Unstarted,
            true if self.has_request(actor) => self.retries(actor),
            true => {
                left.is_zero()
                    || self.is_blocked_without_limit(actor)
                    || self.equal_tries(actor, TRIES).is_some()
            }
        }
    }

    /// Whether a client waits on a server that will not wake it by itself.
    fn is_blocked_without_limit(&self, actor: Actor) -> bool {
        let own = self.gates.iter().filter(|gate| gate.actor == actor && gate.is_blocked());
        own.filter_map(|gate| gate.pending.as_ref()).any(|pending| pending.request.waits_without_limit())
    }
}
