//! The way of a request: it is sent or lost, runs on its server, and is answered. The schedule
//! decides when a request passes its gate; this file does not.

use std::io;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use emulator::Footprint;
use redis::{RedisResult, Value};

use super::gate::{Gate, GateState, Passage};
use super::learned_clients::Clients;
use super::session::Session;
use super::{Recording, Server, Simulation};
use crate::actor::Actor;
use crate::fault::{Delivery, Fault, FaultKind, RequestFault, RequestOutcome, Target};
use crate::live::{
    Answer, Blocked, Loss, OperationId, Pending, Request, RequestKind, Running, Told, Traffic, hash_result,
};
use crate::render::{Format, format_error, written_keys};
use crate::trace::{EventKind, HoldId, Sent};

/// A request that its client has given up and that is still on its way.
#[derive(Clone)]
pub(crate) struct Late {
    pub(super) request: Request,
    pub(super) session: Session,
}

impl Simulation {
    /// A request is about to come to its gate.
    fn announce(&self, gate: usize, at: Duration, brief: u64) {
        let mut state = self.state();
        let Gate { actor, traffic, .. } = state.gates[gate];
        state.note_request(at, actor, brief);
        if traffic == Traffic::Bytes && state.recorder.is_in_stall() {
            state.may_time_out(actor);
        }
    }

    /// A client comes to its gate with a request.
    pub(super) fn ask(&self, gate: usize, request: Pending, operation: Option<OperationId>) {
        let actor = self.ends(gate).0;
        // The time counts if it can pass before the request arrives: a lease may begin here.
        if self.timers.is_some() {
            self.note_time_read(actor);
        }
        self.announce(gate, request.sent, request.brief);
        let mut state = self.state();
        state.gates[gate].operation = operation;
        state.arrive(gate, request.sent);
        state.gates[gate].pending = Some(request);
        self.quiescence.note_activity();
    }

    /// A client no longer waits at its gate.
    pub(super) fn withdraw(&self, gate: usize) {
        if self.state().gates[gate].listens() {
            self.note_looking(gate);
        }
        self.note_awaited(gate);
        let mut state = self.state();
        let is_withdrawn = state.gates[gate].is_busy();
        state.gates[gate].pending = None;
        state.change_gate(gate, GateState::Empty);
        if is_withdrawn {
            self.quiescence.note_activity();
        }
    }

    /// Opens a connection, with this number among those of the actor.
    pub(super) fn open(&self, actor: Actor, nth: usize, server: usize, traffic: Traffic) {
        let session = self.new_session(actor, server);
        let mut state = self.state();
        let gate = state.gate(actor, nth).unwrap_or_else(|| {
            state.gates.push(Gate::new(actor, nth, server));
            state.gates.len() - 1
        });
        (state.gates[gate].session, state.gates[gate].traffic) = (Some(session), traffic);
    }

    /// Closes a connection, and records what that touches.
    pub(super) fn close(&self, gate: usize) {
        let Some(session) = self.state().gates[gate].session.take() else { return };
        let Gate { actor, server, traffic, .. } = self.state().gates[gate];
        self.note_connection(actor, server);
        let known = self.end_subscription(gate);
        match &session {
            Session::Emulator(connection) => {
                let closing = known.or_else(|| connection.get().map(|open| Arc::new(open.closing())));
                if let Some(closing) = closing.filter(|closing| !closing.is_empty()) {
                    self.state().recorder.server_access(server, closing);
                }
            }
            // A real server may notice the closed connection later than other clients see its next
            // effect.
            Session::Redis(_) if traffic == Traffic::Messages => _ = session.news("UNSUBSCRIBE"),
            Session::Redis(_) => {}
        }
    }

    /// Lets what waits at this gate pass.
    pub(crate) fn let_through(&self, gate: usize, passage: Passage) {
        let is_request = self.state().gates[gate].pending.is_some();
        if is_request {
            self.serve(gate, passage);
        } else {
            self.pass_message(gate, passage);
        }
    }

    /// Lets the request at this gate pass, and answers it.
    fn serve(&self, gate: usize, passage: Passage) {
        let Some(Pending { request, release, .. }) = self.state().gates[gate].pending.clone() else { return };
        if let Err(loss) = self.send(gate, &request, release, passage.fault) {
            return self.answer(gate, Answer::Lost(loss));
        }
        match self.run(gate, &request, &self.session(gate)) {
            Ok(result) => {
                if let (RequestKind::Subscribe { channel, .. }, Ok(Value::Array(_))) =
                    (&request.kind, &result)
                {
                    self.begin_subscription(gate, channel);
                }
                self.finish(gate, result, passage);
            }
            Err((running, footprint)) => match passage.outcome() {
                // The server no longer runs a command that has to wait.
                Some(RequestOutcome::Disconnected | RequestOutcome::Cancelled | RequestOutcome::Crashed) => {
                    drop(running);
                    self.finish(gate, Err(Loss::Connection.into()), passage);
                }
                _ => self.block(gate, running, footprint, passage),
            },
        }
    }

    /// A command waits on its server, for this.
    fn block(&self, gate: usize, running: Running, footprint: Option<Arc<Footprint>>, passage: Passage) {
        let Gate { actor, nth, server, .. } = self.state().gates[gate];
        let emulator = match &self.servers[server] {
            Server::Emulator(emulator) => Some(emulator.clone()),
            Server::Redis(_) => None,
        };
        let answer = Answer::Waits(Arc::new(Mutex::new(Some(Blocked { running, emulator }))));
        self.state().change_gate(gate, GateState::Blocked(passage, footprint));
        self.bring(actor, &Told::Answered { nth, answer });
    }

    /// A command that waits on its server has looked there.
    pub(super) fn look(&self, gate: usize, footprint: Arc<Footprint>) {
        let server = self.ends(gate).1;
        self.set_footprint(server, footprint);
        self.note_footprint(server);
    }

    /// If a command waits on its server, records once more what it waits for: it ends.
    pub(super) fn note_awaited(&self, gate: usize) {
        let mut state = self.state();
        if let GateState::Blocked(_, Some(footprint)) = &state.gates[gate].gate_state {
            let (footprint, server) = (footprint.clone(), state.gates[gate].server);
            state.recorder.server_access(server, footprint);
        }
    }

    /// A command no longer waits on its server.
    pub(super) fn unblock(&self, gate: usize, result: RedisResult<Value>) {
        let gate_state = self.state().gates[gate].gate_state.clone();
        if let GateState::Blocked(passage, _) = gate_state {
            self.note_awaited(gate);
            self.state().change_gate(gate, GateState::Empty);
            self.finish(gate, result, passage);
        }
    }

    /// The session of an open connection.
    pub(crate) fn session(&self, gate: usize) -> Session {
        self.state().gates[gate].session.clone().expect("the connection is open")
    }

    /// The client and the server of a connection.
    pub(super) fn ends(&self, gate: usize) -> (Actor, usize) {
        let state = self.state();
        (state.gates[gate].actor, state.gates[gate].server)
    }

    /// The request is sent, and arrives unless a fault prevents that.
    fn send(
        &self,
        gate: usize,
        request: &Request,
        release: Option<HoldId>,
        fault: Option<Fault>,
    ) -> Result<(), Loss> {
        let actor = self.state().gates[gate].actor;
        let of_request = fault.and_then(Fault::of_request);
        let (Some(fault), Some(RequestFault { delivery, outcome, .. })) = (fault, of_request) else {
            self.before_command(actor, release);
            return Ok(());
        };
        let loss = match (delivery, outcome) {
            (Delivery::Now, _) => {
                self.before_command(actor, release);
                return Ok(());
            }
            (Delivery::Later, _) => Loss::Late,
            (Delivery::Never, RequestOutcome::Disconnected) => Loss::Connection,
            (Delivery::Never, _) => Loss::Request,
        };
        self.before_send(release);
        self.record_request_fault(actor, fault, || self.struck(gate, request));
        match loss {
            Loss::Late => self.delay(gate, request.clone()),
            Loss::Connection => self.reopen(gate),
            Loss::Request | Loss::Reply => {}
        }
        Err(loss)
    }

    /// Runs a request, and records what the server touched. If the command has to wait, returns
    /// what it waits for.
    fn run(
        &self,
        gate: usize,
        request: &Request,
        session: &Session,
    ) -> Result<RedisResult<Value>, (Running, Option<Arc<Footprint>>)> {
        let Gate { actor, nth, server, .. } = self.state().gates[gate];
        if self.refuses(server, actor) {
            return Ok(Err(io::Error::from(io::ErrorKind::ConnectionRefused).into()));
        }
        let deed = self.deed(request, (actor, nth));
        if let Some(reply) = self.repeat_deed(server, deed) {
            self.note_command(server);
            return Ok(Ok(reply));
        }
        if let Session::Redis(_) = session {
            let named = request.commands().flat_map(written_keys).map(|key| (server, key));
            self.state().named_keys.extend(named);
        }
        let is_subscribing = matches!(request.kind, RequestKind::Subscribe { .. });
        let own = if is_subscribing { self.subscribing(server, (actor, nth)) } else { None };
        if let (Server::Emulator(emulator), Recording::Full) = (&self.servers[server], self.recording) {
            emulator.keep_script_calls();
        }
        let mut running = own.as_ref().unwrap_or(session).run(request.clone());
        let poll = running.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let reply = if let Poll::Ready(Ok(reply)) = &poll { Some(reply) } else { None };
        self.learn_deed(server, deed, reply, own);
        self.note_command(server);
        match poll {
            Poll::Ready(result) => Ok(result),
            Poll::Pending => Err((running, self.footprint(server))),
        }
    }

    /// A request has run. Records that, and answers the client unless a fault or a late reply keeps
    /// the answer back.
    pub(crate) fn finish(&self, gate: usize, result: RedisResult<Value>, passage: Passage) {
        let actor = self.ends(gate).0;
        let Some(Pending { request, brief, sent, .. }) = self.state().gates[gate].pending.clone() else {
            return;
        };
        self.record_result(gate, &request, &result);
        self.note_exchange(actor, brief, hash_result(&result));
        if result.is_err() && self.session(gate).is_hung_up() {
            self.state().lose_connection(actor);
            self.reopen(gate);
        }
        if passage.is_reply_late {
            self.state().change_gate(gate, GateState::Replied(result));
            return self.quiescence.note_activity();
        }
        let (Some(fault), Some(outcome)) = (passage.fault, passage.outcome()) else {
            return self.answer(gate, Answer::Reply(result));
        };
        // A client that has crashed observes nothing more. The step records its end.
        if outcome != RequestOutcome::Crashed {
            self.record_request_fault(actor, fault, || self.struck(gate, &request));
        }
        match outcome {
            RequestOutcome::Resent => {
                self.state().arrive(gate, sent);
                self.quiescence.note_activity();
            }
            RequestOutcome::TimedOut => self.answer(gate, Answer::Lost(Loss::Reply)),
            RequestOutcome::Cancelled => {
                self.state().change_gate(gate, GateState::Empty);
                self.cancel_request(gate);
            }
            RequestOutcome::Crashed => self.state().change_gate(gate, GateState::Empty),
            RequestOutcome::Disconnected => {
                self.reopen(gate);
                self.answer(gate, Answer::Lost(Loss::Connection));
            }
        }
    }

    /// The reply that is on its way arrives.
    pub(crate) fn deliver(&self, gate: usize) {
        let actor = self.state().gates[gate].actor;
        if self.recording == Recording::Full {
            self.record(EventKind::Received { actor });
        }
        let replied = std::mem::replace(&mut self.state().gates[gate].gate_state, GateState::Empty);
        if let GateState::Replied(result) = replied {
            self.answer(gate, Answer::Reply(result));
        }
    }

    /// The client no longer waits for a reply.
    pub(crate) fn give_up(&self, gate: usize) {
        let state = self.state();
        let Gate { actor, nth, .. } = state.gates[gate];
        let (is_waiting, is_replied) = (state.gates[gate].waits(), state.gates[gate].awaits_reply());
        let pending = state.gates[gate].pending.clone();
        drop(state);
        let Some(Pending { request, .. }) = pending else { return };
        self.quiescence.note_activity();
        let fault = |kind| Fault::new(kind, Target::Connection(actor, nth));
        if is_waiting {
            self.serve(gate, Passage { fault: Some(fault(FaultKind::Delay)), ..Passage::default() });
        } else if is_replied {
            self.record_request_fault(actor, fault(FaultKind::LoseReply), || self.struck(gate, &request));
            self.answer(gate, Answer::Lost(Loss::Reply));
        }
    }

    fn answer(&self, gate: usize, answer: Answer) {
        let Gate { actor, nth, .. } = self.state().gates[gate];
        let mut state = self.state();
        state.gates[gate].pending = None;
        state.change_gate(gate, GateState::Empty);
        drop(state);
        self.tell(actor, &Told::Answered { nth, answer });
    }

    /// Opens a new session in place of a broken one.
    fn reopen(&self, gate: usize) {
        self.close(gate);
        let (actor, server) = self.ends(gate);
        let session = self.new_session(actor, server);
        self.state().gates[gate].session = Some(session);
    }

    /// Opens a session of an actor. If the servers run only what is not known, the connection is
    /// opened at its first request that runs.
    fn new_session(&self, actor: Actor, server: usize) -> Session {
        let session = Session::open(&self.servers[server]);
        self.note_connection(actor, server);
        if let (Session::Emulator(connection), Clients::Tasks) = (&session, &self.clients) {
            let id = self.state().next_connection(actor);
            connection.open_with(id);
        }
        session
    }

    /// Keeps a request for later.
    pub(super) fn delay(&self, gate: usize, request: Request) {
        let session = self.session(gate);
        let mut state = self.state();
        state.gates[gate].was_given_up = true;
        state.gates[gate].late.push_back(Late { request, session });
    }

    /// Runs the oldest request of this connection that its client has given up. It does not wait
    /// for anything on the server.
    pub(crate) fn run_late(&self, gate: usize) {
        let late = self.state().gates[gate].late.pop_front();
        let Some(Late { request, session }) = late else { return };
        let actor = self.ends(gate).0;
        self.before_command(actor, None);
        let result = self.run(gate, &request, &session);
        let result = result.unwrap_or_else(|_| Err(Loss::Late.into()));
        self.record_result(gate, &request, &result);
        self.record(EventKind::Late { actor });
    }

    /// Records a request that has run.
    fn record_result(&self, gate: usize, request: &Request, result: &RedisResult<Value>) {
        let (actor, server) = self.ends(gate);
        if self.recording == Recording::Full {
            let reply = result.as_ref().map_or_else(format_error, Format::show);
            let changed = self.changed_keys(server);
            let late = self.real_time.get().map_or(Duration::ZERO, |real_time| real_time.late(self.now()));
            let (text, brief) = request.text();
            let script = self.script(server, request);
            let Gate { nth: connection, traffic, .. } = self.state().gates[gate];
            let (commands, is_shared) = (request.words(), traffic == Traffic::Bytes);
            let sent = Box::new(Sent { commands, connection, is_shared });
            let kind = EventKind::Command { actor, server, text, brief, script, reply, changed, late, sent };
            self.record(kind);
        }
        self.after_command(actor);
        if let Server::Redis(_) = self.servers[server] {
            self.hear_from(server);
        }
    }

    /// Notes that a connection opens or closes. A crashed client has none.
    fn note_connection(&self, actor: Actor, server: usize) {
        let mut state = self.state();
        if !state.actor(actor).is_crashed {
            state.recorder.connection_changed(server);
        }
    }
}
