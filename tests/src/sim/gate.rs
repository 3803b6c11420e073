//! The gates at which the requests and the messages of clients wait.

use std::collections::VecDeque;
use std::sync::Arc;

use emulator::{Footprint, Timestamp};
use redis::{RedisResult, Value};

use super::session::Session;
use crate::actor::Actor;
use crate::fault::{Fault, FaultKind, RequestOutcome, Target};
use crate::live::{OperationId, Pending, Request, Traffic};
use crate::memo::Touches;

/// One connection of an actor, as it waits.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) actor: Actor,
    /// The number of this connection among those of the actor, from 0.
    pub(crate) nth: usize,
    /// The number to which the client connects: that of a server, whose primary it finds, or that
    /// of a replica.
    pub(super) address: usize,
    /// The node to which the connection leads.
    pub(crate) server: usize,
    /// The connection is open while there is a session. The next connection that opens takes the
    /// place of a closed one.
    pub(crate) session: Option<Session>,
    pub(super) gate_state: GateState,
    /// Time has passed while this waits. It keeps other clients from sleeping no longer.
    pub(super) is_slow: bool,
    /// The traffic that waits at this gate.
    pub(crate) traffic: Traffic,
    /// The request that the client waits for.
    pub(crate) pending: Option<Pending>,
    /// The operation of what waits, if the operation can be cancelled.
    pub(crate) operation: Option<OperationId>,
    /// Requests that the client has given up and that are still on their way, the oldest first.
    pub(crate) late: VecDeque<Late>,
    /// The client has given up a request here. Then no other connection takes this place: whether
    /// the request has run must not decide which place is free.
    pub(crate) was_given_up: bool,
    /// The client gives up its request, and does not wait to hear what became of it either.
    pub(super) is_left: bool,
    /// The server has closed the connection, and the client has not noticed that.
    pub(super) is_broken: bool,
    /// The last write on this connection, by its place in the log for replicas.
    pub(super) wrote: Option<usize>,
    /// The client's last write was on a connection that a failover has ended since.
    pub(super) wrote_before: bool,
    /// The subscription of this connection.
    pub(super) subscription: Option<Subscription>,
    /// Messages on their way that are no replies, the oldest first. `None` is the end of the
    /// connection.
    pub(super) pushes: VecDeque<Option<Value>>,
    /// How many of them the server has written before its reply to the request.
    pub(super) n_before_reply: usize,
}

impl Gate {
    /// A new connection, with this number among those of the actor.
    pub(crate) fn new(actor: Actor, nth: usize, server: usize) -> Gate {
        Gate {
            actor,
            nth,
            address: server,
            server,
            session: None,
            gate_state: GateState::Empty,
            is_slow: false,
            traffic: Traffic::Requests,
            pending: None,
            operation: None,
            late: VecDeque::new(),
            was_given_up: false,
            is_left: false,
            is_broken: false,
            wrote: None,
            wrote_before: false,
            subscription: None,
            pushes: VecDeque::new(),
            n_before_reply: 0,
        }
    }

    /// A new connection leads to this server.
    pub(super) fn lead_to(&mut self, server: usize) {
        (self.server, self.wrote, self.wrote_before) = (server, None, false);
    }

    /// A fault of this kind that strikes what passes here.
    pub(super) fn fault(&self, kind: FaultKind) -> Fault {
        Fault::new(kind, Target::Connection(self.actor, self.nth))
    }

    /// Whether a request or a message waits.
    pub(crate) fn waits(&self) -> bool {
        matches!(self.gate_state, GateState::Waiting)
    }

    /// Whether what passes here is a message, or comes from outside: it has no reply.
    pub(crate) fn is_one_way(&self) -> bool {
        matches!(self.traffic, Traffic::Messages | Traffic::Arrivals)
    }

    /// Whether a reply is on the way.
    pub(crate) fn awaits_reply(&self) -> bool {
        matches!(self.gate_state, GateState::Replied(_))
    }

    /// Whether a reply or another message of the server is on the way.
    pub(crate) fn receives(&self) -> bool {
        self.awaits_reply() || !self.pushes.is_empty()
    }

    /// Nothing more arrives on this connection but the reply that is on the way.
    pub(super) fn lose_pushes(&mut self) {
        self.pushes.clear();
        self.n_before_reply = 0;
    }

    /// Whether something is on its way here, so that the client does not sleep.
    pub(crate) fn is_busy(&self) -> bool {
        self.waits() || self.receives()
    }

    /// Whether the client is amid a request that is slow.
    pub(crate) fn is_slow(&self) -> bool {
        self.is_busy() && self.is_slow
    }

    /// Changes what waits here. Returns whether it was slow, and waits no longer.
    pub(super) fn change_to(&mut self, gate_state: GateState) -> bool {
        self.gate_state = gate_state;
        let was_slow = self.is_slow;
        self.is_slow &= self.is_busy();
        was_slow && !self.is_slow
    }

    /// Whether a client that polls its subscription looks for a message: none waits, or has passed.
    pub(super) fn looks(&self) -> bool {
        matches!(self.gate_state, GateState::Empty | GateState::Listening)
    }

    /// Whether the client waits for a message, and none is there.
    pub(super) fn listens(&self) -> bool {
        matches!(self.gate_state, GateState::Listening)
    }

    /// Whether its subscription is to keyspace notifications.
    pub(super) fn hears_of_keys(&self) -> bool {
        self.subscription.as_ref().is_some_and(|subscription| subscription.channel.starts_with("__key"))
    }

    /// Whether a command waits on its server.
    pub(super) fn is_blocked(&self) -> bool {
        matches!(self.gate_state, GateState::Blocked(_))
    }

    /// How many replicas the request waits for if it is `WAIT`, and whether for a limited time.
    pub(super) fn waits_for_replicas(&self) -> Option<(i64, bool)> {
        self.pending.as_ref()?.request.waits_for_replicas()
    }

    /// A hash of the server, the name and the first key of the request.
    pub(crate) fn brief(&self) -> Option<u64> {
        self.pending.as_ref().map(|pending| pending.brief)
    }
}

/// Whether something waits at a gate, and whether it may pass.
#[derive(Clone)]
pub(crate) enum GateState {
    /// Nothing waits.
    Empty,
    /// The client waits for a message, and none is there.
    Listening,
    /// A request or a message waits.
    Waiting,
    /// The server has replied, and the reply is on the way.
    Replied(RedisResult<Value>),
    /// The command waits on its server.
    Blocked(Wait),
}

/// How a command waits on its server.
#[derive(Clone)]
pub(crate) struct Wait {
    pub(super) passage: Passage,
    /// What it waits for.
    pub(super) footprint: Option<Arc<Footprint>>,
    /// When it ends by itself, by the clock of the server.
    pub(super) ends_at: Option<Timestamp>,
}

/// How a request or a message passes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passage {
    /// This fault strikes it.
    pub(crate) fault: Option<Fault>,
    /// Its reply arrives in a step of its own.
    pub(crate) is_reply_late: bool,
}

impl Passage {
    /// The outcome that the fault has for the client.
    pub(super) fn outcome(&self) -> Option<RequestOutcome> {
        self.fault.and_then(Fault::of_request).map(|fault| fault.outcome)
    }
}

/// A request that its client has given up and that is still on its way.
#[derive(Clone)]
pub(crate) struct Late {
    pub(super) request: Request,
    pub(super) session: Session,
    pub(super) task: usize,
}

/// The subscription of a connection.
#[derive(Clone)]
pub(super) struct Subscription {
    pub(super) channel: String,
    /// Messages that the client has not received, the oldest first.
    pub(super) messages: VecDeque<Vec<u8>>,
    /// No more messages will come.
    pub(super) is_closed: bool,
    pub(super) touches: Arc<Touches>,
}
