//! The way of a request: it is sent or lost, runs on its server, and is answered. The schedule
//! decides when a request passes its gate; this file does not.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use emulator::Clock;
use redis::{RedisResult, Value};

use super::clients::Clients;
use super::gate::{Gate, GateState, Late, Passage};
use super::session::Session;
use super::waits::Waiting;
use super::{Life, Recording, START, Server, Simulation, World};
use crate::actor::Actor;
use crate::fault::{Delivery, Fault, FaultKind, RequestFault, RequestOutcome};
use crate::live::{Answer, Loss, OperationId, Pending, Request, RequestKind, Told, Traffic, hash_result};
use crate::memo::Reply;
use crate::render::{format_error, written_keys};
use crate::trace::{EventKind, HoldId, Sent};

/// How far a request has run.
enum Ran {
    Ended(RedisResult<Value>),
    /// The command waits on its server.
    Waits(Waiting),
}

impl Simulation {
    /// A client comes to its gate with a request.
    pub(super) fn ask(&mut self, gate: usize, request: Pending, operation: Option<OperationId>) {
        let world = &mut self.world;
        let Gate { actor, traffic, .. } = world.gates[gate];
        // The time counts if it can pass before the request arrives: a lease may begin here.
        if self.timers.is_some() {
            world.note_time_read(actor);
        }
        world.note_request(actor, request.brief);
        world.note_slots(&request.request);
        if traffic.is_stream() && world.recorder.is_in_stall() {
            world.may_time_out(actor);
        }
        world.gates[gate].operation = operation;
        world.arrive(gate, request.sent);
        world.gates[gate].pending = Some(request);
    }

    /// A client no longer waits at its gate.
    pub(super) fn withdraw(&mut self, gate: usize) {
        if self.world.gates[gate].listens() {
            self.note_looking(gate);
        }
        self.stop_waiting(gate);
        let world = &mut self.world;
        let is_withdrawn = world.gates[gate].is_busy();
        world.gates[gate].pending = None;
        world.change_gate(gate, GateState::Empty);
        if is_withdrawn {
            world.note_activity();
        }
    }

    /// Opens a connection, with this number among those of the actor.
    pub(super) fn open(&mut self, actor: Actor, nth: usize, server: usize, traffic: Traffic) {
        let (address, server) = (server, self.find(server));
        let session = (traffic != Traffic::Arrivals).then(|| self.new_session(actor, server, traffic));
        let world = &mut self.world;
        let gate = world.gate(actor, nth).unwrap_or_else(|| {
            world.gates.push(Gate::new(actor, nth, server));
            world.gates.len() - 1
        });
        world.gates[gate].address = address;
        world.gates[gate].lead_to(server);
        (world.gates[gate].session, world.gates[gate].traffic) = (session, traffic);
    }

    /// The node to which a new connection leads.
    fn find(&mut self, address: usize) -> usize {
        let node = self.world.node_at(address);
        if self.config.replicas > 0 {
            self.world.recorder.primary_found(node);
        }
        node
    }

    /// Closes a connection, and records what that touches.
    pub(super) fn close(&mut self, gate: usize) {
        let Some(session) = self.world.gates[gate].session.take() else { return };
        let Gate { actor, server, traffic, .. } = self.world.gates[gate];
        self.world.gates[gate].lose_pushes();
        self.world.note_connection(actor, server);
        let known = self.end_subscription(gate);
        match &session {
            Session::Emulator(connection) => {
                let closing = known.or_else(|| connection.get().map(|open| Arc::new(open.closing())));
                if let Some(closing) = closing.filter(|closing| !closing.is_empty()) {
                    self.world.recorder.server_access_beside(server, closing);
                }
            }
            // A real server may notice the closed connection later than other clients see its next
            // effect.
            Session::Redis(_) if traffic == Traffic::Messages => _ = session.news("UNSUBSCRIBE"),
            Session::Redis(_) => {}
        }
    }

    /// Lets what waits at this gate pass.
    pub(crate) fn let_through(&mut self, gate: usize, passage: Passage) {
        let passage = self.passage_through(gate, passage);
        let Gate { traffic, ref pending, .. } = self.world.gates[gate];
        match pending {
            Some(_) if traffic == Traffic::Arrivals => self.arrive(gate),
            Some(_) => self.serve(gate, passage),
            None => self.pass_message(gate, passage),
        }
    }

    /// Something comes to the client from outside.
    fn arrive(&mut self, gate: usize) {
        let Gate { actor, ref pending, .. } = self.world.gates[gate];
        let brief = pending.as_ref().map_or(0, |pending| pending.brief);
        self.world.record(EventKind::Arrived { actor });
        self.note_exchange(actor, brief, 0);
        self.answer(gate, Answer::Reply(Ok(Value::Okay)));
    }

    /// Lets the request at this gate pass, and answers it.
    fn serve(&mut self, gate: usize, passage: Passage) {
        let Some(Pending { request, release, .. }) = self.world.gates[gate].pending.clone() else { return };
        if self.notice_broken(gate, &request) {
            return;
        }
        if let Err(loss) = self.send(gate, &request, release, passage.fault) {
            return self.answer(gate, Answer::Lost(loss));
        }
        // A message that the request itself causes comes after its reply.
        self.world.gates[gate].n_before_reply = self.world.gates[gate].pushes.len();
        let ran = match self.acknowledged_at_once(gate, &request, passage) {
            Some(count) => Ran::Ended(Ok(count)),
            None => self.run_now(gate, &request, passage),
        };
        self.note_last_write(gate);
        match ran {
            Ran::Ended(result) => {
                match (&request.kind, &result) {
                    // The footprint of the command has what this touches.
                    (RequestKind::Subscribe { ends: true, .. }, Ok(_)) => _ = self.end_subscription(gate),
                    (RequestKind::Subscribe { channel, .. }, Ok(Value::Array(_))) => {
                        self.begin_subscription(gate, channel);
                    }
                    _ => {}
                }
                self.finish(gate, result, passage);
            }
            Ran::Waits(waiting) => match passage.outcome() {
                // The server no longer runs a command that has to wait.
                Some(RequestOutcome::Disconnected | RequestOutcome::Cancelled | RequestOutcome::Crashed) => {
                    drop(waiting);
                    self.finish(gate, Err(Loss::Connection.into()), passage);
                }
                _ => self.block(gate, &request, waiting, passage),
            },
        }
    }

    /// The request is sent, and arrives unless a fault prevents that.
    fn send(
        &mut self,
        gate: usize,
        request: &Request,
        release: Option<HoldId>,
        fault: Option<Fault>,
    ) -> Result<(), Loss> {
        let actor = self.world.gates[gate].actor;
        self.world.record_calls_of(actor);
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
        self.world.before_send(release);
        self.record_request_fault(gate, fault, request);
        match loss {
            Loss::Late => {
                // It is lost if its server is no longer found when it would arrive.
                self.find(self.world.gates[gate].address);
                self.world.delay(gate, request.clone());
            }
            Loss::Connection => self.reopen(gate),
            Loss::Request | Loss::Reply => {}
        }
        Err(loss)
    }

    /// Runs a request on a primary, or on a replica as it is then.
    fn run_now(&mut self, gate: usize, request: &Request, passage: Passage) -> Ran {
        if let Some(refusal) = self.refusal_of_replica(gate, request) {
            return Ran::Ended(Err(refusal));
        }
        self.catch_up(gate, passage);
        self.run(gate, request, &self.world.session(gate))
    }

    /// Runs a request, and records what the server touched.
    fn run(&mut self, gate: usize, request: &Request, session: &Session) -> Ran {
        let Gate { actor, nth, server, .. } = self.world.gates[gate];
        if self.refuses(server, actor) {
            return Ran::Ended(Err(io::Error::from(io::ErrorKind::ConnectionRefused).into()));
        }
        let deed = self.deed(request, (actor, nth));
        if let Some(reply) = self.repeat_deed(server, deed) {
            self.note_command(server);
            return match reply {
                Reply::Now(reply) => Ran::Ended(Ok(reply)),
                Reply::Later(command) => Ran::Waits(Waiting { command: Some(command), running: None }),
            };
        }
        if let Session::Redis(_) = session {
            let named = request.commands().flat_map(written_keys).map(|key| (server, key));
            self.world.named_keys.extend(named);
        }
        let is_subscribing = matches!(request.kind, RequestKind::Subscribe { .. });
        let own = if is_subscribing { self.subscribing(server, (actor, nth)) } else { None };
        if let (Server::Emulator(emulator), Recording::Full) = (&self.servers[server], self.recording) {
            emulator.keep_script_calls();
        }
        let mut running = own.as_ref().unwrap_or(session).run(request.clone());
        let poll = running.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(result) = poll else {
            let command = session.blocked();
            // A state of a known server has the command in place of its connection.
            let (kept, dropped) = if self.world.servers[server].is_none() {
                (Some(running), None)
            } else {
                (None, Some(running))
            };
            self.learn_deed(server, deed, command.clone().map(Reply::Later), dropped);
            self.note_command(server);
            return Ran::Waits(Waiting { command, running: kept });
        };
        self.learn_deed(server, deed, result.as_ref().ok().cloned().map(Reply::Now), own);
        self.note_command(server);
        Ran::Ended(result)
    }

    /// A request has run. Records that, and answers the client unless a fault or a late reply keeps
    /// the answer back.
    pub(crate) fn finish(&mut self, gate: usize, mut result: RedisResult<Value>, mut passage: Passage) {
        let Gate { actor, traffic, .. } = self.world.gates[gate];
        let Some(Pending { request, brief, sent, task, .. }) = self.world.gates[gate].pending.clone() else {
            return;
        };
        if request.waits_for_replicas().is_some()
            && let (Ok(Value::Int(count)), Some(acknowledged)) =
                (&mut result, self.acknowledged(gate, passage))
        {
            *count = acknowledged;
        }
        let was_blocked = self.world.gates[gate].is_blocked();
        if was_blocked {
            passage = self.passage_back(gate, passage);
            self.world.gates[gate].n_before_reply = self.world.gates[gate].pushes.len();
        }
        self.record_result(gate, &request, &result, task);
        self.note_exchange(actor, brief, hash_result(&result));
        if self.world.is_refused_by_move(&request, &result) {
            self.world.note_fault_error(actor);
        }
        if result.is_err() && (was_blocked || self.world.session(gate).is_hung_up()) {
            self.world.note_fault_error(actor);
            // The server hung up in this step, which has its footprint.
            self.world.gates[gate].session.take_if(|_| was_blocked);
            self.reopen(gate);
        }
        let is_behind = passage.fault.is_none() && self.world.gates[gate].n_before_reply > 0;
        if passage.is_reply_late || is_behind {
            if traffic == Traffic::Pushes {
                // A message that the server writes next arrives behind the reply.
                self.world.recorder.requests_changed(actor);
            }
            return self.world.change_gate(gate, GateState::Replied(result));
        }
        let (Some(fault), Some(outcome)) = (passage.fault, passage.outcome()) else {
            return self.answer(gate, Answer::Reply(result));
        };
        // A client that has crashed observes nothing more. The step records its end.
        if outcome != RequestOutcome::Crashed {
            self.record_request_fault(gate, fault, &request);
        }
        match outcome {
            RequestOutcome::Answered => self.answer(gate, Answer::Reply(result)),
            RequestOutcome::Resent => self.world.arrive(gate, sent),
            RequestOutcome::TimedOut => self.answer(gate, Answer::Lost(Loss::Reply)),
            RequestOutcome::Cancelled => {
                self.world.change_gate(gate, GateState::Empty);
                self.cancel_request(gate);
            }
            RequestOutcome::Crashed => self.world.change_gate(gate, GateState::Empty),
            RequestOutcome::Disconnected => {
                self.reopen(gate);
                self.answer(gate, Answer::Lost(Loss::Connection));
            }
        }
    }

    /// The reply that is on its way arrives, or a message that the server wrote before it.
    pub(crate) fn deliver(&mut self, gate: usize) {
        let Gate { actor, n_before_reply, .. } = self.world.gates[gate];
        if !self.world.gates[gate].awaits_reply() || n_before_reply > 0 {
            return self.receive_push(gate);
        }
        if self.recording == Recording::Full {
            self.world.record(EventKind::Received { actor });
        }
        let replied = std::mem::replace(&mut self.world.gates[gate].gate_state, GateState::Empty);
        if let GateState::Replied(result) = replied {
            self.answer(gate, Answer::Reply(result));
        }
    }

    /// The client no longer waits for a reply.
    pub(crate) fn give_up(&mut self, gate: usize) {
        let own = &self.world.gates[gate];
        let (is_waiting, is_replied) = (own.waits(), own.awaits_reply());
        let [delay, lose_reply] = [FaultKind::Delay, FaultKind::LoseReply].map(|kind| own.fault(kind));
        let Some(Pending { request, .. }) = own.pending.clone() else { return };
        self.world.note_activity();
        if is_waiting {
            self.serve(gate, Passage { fault: Some(delay), ..Passage::default() });
        } else if is_replied {
            self.record_request_fault(gate, lose_reply, &request);
            self.answer(gate, Answer::Lost(Loss::Reply));
        }
    }

    pub(super) fn answer(&mut self, gate: usize, answer: Answer) {
        let Gate { actor, nth, is_left, .. } = self.world.gates[gate];
        let world = &mut self.world;
        world.gates[gate].pending = None;
        world.change_gate(gate, GateState::Empty);
        if !is_left {
            self.tell(actor, &Told::Answered { nth, answer });
        }
    }

    /// Opens a new session in place of a broken one.
    pub(super) fn reopen(&mut self, gate: usize) {
        self.close(gate);
        let Gate { actor, address, .. } = self.world.gates[gate];
        let server = self.find(address);
        self.world.gates[gate].lead_to(server);
        let session = self.new_session(actor, server, self.world.gates[gate].traffic);
        self.world.gates[gate].session = Some(session);
    }

    /// Opens a session of an actor. If the servers run only what is not known, the connection is
    /// opened at its first request that runs.
    fn new_session(&mut self, actor: Actor, server: usize, traffic: Traffic) -> Session {
        let session = Session::open(&self.servers[server], traffic);
        self.world.note_connection(actor, server);
        if let (Session::Emulator(connection), Clients::Tasks) = (&session, &self.clients) {
            let id = self.world.next_connection(actor);
            connection.open_with(id);
        }
        session
    }

    /// Runs the oldest request of this connection that its client has given up. It does not wait
    /// for anything on the server.
    pub(crate) fn run_late(&mut self, gate: usize) {
        let late = self.world.gates[gate].late.pop_front();
        let Some(Late { request, session, task }) = late else { return };
        let actor = self.world.ends(gate).0;
        self.before_command(actor, None);
        let result = match self.run(gate, &request, &session) {
            Ran::Ended(result) => result,
            Ran::Waits(_) => Err(Loss::Late.into()),
        };
        self.forget_subscriber(gate);
        self.record_result(gate, &request, &result, task);
        self.world.record(EventKind::Late { actor });
    }

    /// Records a request that has run.
    fn record_result(&mut self, gate: usize, request: &Request, result: &RedisResult<Value>, task: usize) {
        let (actor, server) = self.world.ends(gate);
        if self.recording == Recording::Full {
            let reply = result.as_ref().map_or_else(format_error, |reply| request.format_reply(reply));
            let changed = self.changed_keys(server);
            let late =
                self.real_time.as_ref().map_or(Duration::ZERO, |real_time| real_time.late(self.world.now));
            let (text, brief) = request.text();
            let script = self.script(server, request);
            let Gate { nth: connection, traffic, n_before_reply, .. } = self.world.gates[gate];
            let (commands, is_shared, is_behind) = (request.words(), traffic.is_stream(), n_before_reply > 0);
            let sent = Box::new(Sent { commands, connection, is_shared, task, is_behind });
            let kind = EventKind::Command { actor, server, text, brief, script, reply, changed, late, sent };
            self.world.record(kind);
        }
        if self.config.judges_times {
            self.world.recorder.command_dated(server);
            let now = self.clocks.get(server).map_or(START + self.world.now, Clock::now);
            self.world.actor(actor).decided = Some(now);
        }
        self.after_command(actor);
        if let Server::Redis(_) = self.servers[server] {
            self.hear_from(server);
        }
    }
}

impl World {
    /// The session of an open connection.
    pub(super) fn session(&self, gate: usize) -> Session {
        self.gates[gate].session.clone().expect("the connection is open")
    }

    /// The client and the server of a connection.
    pub(super) fn ends(&self, gate: usize) -> (Actor, usize) {
        (self.gates[gate].actor, self.gates[gate].server)
    }

    /// Keeps a request for later.
    pub(super) fn delay(&mut self, gate: usize, request: Request) {
        let session = self.session(gate);
        self.gates[gate].was_given_up = true;
        let task = self.gates[gate].pending.as_ref().map_or(0, |pending| pending.task);
        self.gates[gate].late.push_back(Late { request, session, task });
    }

    /// Notes that a connection opens or closes. A crashed client has none.
    fn note_connection(&mut self, actor: Actor, server: usize) {
        if self.actor(actor).life != Life::Crashed {
            self.recorder.connection_changed(server);
        }
    }
}
