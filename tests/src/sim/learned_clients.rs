//! Learned clients at work: they repeat the acts that their code did before.

use std::time::Duration;

use super::clients::Unknown;
use super::world::Cut;
use super::{ActorState, Lack, Life, Simulation, SimulationConfig, World};
use crate::actor::Actor;
use crate::live::End;
use crate::memo::{CodeId, Key, Memory, Timer};
use crate::trace::EventKind;

/// If timers fire more often than this while time moves, tasks have to run.
const FIRED_MAX: usize = 1000;

impl Simulation {
    /// The code of an actor, its name and its local state.
    pub(crate) fn key(&self, actor: Actor) -> Key {
        let world = &self.world;
        self.key_of(&world.actors[world.idx(actor)])
    }

    fn key_of(&self, client: &ActorState) -> Key {
        (self.code_of(client.actor), client.actor, client.local_state)
    }

    /// The key of an actor if its turn begins now.
    fn next_key(&self, actor: Actor) -> Key {
        let (code, actor, state) = self.key(actor);
        (code, actor, state.in_turn(self.world.now))
    }

    pub(super) fn code_of(&self, actor: Actor) -> CodeId {
        let SimulationConfig { codes, final_codes, probe_code, .. } = &self.config;
        let own = actor.as_final().map_or_else(|| codes.get(actor.0), |nth| final_codes.get(nth));
        own.copied().unwrap_or(*probe_code)
    }

    /// Gives learned clients their turns until none is awake.
    pub(crate) fn run_learned(&mut self, polls_max: u64) -> Result<(), Unknown> {
        loop {
            let Some(actor) = self.next_awake() else { return Ok(()) };
            let turn = self.learned().and_then(|learned| learned.turn(&self.next_key(actor)));
            let turn = turn.ok_or(Unknown(actor))?;
            self.world.woken.retain(|&other| other != actor);
            let client = self.world.actor(actor);
            client.spawned = client.spawned.saturating_add_signed(turn.tasks);
            self.perform_turn(actor, &turn, polls_max);
        }
    }

    /// The learned client whose turn is next. It stays awake.
    fn next_awake(&mut self) -> Option<Actor> {
        loop {
            let actor = *self.world.woken.first()?;
            // The tasks that its code spawned run on while its process stands still.
            let is_known = self.world.actor(actor).spawned == 0;
            let can_run = self.world.can_run(actor);
            if can_run && !(is_known && self.world.stands_still(actor)) {
                return Some(actor);
            }
            self.world.woken.remove(0);
        }
    }

    /// Everything that is known of clients and servers. `None` if all of them run.
    pub(super) fn learned(&self) -> Option<&Memory> {
        self.clients.learned()
    }

    /// Ends a client whose code does not run to its end, and drops what that holds.
    pub(crate) fn drop_client(&mut self, actor: Actor) {
        if self.world.actor(actor).life != Life::Running {
            return;
        }
        for gate in 0..self.world.gates.len() {
            if self.world.gates[gate].actor == actor {
                self.withdraw(gate);
            }
        }
        self.world.end_operations(actor);
        self.world.finish_client(actor, None);
    }

    /// Moves time to `until`, and gives learned clients their turns when their timers fire. If
    /// `stops_at` is given, it ends when the activity is no longer this.
    pub(crate) fn move_learned(
        &mut self,
        until: Duration,
        stops_at: Option<u64>,
        polls_max: u64,
    ) -> Result<(), Unknown> {
        for _ in 0..FIRED_MAX {
            self.run_learned(polls_max)?;
            if stops_at.is_some_and(|before| before != self.world.activity) {
                return Ok(());
            }
            let Some((at, actors)) = self.next_timer(until)? else {
                self.set_time(until);
                return Ok(());
            };
            self.set_time(at);
            actors.into_iter().for_each(|actor| self.world.wake(actor));
        }
        self.world.stop(Lack::UnknownState);
        Ok(())
    }

    /// The next timer up to this time, and the clients that it wakes.
    fn next_timer(&self, until: Duration) -> Result<Option<(Duration, Vec<Actor>)>, Unknown> {
        let now = self.world.now;
        let world = &self.world;
        let can_run = world.actors.iter().filter(|client| world.can_run(client.actor));
        let mut clients: Vec<(u64, Key)> =
            can_run.map(|client| (client.latest_turn, self.key_of(client))).collect();
        // If timers fire together, the first to be armed is the first to fire.
        clients.sort_unstable();
        let mut next: Option<(Duration, Vec<Actor>)> = None;
        let mut known_to: Option<(Duration, Actor)> = None;
        for (_, key) in clients {
            let actor = key.1;
            match self.learned().and_then(|learned| learned.timer(&key)).ok_or(Unknown(actor))? {
                Timer::At(at) if at <= now => {}
                Timer::At(at) => match &mut next {
                    Some((first, actors)) if *first == at => actors.push(actor),
                    Some((first, _)) if *first < at => {}
                    _ => next = Some((at, vec![actor])),
                },
                Timer::NotBefore(before) => {
                    known_to = Some(known_to.map_or((before, actor), |known| known.min((before, actor))));
                }
            }
        }
        let next = next.filter(|(at, _)| *at <= until);
        let needed = next.as_ref().map_or(until, |(at, _)| *at);
        match known_to {
            Some((before, actor)) if before < needed => Err(Unknown(actor)),
            _ => Ok(next),
        }
    }
}

impl World {
    /// The execution ends, and means nothing.
    pub(crate) fn stop(&mut self, lack: Lack) {
        self.cut = Some(Cut::Lack(lack));
    }

    /// The code of a client has ended.
    pub(super) fn end_client(&mut self, actor: Actor, end: &End) {
        let result = if let End::Done(value) = end { Some(*value) } else { None };
        match end.clone() {
            end if actor.as_final().is_some() => {
                let violation =
                    if let End::Error(error) | End::Panic(error) = end { Some(error) } else { None };
                self.record(EventKind::Judged { judge: actor, violation });
            }
            End::Done(_) => {}
            End::Error(error) if self.may_give_up(actor) => self.record(EventKind::GaveUp { actor, error }),
            End::Error(error) => self.record(EventKind::Failed { actor, error }),
            End::Panic(text) => {
                self.record(EventKind::Failed { actor, error: format!("its code panicked: {text}") });
            }
        }
        self.finish_client(actor, result);
    }

    /// An actor has ended, for whatever reason.
    fn finish_client(&mut self, actor: Actor, result: Option<bool>) {
        self.actor(actor).life = Life::Ended(result);
        self.note_end(actor);
        self.note_activity();
    }
}
