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

#[cfg(test)]
mod tests {
    use super::super::Gate;
    use super::super::gate::{GateState, Passage, Wait};
    use super::*;
    use crate::live::Pending;

    const CLIENT: Actor = Actor(0);
    const SERVICE: Actor = Actor(1);
    const SECOND: Duration = Duration::from_secs(1);

    /// A client and a service.
    fn world(client: Life, service: Life) -> World {
        let mut world = World::default();
        world.actors.push(ActorState { life: client, ..ActorState::new(CLIENT) });
        world.actors.push(ActorState { life: service, is_service: true, ..ActorState::new(SERVICE) });
        world
    }

    #[test]
    fn the_evening_begins_once_all_others_have_ended() {
        let noted = |mut world: World, now: Duration| {
            world.now = now;
            world.note_evening();
            world.evening
        };
        for (client, is_over) in [
            (Life::Unstarted, false),
            (Life::Running, false),
            (Life::Ended(None), true),
            (Life::Crashed, true),
        ] {
            let evening = noted(world(client, Life::Running), SECOND);
            assert_eq!(evening, is_over.then_some(SECOND), "{client:?}");
        }
        let before = World { evening: Some(SECOND), ..world(Life::Crashed, Life::Running) };
        assert_eq!(noted(before, 2 * SECOND), Some(SECOND));
        let mut alone = world(Life::Crashed, Life::Crashed);
        alone.actor(SERVICE).is_service = false;
        assert_eq!(noted(alone, SECOND), None, "there is no service");
    }

    #[test]
    fn services_have_a_lease_and_some_time_after_it() {
        let mut world = world(Life::Crashed, Life::Running);
        assert_eq!(world.time_left(SECOND), None);
        (world.evening, world.now) = (Some(5 * SECOND), 6 * SECOND);
        assert_eq!(world.time_left(3 * SECOND), Some(2 * SECOND + GRACE));
        world.now = 100 * SECOND;
        assert_eq!(world.time_left(3 * SECOND), Some(Duration::ZERO));
    }

    /// A service at whose gate is this request, in this state.
    fn serving(command: &[&str], gate_state: GateState) -> World {
        let mut world = world(Life::Crashed, Life::Running);
        let request = (&redis::cmd(command[0]).arg(&command[1..]).to_owned()).into();
        let pending = Pending { request, brief: 0, sent: Duration::ZERO, release: None, task: 0 };
        world.gates.push(Gate { gate_state, pending: Some(pending), ..Gate::new(SERVICE, 0, 0) });
        world
    }

    #[test]
    fn a_service_rests_that_nothing_wakes() {
        let blocked =
            || GateState::Blocked(Wait { passage: Passage::default(), footprint: None, ends_at: None });
        let rests =
            |world: &World, left: Duration| world.services().all(|service| world.rests(service, left));
        for (service, is_at_rest) in [
            (Life::Unstarted, false),
            (Life::Crashed, true),
            (Life::Ended(None), true),
            (Life::Running, false),
        ] {
            assert_eq!(rests(&world(Life::Crashed, service), SECOND), is_at_rest, "{service:?}");
        }
        assert!(rests(&world(Life::Crashed, Life::Running), Duration::ZERO), "its time is over");
        assert!(rests(&serving(&["BLPOP", "list", "0"], blocked()), SECOND));
        assert!(!rests(&serving(&["BLPOP", "list", "1"], blocked()), SECOND));
        assert!(!rests(&serving(&["BLPOP", "list", "0"], GateState::Empty), SECOND));
        assert!(!rests(&serving(&["PING"], GateState::Waiting), Duration::ZERO), "its request is on the way");
        let mut others = serving(&["BLPOP", "list", "0"], blocked());
        others.gates[0].actor = CLIENT;
        assert!(!rests(&others, SECOND), "another one waits");
    }
}
