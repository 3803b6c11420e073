//! The states of servers, and how they follow from one another.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use emulator::{BlockedCommand, Emulator, Footprint, SlotMap, Snapshot, Timestamp, Unit};
use foldhash::quality::FixedState;
use indexmap::IndexSet;
use redis::{RedisResult, Value};

use super::{CodeId, Memo};
use crate::actor::Actor;
use crate::live::value_bytes;
use crate::trace::{Event, EventKind, Reached};

/// Most histories of probes that are remembered. If there are as many, all of them are forgotten:
/// many executions end in states of their own.
const PROBES_MAX: usize = 5_000;
/// Most judgements of invariants that are remembered, in the same way.
const JUDGEMENTS_MAX: usize = 50_000;

/// Identifies a state of a server: its data, its subscribers, and the commands that wait there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ServerState {
    snapshot: usize,
    /// `None` if there are none.
    subscribers: Option<usize>,
    /// `None` if there are none.
    waiters: Option<usize>,
}

impl ServerState {
    /// Whether a server holds the same data in both states.
    pub(crate) fn holds_as(self, other: ServerState) -> bool {
        self.snapshot == other.snapshot
    }

    /// The data of the other state, and the clients of this one.
    pub(crate) fn with_data_of(self, other: ServerState) -> ServerState {
        ServerState { snapshot: other.snapshot, ..self }
    }
}

/// A subscriber: its actor, the number of its connection among those of the actor, and its channel.
pub(crate) type Subscriber = (Actor, usize, String);

/// A command that waits on a server.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) actor: Actor,
    /// The number of its connection among those of the actor.
    pub(crate) nth: usize,
    /// The hash of the request.
    pub(crate) request: u64,
    pub(crate) command: BlockedCommand,
}

impl Waiter {
    fn key(&self) -> (Actor, usize, u64, Option<Timestamp>) {
        (self.actor, self.nth, self.request, self.command.ends_at())
    }
}

impl PartialEq for Waiter {
    fn eq(&self, other: &Waiter) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Waiter {}

impl Hash for Waiter {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.key().hash(hasher);
    }
}

/// The states of servers, and how they follow from one another.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownServers {
    snapshots: Vec<Arc<Snapshot>>,
    /// The state of a server that holds nothing.
    empty: Option<ServerState>,
    /// The places of snapshots by their digests.
    places: Memo<u64, usize>,
    /// The subscribers of a server, in the order in which they subscribed.
    subscribers: IndexSet<Arc<[Subscriber]>, FixedState>,
    /// The commands that wait on a server, in the order in which they arrived.
    waiters: IndexSet<Arc<[Waiter]>, FixedState>,
    touches: Memo<String, Arc<Touches>>,
    transitions: Memo<Deed, Arc<Transition>>,
    /// About how many bytes the values in snapshots, replies and messages take.
    pub(super) value_bytes: usize,
    probes: Memo<BeforeProbes, Arc<Probes>>,
    judgements: Memo<BeforeJudgement, Arc<Judgement>>,
}

/// A server does something: its state before, the time that its clock shows, and a hash of what it
/// does.
type Deed = (ServerState, Timestamp, u64);

/// The reply of a server.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Now(Value),
    /// The command waits.
    Later(BlockedCommand),
}

/// The answer of a server.
#[derive(Debug)]
pub(crate) struct Transition {
    pub(crate) reply: Reply,
    pub(crate) footprint: Arc<Footprint>,
    /// The effects that its replicas get, if it has any.
    pub(crate) units: Vec<Arc<Unit>>,
    pub(crate) next: ServerState,
    /// The messages that it sent, in order.
    pub(crate) messages: Vec<((Actor, usize), Vec<u8>)>,
    /// The replies to commands that waited, in the order in which they arrived.
    pub(crate) served: Vec<((Actor, usize), RedisResult<Value>)>,
}

/// Everything on which the history of the probes depends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BeforeProbes {
    pub(crate) code: CodeId,
    /// The history has the times of the servers.
    pub(crate) judges_times: bool,
    pub(crate) wanted: u32,
    /// A lease has passed since the last client ended.
    pub(crate) after: Option<Duration>,
    pub(crate) at: Duration,
    pub(crate) servers: Vec<Option<ServerState>>,
    /// Which of them have which slots, if they are a cluster.
    pub(crate) slot_map: Option<Arc<SlotMap>>,
}

/// Everything on which the judgement of an invariant depends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BeforeJudgement {
    pub(crate) code: CodeId,
    /// The time by the clock of each server.
    pub(crate) at: Vec<Timestamp>,
    pub(crate) servers: Vec<Option<ServerState>>,
}

/// The judgement of an invariant, and what it read on each server.
#[derive(Debug)]
pub(crate) struct Judgement {
    pub(crate) violation: Option<String>,
    pub(crate) reads: Vec<(usize, Arc<Footprint>)>,
}

/// The history of the probes.
#[derive(Debug)]
pub(crate) struct Probes {
    pub(crate) events: Vec<Event>,
    pub(crate) reached: Reached,
}

/// The things that a subscriber touches on its server: when it polls, and when it ends.
#[derive(Debug, Default)]
pub(crate) struct Touches {
    pub(crate) looking: Arc<Footprint>,
    pub(crate) closing: Arc<Footprint>,
    /// After the server has closed the connection.
    pub(crate) looking_closed: Arc<Footprint>,
    pub(crate) closing_closed: Arc<Footprint>,
}

impl Touches {
    /// The things that a subscriber of this channel touches.
    fn of(channel: &str) -> Touches {
        let emulator = Emulator::new();
        let mut connection = emulator.connection();
        connection.execute(&[b"SUBSCRIBE", channel.as_bytes()]);
        let touched = || (Arc::new(connection.looking()), Arc::new(connection.closing()));
        let (looking, closing) = touched();
        emulator.hang_up();
        let (looking_closed, closing_closed) = touched();
        Touches { looking, closing, looking_closed, closing_closed }
    }
}

impl KnownServers {
    /// The state of a server without clients that has this complete snapshot, with its digest.
    pub(crate) fn state_of(&mut self, digest: u64, snapshot: &Arc<Snapshot>) -> ServerState {
        let KnownServers { places, snapshots, value_bytes, .. } = self;
        let place = *places.get_or_learn(digest, |_| {
            *value_bytes += snapshot.data_bytes();
            snapshots.push(snapshot.clone());
            snapshots.len() - 1
        });
        debug_assert_eq!(snapshots[place].data_bytes(), snapshot.data_bytes(), "two snapshots, one digest");
        ServerState { snapshot: place, subscribers: None, waiters: None }
    }

    /// The state of a server that holds nothing.
    pub(crate) fn empty(&mut self) -> ServerState {
        self.empty.unwrap_or_else(|| {
            let snapshot = Arc::new(Emulator::new().snapshot());
            let empty = self.state_of(snapshot.digest(), &snapshot);
            *self.empty.insert(empty)
        })
    }

    /// The snapshot of a server in this state.
    pub(crate) fn snapshot(&self, state: ServerState) -> &Arc<Snapshot> {
        &self.snapshots[state.snapshot]
    }

    /// The subscribers of a server in this state.
    pub(crate) fn subscribers(&self, state: ServerState) -> &[Subscriber] {
        state.subscribers.map_or(&[], |place| &self.subscribers[place])
    }

    /// Changes the subscribers of a server in this state.
    pub(crate) fn change_subscribers(
        &mut self,
        state: &mut ServerState,
        change: impl FnOnce(&mut Vec<Subscriber>),
    ) {
        let mut subscribers = self.subscribers(*state).to_vec();
        change(&mut subscribers);
        let place = (!subscribers.is_empty()).then(|| self.subscribers.insert_full(subscribers.into()).0);
        state.subscribers = place;
    }

    /// The commands that wait on a server in this state.
    pub(crate) fn waiters(&self, state: ServerState) -> &[Waiter] {
        state.waiters.map_or(&[], |place| &self.waiters[place])
    }

    /// Changes the commands that wait on a server in this state.
    pub(crate) fn change_waiters(&mut self, state: &mut ServerState, change: impl FnOnce(&mut Vec<Waiter>)) {
        let mut waiters = self.waiters(*state).to_vec();
        change(&mut waiters);
        state.waiters = (!waiters.is_empty()).then(|| self.waiters.insert_full(waiters.into()).0);
    }

    /// The things that a subscriber of this channel touches.
    pub(crate) fn touches(&mut self, channel: &str) -> Arc<Touches> {
        self.touches.get_or_learn(channel.to_owned(), |channel| Arc::new(Touches::of(channel))).clone()
    }

    /// The answer of a server, if that is known.
    pub(crate) fn transition(&self, deed: &Deed) -> Option<Arc<Transition>> {
        self.transitions.get(deed).cloned()
    }

    /// Learns the answer of a server, and returns it.
    pub(crate) fn learn(&mut self, deed: Deed, transition: Transition) -> Arc<Transition> {
        let heard = transition.messages.iter().map(|(_, message)| message.len()).sum::<usize>();
        let replies = transition.served.iter().filter_map(|(_, result)| result.as_ref().ok());
        let reply = if let Reply::Now(reply) = &transition.reply { Some(reply) } else { None };
        self.value_bytes += replies.chain(reply).map(value_bytes).sum::<usize>() + heard;
        debug_assert!(self.transitions.get(&deed).is_none(), "a server that is known does not run");
        let transition = Arc::new(transition);
        self.transitions.learn(deed, transition.clone());
        transition
    }

    /// The history of probes, if that is known.
    pub(crate) fn probes(&self, before: &BeforeProbes) -> Option<Arc<Probes>> {
        self.probes.get(before).cloned()
    }

    /// Learns the history of probes. The number of a write counts the commands of all clients, so
    /// such probes depend on more.
    pub(crate) fn learn_probes(&mut self, before: BeforeProbes, probes: Probes) {
        if !probes.events.iter().any(|event| matches!(event.kind, EventKind::Accepted { .. })) {
            self.probes.bound(PROBES_MAX);
            self.probes.learn(before, Arc::new(probes));
        }
    }

    /// The judgement of an invariant, if that is known.
    pub(crate) fn judgement(&self, before: &BeforeJudgement) -> Option<Arc<Judgement>> {
        self.judgements.get(before).cloned()
    }

    /// Learns the judgement of an invariant.
    pub(crate) fn learn_judgement(&mut self, before: BeforeJudgement, judgement: Arc<Judgement>) {
        self.judgements.bound(JUDGEMENTS_MAX);
        self.judgements.learn(before, judgement);
    }

    /// The number of known answers.
    pub(super) fn len(&self) -> usize {
        self.transitions.len()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    /// A command that waits on a server.
    fn blocked() -> BlockedCommand {
        let connection = Emulator::new().connection();
        let pop = redis::cmd("BLPOP").arg(&["list", "0"]).to_owned();
        let mut popped = pin!(connection.exchange(&pop));
        assert!(popped.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        connection.blocked().unwrap()
    }

    #[test]
    fn equal_waiters_are_in_one_state() {
        let (mut servers, command) = (KnownServers::default(), blocked());
        let empty = servers.empty();
        let mut with = |request| {
            let (waiter, mut state) =
                (Waiter { actor: Actor(0), nth: 0, request, command: command.clone() }, empty);
            servers.change_waiters(&mut state, |waiters| waiters.push(waiter));
            state
        };
        assert_eq!(with(1), with(1));
        assert_ne!(with(1), with(2));
        assert!(with(1).holds_as(empty));
    }

    #[test]
    fn replies_and_messages_are_counted_as_bytes() {
        let mut servers = KnownServers::default();
        let (next, bytes) = (servers.empty(), |len| Value::BulkString(vec![b'x'; len]));
        assert_eq!(servers.value_bytes, 0);
        let transition = Transition {
            reply: Reply::Now(bytes(3)),
            footprint: Arc::default(),
            units: Vec::new(),
            next,
            messages: vec![((Actor(0), 0), vec![b'x'; 10])],
            served: vec![((Actor(1), 0), Ok(bytes(20)))],
        };
        servers.learn((next, Timestamp::from_millis(0), 0), transition);
        assert_eq!(servers.value_bytes, 33);
    }

    /// The numbers of writes depend on more than the state of the servers.
    #[test]
    fn probes_that_write_are_not_learned() {
        let before = || BeforeProbes {
            code: 0,
            judges_times: false,
            wanted: 1,
            after: None,
            at: Duration::ZERO,
            servers: Vec::new(),
            slot_map: None,
        };
        let (actor, resource) = (Actor(0), "r");
        let write = EventKind::Accepted { actor, resource, token: 1, nth: 1 };
        for (kind, is_learned) in [(write, false), (EventKind::AllEnded, true)] {
            let mut servers = KnownServers::default();
            let events = vec![Event { step: 0, at: Duration::ZERO, kind }];
            servers.learn_probes(before(), Probes { events, reached: Reached::default() });
            assert_eq!(servers.probes(&before()).is_some(), is_learned);
        }
    }

    #[test]
    fn judgements_are_learned() {
        let before = || BeforeJudgement { code: 0, at: Vec::new(), servers: Vec::new() };
        let mut servers = KnownServers::default();
        assert!(servers.judgement(&before()).is_none());
        servers.learn_judgement(before(), Arc::new(Judgement { violation: None, reads: Vec::new() }));
        assert!(servers.judgement(&before()).is_some());
    }
}
