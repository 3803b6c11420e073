//! Clients that send the same commands again and again, because nothing has changed. Such a client
//! waits for a change, and it is explored like that: more tries would show nothing new.
//!
//! The idea is that of awaits in explorations of spin loops: Kokologiannakis, Ren and Vafeiadis,
//! "Dynamic Partial Order Reductions for Spinloops" (2021).

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use emulator::{Access, Data, Resource, Timestamp};

use super::tries::{Exchange, Livelock, Retry, Tries};
use super::{ActorState, GRACE, Gate, Life, Simulation, World};
use crate::actor::Actor;
use crate::fingerprint::fingerprint;
use crate::trace::{EventKind, History};

/// The number of equal tries after which a client waits for a change.
pub(super) const TRIES: usize = 3;
/// Most commands of one try.
const COMMANDS_MAX: usize = 16;
/// Most steps of one round of a livelock.
const ROUND_MAX: usize = 64;

impl World {
    /// Notes a livelock. Only the last one is kept: earlier ones have come to an end.
    pub(crate) fn note_livelock(&mut self) {
        if let Some(livelock) = self.find_livelock() {
            self.livelock = Some(livelock);
        }
    }

    /// All clients have ended equal tries in turns. Only more rounds show whether they go on.
    fn find_livelock(&self) -> Option<Livelock> {
        // A slow request arrives in the end.
        if self.gates.iter().any(Gate::is_slow) {
            return None;
        }
        let may_end = |actor: &&ActorState| matches!(actor.life, Life::Unstarted | Life::Running);
        let actors = self.actors.iter().filter(may_end).filter(|actor| !actor.is_service);
        let tries = actors.map(|actor| Some((actor.actor, self.len_of_try(actor.actor)?)));
        let tries: Vec<(Actor, usize)> = tries.collect::<Option<_>>()?;
        let steps = &self.history().steps;
        let is_round = |&len: &usize| {
            let Some(start) = steps.len().checked_sub(2 * len) else { return false };
            let (before, latest) = steps[start..].split_at(len);
            let has_whole_tries = |&(actor, commands): &(Actor, usize)| {
                let own = latest.iter().filter(|step| step.actor() == Some(actor)).count();
                own > 0 && own.is_multiple_of(commands)
            };
            before == latest && tries.iter().all(has_whole_tries)
        };
        let round = (1..=ROUND_MAX).find(is_round).filter(|_| tries.len() > 1)?;
        let actors = tries.into_iter().map(|(actor, _)| actor).collect();
        Some(Livelock { steps: steps.len(), round, actors })
    }

    /// These clients try in vain. Only the first time of each of their loops is kept.
    pub(crate) fn note_retries(&mut self, retrying: &[Tries]) {
        let now = Retry { steps: self.history().steps.len(), times: self.times.len() };
        for &tries in retrying {
            self.retries.entry(tries).or_insert(now);
        }
    }

    /// A client has a request to send. If it has ended equal tries by itself, that is recorded.
    pub(crate) fn note_request(&mut self, actor: Actor, request: u64) {
        if self.equal_tries(actor, TRIES + 1).is_some_and(|tries| tries[0].request != request) {
            self.record(EventKind::RetriesEnded { actor });
        }
    }

    /// A client enters, extends or leaves a section. Its tries begin anew.
    pub(super) fn note_progress(&mut self, actor: Actor) {
        self.note_end(actor);
        let idx = self.idx(actor);
        self.actors[idx].stage += 1;
        self.actors[idx].exchanges = Arc::default();
    }

    /// The code of a client, or a loop of it, has ended.
    pub(crate) fn note_end(&mut self, actor: Actor) {
        if self.equal_tries(actor, TRIES + 1).is_some() {
            self.record(EventKind::RetriesEnded { actor });
        }
    }

    /// The number of commands of one try, if the last tries of a client were equal.
    pub(crate) fn len_of_try(&self, actor: Actor) -> Option<usize> {
        len_of_tries(&self.actors[self.idx(actor)].exchanges, TRIES)
    }

    /// The latest try of a client. `None` if its last `count` tries were not equal, or changed what
    /// the servers hold. Also `None` if something has changed since that the latest one read.
    /// Otherwise the next try would be equal, too. If time moved, tries are not equal: the client
    /// may count how long it has waited. Those of a service are: it may sleep between them, and
    /// keep a key alive.
    pub(super) fn equal_tries(&self, actor: Actor, count: usize) -> Option<&[Exchange]> {
        let ActorState { exchanges, is_service, .. } = &self.actors[self.idx(actor)];
        let len = len_of_tries(exchanges, count)?;
        let (before, latest) = exchanges.split_at(exchanges.len() - len);
        let History { steps, footprints, .. } = self.history();
        let of = |exchange: &Exchange| &footprints[exchange.step - 1];
        let tries = &exchanges[exchanges.len() - count * len..];
        if tries.iter().any(|exchange| exchange.step == 0) || tries.last()?.step > steps.len() {
            // The tries belong to no step, or the history has been taken.
            return None;
        }
        let moves_time = || footprints[tries[0].step - 1..].iter().any(|footprint| footprint.moves_time());
        if !is_service && (left_by(latest).is_none() || moves_time()) || left_by(latest) != left_by(before) {
            return None;
        }
        let is_changed_by = |place: usize| {
            // The code of a service runs when time moves, which changes nothing by itself.
            let conflicts = |exchange| match steps[place].actor() {
                None if *is_service => of(exchange).meets_on_servers(&footprints[place]),
                _ => of(exchange).interferes_with(&footprints[place]),
            };
            steps[place].actor() != Some(actor) && latest.iter().any(conflicts)
        };
        (!(latest[0].step..steps.len()).any(is_changed_by)).then_some(latest)
    }

    /// The tries of a client that is about to try once more what it has tried in vain.
    fn vain_tries(&self, actor: Actor) -> Option<Tries> {
        let tries = self.equal_tries(actor, TRIES)?;
        let ActorState { stage, gives_up, .. } = &self.actors[self.idx(actor)];
        let (request, commands, hash) = (tries[0].request, tries.len(), hash_of(*stage, tries));
        let is_next = self.is_about_to_send(actor, request) && !gives_up.contains(&hash);
        is_next.then_some(Tries { actor, request, commands, hash })
    }

    /// Whether this request of a client waits at a gate, and nothing else of the client does.
    fn is_about_to_send(&self, actor: Actor, request: u64) -> bool {
        let mut waiting = self.gates.iter().filter(|gate| gate.actor == actor && gate.is_busy());
        waiting.next().is_some_and(|gate| gate.waits() && gate.brief() == Some(request))
            && waiting.next().is_none()
    }

    /// Whether a client still tries, and no timer has made its code run in this step.
    pub(crate) fn still_tries(&self, &Tries { actor, request, .. }: &Tries) -> bool {
        let (step, polls) = self.actors[self.idx(actor)].polls;
        let is_polled = polls > 0 && step == self.history().steps.len();
        !is_polled && self.is_about_to_send(actor, request)
    }

    /// Whether the client is about to try once more what it has tried in vain.
    pub(crate) fn retries(&self, actor: Actor) -> bool {
        self.vain_tries(actor).is_some()
    }

    /// The clients that are about to try once more what they have tried in vain. They wait for a
    /// change.
    pub(crate) fn retrying(&self) -> Vec<Tries> {
        let tries = |state: &&ActorState| state.exchanges.len() >= TRIES;
        let actors = self.actors.iter().filter(tries).map(|state| state.actor);
        actors.filter(|&actor| self.can_act(actor)).filter_map(|actor| self.vain_tries(actor)).collect()
    }

    /// The clients waited as long as possible, and no timer fired.
    pub(crate) fn note_wait_in_vain(&mut self, retrying: &[Tries]) {
        self.waited_in_vain.extend(retrying);
    }

    /// Whether all of these clients have waited in vain as long as possible.
    pub(crate) fn have_waited_in_vain(&self, retrying: &[Tries]) -> bool {
        retrying.iter().all(|tries| self.waited_in_vain.contains(tries))
    }
}

fn hash_of(stage: u64, tries: &[Exchange]) -> u64 {
    let tries: Vec<(u64, u64)> = tries.iter().map(|exchange| (exchange.request, exchange.reply)).collect();
    fingerprint((stage, tries))
}

/// The number of commands of one try, if the last `count` tries got equal replies to equal
/// requests.
fn len_of_tries(exchanges: &[Exchange], count: usize) -> Option<usize> {
    lens(exchanges, count).find(|&len| are_tries(exchanges, count, len))
}

/// A hash of what tries left on the servers, if it is known and does not end by itself.
fn left_by(tries: &[Exchange]) -> Option<u64> {
    tries.last().and_then(|last| last.data)
}

/// The numbers of commands that each of `count` tries may have.
fn lens(exchanges: &[Exchange], count: usize) -> RangeInclusive<usize> {
    1..=COMMANDS_MAX.min(exchanges.len() / count)
}

/// Whether the last `count` tries of `len` commands got equal replies to equal requests.
fn are_tries(exchanges: &[Exchange], count: usize, len: usize) -> bool {
    let Some(start) = exchanges.len().checked_sub(count * len) else { return false };
    exchanges[start..].iter().zip(&exchanges[start + len..]).all(|(one, next)| one.equals(next))
}

impl Simulation {
    /// A command of a client has run. If it looked like one more try, and its reply is another
    /// although nothing had changed, the client has ended its tries by itself.
    pub(crate) fn note_exchange(&mut self, actor: Actor, request: u64, reply: u64) {
        let world = &mut self.world;
        let differs = |tries: &[Exchange]| tries[0].request == request && tries[0].reply != reply;
        if world.equal_tries(actor, TRIES).is_some_and(differs) {
            world.record(EventKind::RetriesEnded { actor });
        }
        let step = if world.recorder.is_in_step() { world.history().steps.len() } else { 0 };
        let idx = world.idx(actor);
        world.actors[idx].latest_request = request;
        Arc::make_mut(&mut world.actors[idx].exchanges).push(Exchange { request, reply, step, data: None });
        let exchanges = &world.actors[idx].exchanges;
        // A try may end with equal commands, which look like shorter tries.
        if let Some(len) = lens(exchanges, 2).rev().find(|&len| are_tries(exchanges, 2, len)) {
            let steps: Vec<usize> = exchanges[exchanges.len() - 2 * len..].iter().map(|e| e.step).collect();
            let data = self.hash_written(&steps);
            let exchanges = Arc::make_mut(&mut self.world.actors[idx].exchanges);
            exchanges.last_mut().expect("one was added").data = data;
        }
    }

    /// A hash of what the emulators hold at the keys that were written in these steps. `None` if
    /// more than keys was written. Also `None` if such a key will expire: a client that keeps it
    /// alive does not wait.
    fn hash_written(&self, steps: &[usize]) -> Option<u64> {
        let mut written = BTreeSet::new();
        for &step in steps {
            let footprint = self.world.history().footprints.get(step.checked_sub(1)?)?;
            for (server, footprint) in &footprint.servers {
                for (resource, ..) in footprint.iter().filter(|&(_, access, _)| access == Access::Write) {
                    let Resource::Key { db, key, .. } = resource else { return None };
                    written.insert((*server, db, key.to_vec()));
                }
            }
        }
        let mut held = Vec::new();
        for (server, db, key) in &written {
            let look = |data: Data<'_>| (data.expires(*db, key), data.describe(*db, key));
            let Some((expires, text)) = self.read(*server, look) else { continue };
            if expires {
                return None;
            }
            held.push(text);
        }
        Some(fingerprint(held))
    }

    /// How long it takes until a server may tell a client that a key has ended. `None` if no client
    /// listens to that, or no key ends.
    pub(crate) fn next_event(&self) -> Option<Duration> {
        let listens = self.world.gates.iter().any(Gate::hears_of_keys);
        listens.then(|| self.ends_of_keys().min()).flatten()
    }

    /// How long it takes on each server until the next key has ended.
    fn ends_of_keys(&self) -> impl Iterator<Item = Duration> {
        const JUST_PAST: Duration = Duration::from_millis(1);
        self.serving_clocks().filter_map(|(server, clock)| {
            let after = Timestamp::from_millis(clock.now().millis() - 1);
            let deadline = self.read(server, |data| data.next_deadline(after))??;
            clock.shows_in(deadline + JUST_PAST)
        })
    }

    /// How long it takes until something changes by itself that the clients in question may read.
    /// That is the end of a key's time to live, of an outage, of a partition, or of a span that
    /// their code distinguishes. It is also much time by their clocks. `None` if nothing changes,
    /// or if there are no such clients.
    pub(crate) fn next_change(&self, retrying: &[Tries]) -> Option<Duration> {
        let world = &self.world;
        // A service that keeps a key alive does not wait for its end.
        let waits = |(_, latest): &(&Tries, &[Exchange])| left_by(latest).is_some();
        let waiting: Vec<(&Tries, &[Exchange])> = retrying
            .iter()
            .filter_map(|tries| Some((tries, world.equal_tries(tries.actor, TRIES)?)))
            .filter(waits)
            .collect();
        if waiting.is_empty() {
            return None;
        }
        let now = world.now;
        let interruptions = world.ends_of_interruptions().filter_map(|until| until.checked_sub(now));
        let interruptions = interruptions.filter(|away| !away.is_zero());
        let next = self.ends_of_keys().chain(interruptions).min();
        let footprint = |exchange: &Exchange| &world.history().footprints[exchange.step - 1];
        let mut exchanges = waiting.iter().flat_map(|(_, latest)| latest.iter());
        if !exchanges.any(|exchange| footprint(exchange).depends_on_time()) {
            return next;
        }
        // Spans count from the time before the first tries. Otherwise each wait would lead to one
        // more.
        let times = waiting.iter().filter_map(|(tries, _)| world.retries.get(tries)).map(|retry| retry.times);
        let times = times.max().unwrap_or(0);
        let distinguished = self.distinguished(&world.times[..times]);
        let distinguished = distinguished.filter_map(|at| at.checked_sub(now)).filter(|span| !span.is_zero());
        next.into_iter().chain(distinguished).min().or(Some(self.config.terms.lease + GRACE))
    }
}

#[cfg(test)]
mod tests {
    use super::super::gate::GateState;
    use super::*;
    use crate::fault::{Fault, FaultKind, Target};
    use crate::live::Pending;
    use crate::schedule::Step;

    const A: Actor = Actor(0);
    const B: Actor = Actor(1);

    /// Clients that take these steps, one letter each. In each step a command runs on a server,
    /// and each try has this many. The tries leave equal data behind.
    fn trying(steps: &str, commands: usize) -> World {
        let mut world = World::default();
        for actor in [A, B] {
            world.actors.push(ActorState { life: Life::Running, ..ActorState::new(actor) });
        }
        for (step, letter) in (1..).zip(steps.chars()) {
            let actor = if letter == 'A' { A } else { B };
            world.recorder.begin_step(Step::Run(actor, 0), None);
            world.recorder.primary_found(0);
            let exchanges = Arc::make_mut(&mut world.actor(actor).exchanges);
            let request = (exchanges.len() % commands) as u64;
            exchanges.push(Exchange { request, reply: 0, step, data: Some(0) });
        }
        world
    }

    fn round(world: &World) -> Option<(usize, Vec<Actor>)> {
        world.find_livelock().map(|livelock| (livelock.round, livelock.actors))
    }

    #[test]
    fn a_livelock_is_a_round_of_whole_tries_of_all_clients() {
        let both = |round: usize| Some((round, vec![A, B]));
        assert_eq!(round(&trying("ABABAB", 1)), both(2));
        assert_eq!(round(&trying("ABABABABABAB", 2)), both(4));
        assert_eq!(round(&trying("AAABBB", 1)), None, "A takes no step in the last round");
        assert_eq!(round(&trying("AABBAB", 1)), None, "the last rounds differ");
        assert_eq!(round(&trying("BAB", 1)), None, "too few tries");
    }

    /// One client alone waits for a change in vain, which is no livelock.
    #[test]
    fn clients_that_may_not_end_take_no_part_in_a_livelock() {
        let without_b = |change: fn(&mut ActorState)| {
            let mut world = trying("ABABAB", 1);
            change(world.actor(B));
            round(&world)
        };
        assert_eq!(without_b(|state| state.life = Life::Ended(Some(true))), None);
        assert_eq!(without_b(|state| state.is_service = true), None);
        assert_eq!(without_b(|state| state.exchanges = Arc::default()), None, "it gets on");
    }

    /// A server that has stopped may refuse the next try. What services do on it is the same.
    #[test]
    fn a_fault_of_a_server_is_a_change_for_clients_that_try_there() {
        let tries_in_vain = |stopped: Option<usize>, is_service: bool| {
            let mut world = trying("AAA", 1);
            world.actor(A).is_service = is_service;
            if let Some(server) = stopped {
                let restart = Fault::new(FaultKind::Restart, Target::Server(server));
                world.recorder.begin_step(Step::Fault(restart), None);
                world.recorder.server_stopped(server);
            }
            world.equal_tries(A, TRIES).is_some()
        };
        assert!(tries_in_vain(None, false) && tries_in_vain(Some(1), false));
        assert!(!tries_in_vain(Some(0), false));
        assert!(tries_in_vain(Some(0), true));
    }

    /// A gate of a client at which a request of this hash waits.
    fn waiting(actor: Actor, brief: u64) -> Gate {
        let request = (&redis::cmd("PING")).into();
        let pending = Pending { request, brief, sent: Duration::ZERO, release: None, task: 0 };
        Gate { gate_state: GateState::Waiting, pending: Some(pending), ..Gate::new(actor, 0, 0) }
    }

    #[test]
    fn a_slow_request_arrives_in_the_end() {
        let mut world = trying("ABABAB", 1);
        world.gates.push(waiting(A, 0));
        assert!(round(&world).is_some());
        world.gates[0].is_slow = true;
        assert_eq!(round(&world), None);
    }

    /// If a timer has made the code run, it may have gone on to something else.
    #[test]
    fn a_client_still_tries_if_its_request_waits_and_nothing_has_polled_it() {
        let tries = Tries { actor: A, request: 7, commands: 1, hash: 0 };
        let still = |gates: &[Gate], polls: (usize, u64)| {
            let mut world = trying("A", 1);
            gates.iter().for_each(|gate| world.gates.push(gate.clone()));
            world.actor(A).polls = polls;
            world.still_tries(&tries)
        };
        let own = [waiting(A, 7)];
        assert!(still(&own, (0, 1)) && still(&own, (1, 0)) && !still(&own, (1, 1)));
        assert!(still(&[waiting(B, 8), waiting(A, 7)], (0, 0)));
        assert!(!still(&[], (0, 0)) && !still(&[waiting(A, 8)], (0, 0)) && !still(&[waiting(B, 7)], (0, 0)));
        assert!(!still(&[waiting(A, 7), waiting(A, 7)], (0, 0)), "something else waits, too");
        let replied = Gate { gate_state: GateState::Replied(Ok(redis::Value::Nil)), ..waiting(A, 7) };
        assert!(!still(&[replied], (0, 0)));
    }
}
