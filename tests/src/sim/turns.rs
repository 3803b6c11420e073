//! The turns of clients, as they are recorded.
//!
//! A process of a client consists of the code of its actor, and of the tasks that the code spawned.
//! It is woken by a reply, a timer or a cancellation. Its turn is all that it does until no task of
//! it can run.

use std::mem::discriminant;
use std::time::Duration;

use locks::Record;

use super::gate::Pending;
use super::learned::{Key, Timer};
use super::learned_clients::Clients;
use super::operations::OperationId;
use super::pause::Pause;
use super::request::Request;
use super::told::Told;
use super::{Simulation, State};
use crate::actor::Actor;
use crate::trace::HoldId;

/// One thing that a client does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Act {
    ReadTime,
    DrawName,
    Open { server: usize },
    Close { nth: usize },
    Ask { nth: usize, request: Pending, operation: Option<OperationId> },
    Withdraw { nth: usize },
    AwaitMessage { nth: usize, operation: Option<OperationId> },
    GiveUp { nth: usize },
    Delay { nth: usize, request: Request },
    Enter { section: &'static str, since: Option<Duration>, record: Option<Record> },
    Extend { hold: HoldId, since: Duration, record: Record },
    Leave { hold: HoldId },
    BeginOperation,
    EndOperation { id: OperationId },
    Accept { resource: &'static str, token: i64 },
    End(End),
}

/// The end of the code of an actor: what it gave, or an error.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    Done(bool),
    Error(String),
    Panic(String),
}

/// Everything that a client does from when it is woken until it waits again.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Turn {
    pub(super) acts: Vec<Act>,
    /// How often the code of the actor was polled.
    pub(super) polls: u64,
    /// How many tasks it spawned besides the actor's own, less those that ended.
    pub(super) tasks: isize,
}

impl Turn {
    /// Whether a client does the same in both turns but for words: arguments, and texts of errors.
    pub(super) fn is_like(&self, other: &Turn) -> bool {
        self.acts.len() == other.acts.len()
            && self.acts.iter().zip(&other.acts).all(|(one, other)| one.is_like(other))
    }

    /// Whether nothing was done that others can notice.
    pub(super) fn is_idle(&self) -> bool {
        self.acts.iter().all(|act| act.text().is_none())
    }

    /// About how many bytes the words of its requests take.
    pub(super) fn value_bytes(&self) -> usize {
        let requests = self.acts.iter().filter_map(|act| match act {
            Act::Ask { request, .. } => Some(&request.request),
            Act::Delay { request, .. } => Some(request),
            _ => None,
        });
        requests.map(Request::value_bytes).sum()
    }

    /// One line: `it sent GET k; it entered cs; it ended`.
    pub(super) fn text(&self) -> String {
        self.acts.iter().filter_map(Act::text).collect::<Vec<_>>().join("; ")
    }
}

impl Act {
    fn is_like(&self, other: &Act) -> bool {
        let names = |request: &Request| -> Vec<_> {
            request.words().into_iter().map(|words| words.into_iter().next()).collect()
        };
        match (self, other) {
            (Act::Ask { request: one, .. }, Act::Ask { request: other, .. }) => {
                names(&one.request) == names(&other.request)
            }
            (Act::Enter { section: one, .. }, Act::Enter { section: other, .. }) => one == other,
            (Act::End(one), Act::End(other)) => discriminant(one) == discriminant(other),
            _ => discriminant(self) == discriminant(other),
        }
    }

    /// `None` if the act says nothing to people.
    fn text(&self) -> Option<String> {
        Some(match self {
            Act::Ask { request, .. } => format!("it sent {}", request.request.text().0),
            Act::AwaitMessage { .. } => "it waited for a message".into(),
            Act::GiveUp { .. } | Act::Delay { .. } => "it gave up a request".into(),
            Act::Enter { section, .. } => format!("it entered {section}"),
            Act::Extend { .. } => "it extended its stay".into(),
            Act::Leave { .. } => "it left".into(),
            Act::Accept { resource, token } => format!("{resource} accepted {token}"),
            Act::End(End::Done(_)) => "it ended".into(),
            Act::End(End::Error(error)) => format!("it failed: {error}"),
            Act::End(End::Panic(panic)) => format!("it failed: {panic}"),
            Act::ReadTime
            | Act::DrawName
            | Act::Open { .. }
            | Act::Close { .. }
            | Act::Withdraw { .. }
            | Act::BeginOperation
            | Act::EndOperation { .. } => return None,
        })
    }
}

/// A turn that has not ended.
#[derive(Clone, Debug)]
pub(super) struct Begun {
    /// The local state in which it began.
    key: Key,
    turn: Turn,
    /// A task besides the actor's own has acted.
    by_task: bool,
    /// How many tasks the actor's own code has spawned.
    spawned: isize,
}

impl Simulation {
    /// A client does this.
    pub(crate) fn note(&self, actor: Actor, act: impl FnOnce() -> Act) {
        if let Clients::Learned(..) = &self.clients {
            return;
        }
        let running = self.quiescence.runs_now();
        if running.is_some_and(|running| running != actor) {
            return self.note_unlearnable(actor);
        }
        let mut state = self.state();
        let is_meant = state.is_running && !state.actor(actor).is_crashed;
        drop(state);
        if is_meant {
            self.is_woken(actor);
            self.begin_turn(actor);
            if let Some(begun) = &mut self.state().actor(actor).begun {
                begun.by_task |= running.is_none();
                if let Clients::Teachers(_) = self.clients {
                    begun.turn.acts.push(act());
                }
            }
        }
    }

    /// The code of an actor has ended.
    pub(crate) fn note_end_of_code(&self, actor: Actor, end: &End) {
        self.quiescence.running(actor, || self.note(actor, || Act::End(end.clone())));
    }

    /// A client does something that cannot be learned.
    pub(crate) fn note_unlearnable(&self, actor: Actor) {
        if let Clients::Teachers(learned) = &self.clients {
            learned.note_sharing(self.code_of(actor));
        }
    }

    /// A client is woken. If nothing told it anything, a timer did it. While its process stands
    /// still, the first timer wakes it, and the others find it awake.
    pub(crate) fn is_woken(&self, actor: Actor) {
        let mut state = self.state();
        let client = state.actor(actor);
        let is_awake = client.begun.is_some() || client.pause.as_ref().is_some_and(Pause::is_awake);
        if std::mem::take(&mut client.is_told) || is_awake {
            return;
        }
        drop(state);
        let Clients::Teachers(learned) = &self.clients else { return };
        if self.is_moving() {
            learned.learn_timer(self.key(actor), Timer::At(self.now()));
        } else {
            // Another client woke it.
            self.note_unlearnable(actor);
        }
    }

    /// The turn of a client that is woken begins, unless it has begun.
    fn begin_turn(&self, actor: Actor) {
        if self.state().actor(actor).begun.is_none() {
            let key = self.runs_next(actor);
            self.state().actor(actor).begun =
                Some(Begun { key, turn: Turn::default(), by_task: false, spawned: 0 });
        }
    }

    /// The client is the next to run. Returns the local state in which it does.
    pub(super) fn runs_next(&self, actor: Actor) -> Key {
        self.tell(actor, || (), || Told::Turn);
        let mut state = self.state();
        state.recorder.client_ran(actor);
        state.n_turns += 1;
        state.actor(actor).latest_turn = state.n_turns;
        drop(state);
        self.key(actor)
    }

    /// The code of an actor is about to be polled. Returns `false` if that happened too often in
    /// this step. The execution then ends.
    pub(crate) fn may_poll(&self, actor: Actor, polls_max: u64) -> bool {
        self.begin_turn(actor);
        let at = self.now();
        let mut state = self.state();
        if let Some(begun) = &mut state.actor(actor).begun {
            begun.turn.polls += 1;
        }
        state.note_polls(at, actor, 1, polls_max)
    }

    /// The code of an actor has been polled. There were so many tasks before.
    pub(crate) fn polled(&self, actor: Actor, tasks_before: usize) {
        if let Some(begun) = &mut self.state().actor(actor).begun {
            begun.spawned += tasks().cast_signed() - tasks_before.cast_signed();
        }
    }

    /// No client can run: all turns have ended.
    pub(super) fn end_turns(&self) {
        let mut actors: Vec<Actor> = self.state().actors.iter().map(|state| state.actor).collect();
        for &actor in &actors {
            let mut state = self.state();
            let is_told = state.actor(actor).is_told && state.actor(actor).pause.is_none();
            if is_told && state.can_run(actor) {
                drop(state);
                self.is_woken(actor);
                self.begin_turn(actor);
            }
        }
        let mut state = self.state();
        actors.retain(|&actor| state.actor(actor).begun.is_some());
        let (by_tasks, owner) = state.count_tasks(&actors);
        let is_learned = (by_tasks == 0 || owner.is_some()) && state.is_running && !state.is_endless;
        for actor in actors {
            let begun = state.actor(actor).begun.take();
            if let (Clients::Teachers(learned), Some(Begun { key, turn, spawned, .. }), true) =
                (&self.clients, begun, is_learned)
            {
                let tasks = spawned + if owner == Some(actor) { by_tasks } else { 0 };
                learned.learn(key, Turn { tasks, ..turn });
            }
        }
    }
}

/// How many tasks there are.
pub(crate) fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

impl State {
    /// Counts the tasks of the clients besides those of the actors' own code, after these clients
    /// ran. Returns how many more there are than before without those that the actors' own code
    /// spawned, and whose they are. If it is not clear whose task came, any of them may own it. If
    /// it is not clear whose task went, no client lost one.
    fn count_tasks(&mut self, ran: &[Actor]) -> (isize, Option<Actor>) {
        let (spawned, mut change) = self.count_spawned(0);
        for &actor in ran {
            let client = self.actor(actor);
            let by_code = client.begun.as_ref().map_or(0, |begun| begun.spawned);
            client.spawned = client.spawned.saturating_add_signed(by_code);
            change -= by_code;
        }
        // A task that ends closes its connections.
        let acted = |actor: &&Actor| {
            let begun = &self.actors[self.idx(**actor)].begun;
            change > 0 || ran.len() == 1 || begun.as_ref().is_some_and(|begun| begun.by_task)
        };
        let owner = match &ran.iter().filter(acted).collect::<Vec<_>>()[..] {
            [owner] => Some(**owner),
            _ => None,
        };
        for state in self.actors.iter_mut() {
            let may_be_its = ran.is_empty() || ran.contains(&state.actor);
            if spawned == 0 {
                state.spawned = 0;
            } else if owner == Some(state.actor) || owner.is_none() && change > 0 && may_be_its {
                state.spawned = state.spawned.saturating_add_signed(change);
            }
        }
        (change, owner)
    }

    /// Counts the tasks that the destructors of a crashed client have spawned, while its own task
    /// ends. Nothing that they send arrives.
    pub(super) fn count_tasks_of_crashed(&mut self, actor: Actor) {
        let (_, change) = self.count_spawned(1);
        let client = self.actor(actor);
        client.spawned = client.spawned.saturating_add_signed(change);
    }

    /// Counts the tasks besides those of the actors' own code, of which `ending` now end. Returns
    /// their number, and how many more there are than before.
    fn count_spawned(&mut self, ending: usize) -> (usize, isize) {
        let own = self.actors.iter().filter(|state| self.runs(state.actor)).count() + ending;
        let spawned = tasks().saturating_sub(own);
        let before = std::mem::replace(&mut self.spawned, spawned);
        (spawned, spawned.cast_signed() - before.cast_signed())
    }
}
