//! Learned clients at work: they repeat the acts that their code did before.

use std::time::Duration;

use super::learned::{Key, Lack, Learned, Timer};
use super::timer_cache::CodeId;
use super::{ActorState, Simulation};
use crate::actor::Actor;
use crate::live::End;
use crate::trace::EventKind;

/// If timers fire more often than this while time moves, tasks have to run.
const FIRED_MAX: usize = 1000;

/// How the clients of an execution run.
pub(crate) enum Clients {
    /// As tasks, and all servers run everything.
    Tasks,
    /// As tasks, from which is learned. Servers run what is not known.
    Teachers(Learned),
    /// As far as they are known, without tasks. Servers run what is not known.
    Learned(Learned),
}

/// This client reached a local state in which it has not been seen, or it is not known when its
/// next timer fires.
#[derive(Debug)]
pub(crate) struct Unknown(pub(crate) Actor);

impl Simulation {
    /// The code of an actor, its name and its local state.
    pub(crate) fn key(&self, actor: Actor) -> Key {
        let state = self.state();
        self.key_of(&state.actors[state.idx(actor)])
    }

    fn key_of(&self, client: &ActorState) -> Key {
        (self.code_of(client.actor), client.actor, client.local_state)
    }

    /// The key of an actor if its turn begins now.
    fn next_key(&self, actor: Actor) -> Key {
        let (code, actor, state) = self.key(actor);
        (code, actor, state.in_turn(self.now()))
    }

    pub(super) fn code_of(&self, actor: Actor) -> CodeId {
        self.config.codes.get(actor.0).copied().unwrap_or(self.config.probe_code)
    }

    /// Gives learned clients their turns until none is awake.
    pub(crate) fn run_learned(&self, learned: &Learned, polls_max: u64) -> Result<(), Unknown> {
        loop {
            let Some(actor) = self.next_awake() else { return Ok(()) };
            let turn = learned.turn(&self.next_key(actor)).ok_or(Unknown(actor))?;
            self.state().woken.retain(|&other| other != actor);
            let mut state = self.state();
            let client = state.actor(actor);
            client.spawned = client.spawned.saturating_add_signed(turn.tasks);
            drop(state);
            self.perform_turn(actor, &turn, polls_max);
        }
    }

    /// The learned client whose turn is next. It stays awake.
    fn next_awake(&self) -> Option<Actor> {
        loop {
            let actor = *self.state().woken.first()?;
            // The tasks that its code spawned run on while its process stands still.
            let is_known = self.state().actor(actor).spawned == 0;
            let can_run = self.state().can_run(actor);
            if can_run && !(is_known && self.stands_still(actor)) {
                return Some(actor);
            }
            self.state().woken.remove(0);
        }
    }

    /// Everything that is known of clients and servers. `None` if all of them run.
    pub(super) fn learned(&self) -> Option<&Learned> {
        match &self.clients {
            Clients::Tasks => None,
            Clients::Teachers(learned) | Clients::Learned(learned) => Some(learned),
        }
    }

    /// The execution ends, and means nothing.
    pub(crate) fn stop(&self, lack: Lack) {
        let mut state = self.state();
        (state.lack, state.is_endless) = (Some(lack), true);
    }

    /// Records the end of a client's code.
    pub(crate) fn end_client(&self, actor: Actor, end: &End) {
        let at = self.now();
        match end.clone() {
            End::Done(value) => self.state().actor(actor).result = Some(value),
            End::Error(error) if self.state().may_give_up(actor, at) => {
                self.record(EventKind::GaveUp { actor, error });
            }
            End::Error(error) | End::Panic(error) => self.record(EventKind::Failed { actor, error }),
        }
        // Executions that differ in nothing else continue equally.
        self.state().actor(actor).forget_leases();
    }

    /// Records that an actor has ended, for whatever reason.
    pub(crate) fn finish_client(&self, actor: Actor) {
        let mut state = self.state();
        state.actor(actor).is_finished = true;
        if !state.actor(actor).is_crashed {
            state.note_end(self.now(), actor);
        }
        self.quiescence.note_activity();
    }

    /// Ends a client whose code does not run to its end, and drops what that holds.
    pub(crate) fn drop_client(&self, actor: Actor) {
        if self.state().actor(actor).is_finished {
            return;
        }
        let gates = self.state().gates.len();
        for gate in (0..gates).filter(|&gate| self.state().gates[gate].actor == actor) {
            self.withdraw(gate);
        }
        self.state().end_operations(actor);
        self.finish_client(actor);
    }

    /// Moves time to `until`, and gives learned clients their turns when their timers fire. If
    /// `stops_at` is given, it ends when the activity is no longer this.
    pub(crate) fn move_learned(
        &self,
        learned: &Learned,
        until: Duration,
        stops_at: Option<u64>,
        polls_max: u64,
    ) -> Result<(), Unknown> {
        for _ in 0..FIRED_MAX {
            self.run_learned(learned, polls_max)?;
            if stops_at.is_some_and(|before| before != self.quiescence.activity()) {
                return Ok(());
            }
            let Some((at, actors)) = self.next_timer(learned, until)? else {
                self.set_time(until);
                return Ok(());
            };
            self.set_time(at);
            actors.into_iter().for_each(|actor| self.state().wake(actor));
        }
        self.stop(Lack::UnknownState);
        Ok(())
    }

    /// The next timer up to this time, and the clients that it wakes.
    fn next_timer(
        &self,
        learned: &Learned,
        until: Duration,
    ) -> Result<Option<(Duration, Vec<Actor>)>, Unknown> {
        let now = self.now();
        let state = self.state();
        let can_run = state.actors.iter().filter(|client| state.can_run(client.actor));
        let mut clients: Vec<(u64, Key)> =
            can_run.map(|client| (client.latest_turn, self.key_of(client))).collect();
        drop(state);
        // If timers fire together, the first to be armed is the first to fire.
        clients.sort_unstable();
        let mut next: Option<(Duration, Vec<Actor>)> = None;
        let mut known_to: Option<(Duration, Actor)> = None;
        for (_, key) in clients {
            let actor = key.1;
            match learned.timer(&key).ok_or(Unknown(actor))? {
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
