//! The turns of clients: what they did is performed, whether their code ran or they are learned.

use super::clients::Clients;
use super::{Life, Simulation, World};
use crate::actor::Actor;
use crate::live::{Act, Begun, Noticed, Told, Turn};
use crate::memo::{Key, Timer};
use crate::trace::LeftBy;

impl Simulation {
    /// The client is the next to run. Returns the local state in which it does.
    pub(super) fn runs_next(&mut self, actor: Actor) -> Key {
        self.tell(actor, &Told::Turn);
        let world = &mut self.world;
        world.recorder.client_ran(actor);
        world.n_turns += 1;
        world.actor(actor).latest_turn = world.n_turns;
        self.key(actor)
    }

    /// The code of clients has run as far as it can. Performs what it did. Returns whether a client
    /// was told something by that, so that code is to run again.
    pub(crate) fn perform_turns(&mut self, polls_max: u64) -> bool {
        let Some(code) = self.code.clone() else { return false };
        let mut noticed = code.take_noticed(&|actor| self.world.can_run(actor));
        // The code before the actors has no state any more.
        noticed.retain(|noticed| self.world.knows(noticed.actor));
        for &Noticed { actor, fired, is_sharing, has_ended, is_awake, .. } in &noticed {
            fired.into_iter().for_each(|at| self.learn_timer(actor, Timer::At(at)));
            if is_sharing {
                self.note_unlearnable(actor);
            }
            if has_ended {
                self.world.count_tasks_of_crashed(code.tasks(), actor);
            }
            if is_awake {
                self.world.stands_still(actor);
            }
        }
        let mut turns: Vec<(Actor, Begun, Key)> = Vec::new();
        for Noticed { actor, begun, .. } in &mut noticed {
            let Some(begun) = begun.take() else { continue };
            let key = self.perform_turn(*actor, &begun.turn, polls_max);
            turns.push((*actor, begun, key));
        }
        let (by_tasks, owner) = self.world.count_tasks(code.tasks(), &turns);
        let is_cut = self.world.cut.is_some();
        if let Clients::Teachers(learned) = &self.clients
            && (by_tasks == 0 || owner.is_some())
            && self.world.is_running
            && !is_cut
        {
            for (actor, Begun { turn, spawned, .. }, key) in turns {
                if self.world.actor(actor).life != Life::Crashed {
                    let tasks = spawned + if owner == Some(actor) { by_tasks } else { 0 };
                    learned.learn(key, Turn { tasks, ..turn });
                }
            }
        }
        code.has_told() && !is_cut && !code.is_expired()
    }

    /// A turn of a client. Returns the local state in which the client took it.
    pub(super) fn perform_turn(&mut self, actor: Actor, turn: &Turn, polls_max: u64) -> Key {
        let key = self.runs_next(actor);
        self.world.note_readings_inside(actor, turn);
        self.world.record_calls_of(actor);
        if self.world.note_polls(actor, turn.polls, polls_max) {
            for (nth, act) in (1..).zip(&turn.acts) {
                self.perform(actor, act, &turn.acts[nth..]);
            }
            self.world.record_calls_without_request(actor);
        }
        key
    }

    fn learn_timer(&self, actor: Actor, timer: Timer) {
        if let Clients::Teachers(learned) = &self.clients {
            learned.learn_timer(self.key(actor), timer);
        }
    }

    /// Time has moved. No timer that has not fired was due.
    pub(crate) fn learn_timers(&self) {
        let actors: Vec<Actor> = self.world.actors.iter().map(|state| state.actor).collect();
        for actor in actors.into_iter().filter(|&actor| self.world.can_run(actor)) {
            self.learn_timer(actor, Timer::NotBefore(self.world.now));
        }
    }

    /// A client does something that cannot be learned.
    pub(crate) fn note_unlearnable(&self, actor: Actor) {
        if let Clients::Teachers(learned) = &self.clients {
            learned.note_sharing(self.code_of(actor));
        }
    }

    /// Does what the code of a client did, before it did the rest of this turn.
    fn perform(&mut self, actor: Actor, act: &Act, rest: &[Act]) {
        let gate = |world: &World, nth: &usize| world.gate(actor, *nth).expect("the client has opened it");
        match act {
            Act::ReadTime => {
                self.world.note_time_read(actor);
                self.world.note_clock_read_in_calls(actor);
            }
            // A name depends on nothing but how many were drawn before.
            Act::DrawName => {}
            Act::Open { nth, server, traffic } => self.open(actor, *nth, *server, *traffic),
            Act::Close { nth } => self.close(gate(&self.world, nth)),
            Act::Ask { nth, request, operation } => {
                self.ask(gate(&self.world, nth), request.clone(), *operation);
            }
            Act::Withdraw { nth, .. } => self.withdraw(gate(&self.world, nth)),
            Act::AwaitMessage { nth, operation } => self.await_message(gate(&self.world, nth), *operation),
            Act::GiveUp { nth } => {
                let leaves = |act: &Act| matches!(act, Act::Withdraw { nth: left, .. } if left == nth);
                let gate = gate(&self.world, nth);
                self.world.gates[gate].is_left = rest.iter().any(leaves);
                self.give_up(gate);
                self.world.gates[gate].is_left = false;
            }
            Act::Delay { nth, request } => self.world.delay(gate(&self.world, nth), request.clone()),
            Act::Enter { hold, section, since, record } => self.enter(*hold, section, *since, record.clone()),
            Act::Extend { hold, since, record } => self.extend(*hold, *since, record.clone()),
            Act::Leave { hold } => self.world.leave(*hold, LeftBy::Code),
            Act::BeginOperation { id } => self.world.begin_operation(*id),
            Act::EndOperation { id } => self.world.end_operation(*id),
            Act::Did { what } => self.world.did(actor, what),
            Act::Call { id, what } => self.world.call(*id, what.clone()),
            Act::Return { id, answer } => self.world.return_from(*id, answer.clone()),
            Act::Accept { resource, token } => self.world.accept(actor, resource, *token),
            Act::End(end) => self.world.end_client(actor, end),
        }
    }
}

impl World {
    /// Counts the tasks of the clients besides those of the actors' own code, after these clients
    /// ran. Returns how many more there are than before without those that the actors' own code
    /// spawned, and whose they are. If it is not clear whose task came, any of them may own it. If
    /// it is not clear whose task went, no client lost one.
    fn count_tasks(&mut self, tasks: usize, ran: &[(Actor, Begun, Key)]) -> (isize, Option<Actor>) {
        let (spawned, mut change) = self.count_spawned(tasks);
        for &(actor, Begun { spawned: by_code, .. }, _) in ran {
            let client = self.actor(actor);
            client.spawned = client.spawned.saturating_add_signed(by_code);
            change -= by_code;
        }
        // A task that ends closes its connections.
        let acted = |ran_too: &&(Actor, Begun, Key)| change > 0 || ran.len() == 1 || ran_too.1.by_task;
        let owner = match &ran.iter().filter(acted).collect::<Vec<_>>()[..] {
            [(owner, ..)] => Some(*owner),
            _ => None,
        };
        for state in self.actors.iter_mut() {
            let may_be_its = ran.is_empty() || ran.iter().any(|(actor, ..)| *actor == state.actor);
            if spawned == 0 {
                state.spawned = 0;
            } else if owner == Some(state.actor) || owner.is_none() && change > 0 && may_be_its {
                state.spawned = state.spawned.saturating_add_signed(change);
            }
        }
        (change, owner)
    }

    /// Counts the tasks that the destructors of a crashed client have spawned. Nothing that they
    /// send arrives.
    fn count_tasks_of_crashed(&mut self, tasks: usize, actor: Actor) {
        let (_, change) = self.count_spawned(tasks);
        let client = self.actor(actor);
        client.spawned = client.spawned.saturating_add_signed(change);
    }

    /// Counts the tasks besides those of the actors' own code. Returns their number, and how many
    /// more there are than before.
    fn count_spawned(&mut self, tasks: usize) -> (usize, isize) {
        let own = self.actors.iter().filter(|state| self.runs(state.actor)).count();
        let spawned = tasks.saturating_sub(own);
        let before = std::mem::replace(&mut self.spawned, spawned);
        (spawned, spawned.cast_signed() - before.cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::super::ActorState;
    use super::*;
    use crate::trace::LocalState;

    const A: Actor = Actor(0);
    const B: Actor = Actor(1);

    /// Three clients whose code runs, with tasks besides.
    fn world(spawned: [usize; 3]) -> World {
        let mut world = World { spawned: spawned.iter().sum(), ..World::default() };
        for (nth, spawned) in spawned.into_iter().enumerate() {
            let state = ActorState { life: Life::Running, spawned, ..ActorState::new(Actor(nth)) };
            world.actors.push(state);
        }
        world
    }

    /// A turn of a client whose code has spawned tasks, or in which a task has acted.
    fn ran(actor: Actor, spawned: isize, by_task: bool) -> (Actor, Begun, Key) {
        (actor, Begun { spawned, by_task, ..Begun::default() }, (0, actor, LocalState::default()))
    }

    /// Counts the tasks after these turns. Returns those of each client, and what is said of them.
    fn count(
        before: [usize; 3],
        tasks: usize,
        ran: &[(Actor, Begun, Key)],
    ) -> (Vec<usize>, (isize, Option<Actor>)) {
        let mut world = world(before);
        let said = world.count_tasks(3 + tasks, ran);
        (world.actors.iter().map(|state| state.spawned).collect(), said)
    }

    #[test]
    fn tasks_that_come_belong_to_those_that_ran() {
        let of_code = count([0; 3], 1, &[ran(A, 1, false), ran(B, 0, false)]);
        assert_eq!(of_code, (vec![1, 0, 0], (0, None)));
        let of_one = count([0; 3], 1, &[ran(A, 0, false)]);
        assert_eq!(of_one, (vec![1, 0, 0], (1, Some(A))));
        let of_either = count([0; 3], 1, &[ran(A, 0, false), ran(B, 0, true)]);
        assert_eq!(of_either, (vec![1, 1, 0], (1, None)));
        assert_eq!(count([0; 3], 1, &[]), (vec![1, 1, 1], (1, None)));
    }

    /// A task that ends closes its connections, and so it has acted.
    #[test]
    fn tasks_that_end_are_those_of_the_client_whose_task_acted() {
        let of_one = count([1, 1, 1], 2, &[ran(A, 0, false), ran(B, 0, true)]);
        assert_eq!(of_one, (vec![1, 0, 1], (-1, Some(B))));
        let of_either = count([1, 1, 1], 2, &[ran(A, 0, true), ran(B, 0, true)]);
        assert_eq!(of_either, (vec![1, 1, 1], (-1, None)));
        assert_eq!(count([1, 1, 1], 0, &[ran(A, 0, true), ran(B, 0, true)]).0, [0, 0, 0]);
        let none = count([1, 0, 0], 1, &[ran(A, 0, false), ran(B, 0, true)]);
        assert_eq!(none, (vec![1, 0, 0], (0, Some(B))));
    }

    /// Destructors of the code have spawned them.
    #[test]
    fn tasks_of_a_crashed_client_are_its_own() {
        let mut world = world([0, 1, 0]);
        world.count_tasks_of_crashed(3 + 2, A);
        assert_eq!(world.actors.iter().map(|state| state.spawned).collect::<Vec<_>>(), [1, 1, 0]);
    }
}
