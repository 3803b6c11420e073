//! A gated connection: each request waits at a gate, runs on its server or meets a fault, and is
//! recorded. The schedule decides when a request passes; this file does not.

use std::borrow::Cow;
use std::future::poll_fn;
use std::hash::BuildHasher as _;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use emulator::{Access, Footprint, Resource};
use foldhash::quality::FixedState;
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisError, RedisFuture, RedisResult, Value};

use crate::actor::Actor;
use crate::fault::{Delivery, Fault, FaultKind, RequestFault, RequestOutcome, Target};
use crate::render::{Format, format_error, written_keys};
use crate::sim::{GateState, Passage, Recording, Server, Simulation, Traffic};
use crate::trace::EventKind;

use super::request::{Request, Transaction, log_reply, replay_reply};
use super::session::Session;
use super::{Client, subscription};

/// A connection whose commands wait at the gate until the schedule lets them through. Implements
/// [`redis::aio::ConnectionLike`], so any code over redis-rs runs on it unchanged.
///
/// Each command of a pipeline is a step of its own, as it is on a server; a transaction is one
/// step.
pub struct GatedConnection {
    pub(super) sim: Arc<Simulation>,
    pub(super) actor: Actor,
    pub(super) gate: usize,
    pub(super) server: usize,
    pub(super) session: Session,
}

/// Why a client will never get a reply.
pub(super) enum Loss {
    /// The request did not arrive.
    Request,
    /// The request arrived, and the reply was lost.
    Reply,
    /// The request is still on its way.
    Late,
    /// The connection has broken.
    Connection,
}

/// The error that redis-rs gives in this case.
impl From<Loss> for RedisError {
    fn from(loss: Loss) -> RedisError {
        let kind = match loss {
            Loss::Request | Loss::Reply | Loss::Late => io::ErrorKind::TimedOut,
            Loss::Connection => io::ErrorKind::BrokenPipe,
        };
        io::Error::from(kind).into()
    }
}

impl GatedConnection {
    /// Waits at the gate with a request that was made then, or with a message. Returns how it
    /// passes. If the future is dropped, the request was never sent, and the message is still to
    /// come.
    pub(super) async fn pass_gate(&self, sent_at: Option<Duration>) -> Passage {
        self.wait_at_gate(GateState::Waiting, sent_at).await
    }

    /// Waits until the reply arrives.
    async fn receive_reply(&self) {
        self.wait_at_gate(GateState::Replied, None).await;
    }

    /// Waits at the gate, in this state, until the schedule opens the gate. `sent_at` is when the
    /// request was made, if one is.
    async fn wait_at_gate(&self, waiting: fn(Waker) -> GateState, sent_at: Option<Duration>) -> Passage {
        struct Withdraw<'a>(&'a GatedConnection);
        impl Drop for Withdraw<'_> {
            fn drop(&mut self) {
                let gate_state = std::mem::replace(
                    &mut self.0.sim.state().gates[self.0.gate].gate_state,
                    GateState::Empty,
                );
                if matches!(gate_state, GateState::Waiting(_) | GateState::Replied(_)) {
                    self.0.sim.quiescence.note_activity();
                }
            }
        }
        let _withdraw = Withdraw(self);
        poll_fn(|cx| {
            let mut state = self.sim.state();
            let idx = state.idx(self.actor);
            let state = &mut *state;
            let (actor, gate) = (&mut state.actors[idx], &mut state.gates[self.gate]);
            let (gate_state, operation) = (&mut gate.gate_state, &mut gate.operation);
            if actor.is_crashed {
                // The task of a crashed client may still be polled. Nothing that it sends arrives.
                return Poll::Pending;
            }
            if let GateState::Open(passage) = *gate_state {
                return Poll::Ready(passage);
            }
            if matches!(gate_state, GateState::Empty) {
                actor.sent_at = sent_at.unwrap_or(actor.sent_at);
                *operation = actor.operation;
                self.sim.quiescence.note_activity();
                if actor.is_alone {
                    return Poll::Ready(Passage::default());
                }
            }
            *gate_state = waiting(cx.waker().clone());
            state.recorder.client_ran(self.actor);
            Poll::Pending
        })
        .await
    }

    fn traffic(&self) -> Traffic {
        self.sim.state().gates[self.gate].traffic
    }

    /// Uses the connection for another kind of traffic.
    pub(crate) fn with_traffic(self, traffic: Traffic) -> GatedConnection {
        self.sim.state().gates[self.gate].traffic = traffic;
        self
    }

    /// Runs a command that came out of a stream, as a step.
    pub(crate) async fn forward(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        let (sim, actor) = (self.sim.clone(), self.actor);
        let release = sim.set_release_to_come(actor, None);
        let mut step = pin!(self.step(cmd));
        poll_fn(|cx| sim.releasing(actor, release, || step.as_mut().poll(cx))).await?
    }

    /// Waits for the turn of a request, but no longer than for a reply. Returns how it passes.
    async fn pass_in_time(&self, sent: Duration) -> Passage {
        let in_time = self.in_time(sent, self.pass_gate(Some(sent))).await;
        in_time.unwrap_or_else(|| Passage { fault: Some(self.fault(FaultKind::Delay)), ..Passage::default() })
    }

    /// Waits, but no longer than the client waits for the reply to a request that it made at
    /// `sent`. `None` if the client gave up.
    async fn in_time<T>(&self, sent: Duration, waiting: impl Future<Output = T>) -> Option<T> {
        // The client at the other end of a stream has a timeout of its own.
        match self.sim.config.response_timeout {
            Some(limit) if self.traffic() != Traffic::Bytes => {
                tokio::time::timeout_at(self.sim.instant(sent + limit), waiting).await.ok()
            }
            _ => Some(waiting.await),
        }
    }

    /// A fault of this connection.
    fn fault(&self, kind: FaultKind) -> Fault {
        let nth = self.sim.state().gates[self.gate].nth;
        Fault::new(kind, Target::Connection(self.actor, nth))
    }

    /// Runs a request as one step, or as two if it is sent again. An error reply of a command is a
    /// value.
    pub(super) async fn step<R: Request>(&mut self, request: &R) -> Result<RedisResult<R::Reply>, Loss> {
        let sent = self.sim.request_time();
        let brief = request.hash_brief(self.server);
        self.announce(sent, brief);
        loop {
            let Passage { fault, is_reply_late } = self.pass_in_time(sent).await;
            let outcome = fault.and_then(Fault::of_request).map(|fault| fault.outcome);
            self.send(fault, request)?;
            let result = {
                let actor_and_server = (self.actor, self.server);
                let running = pin!(run_recorded(&self.sim, actor_and_server, request, &self.session));
                match outcome {
                    // The server no longer runs a command that has to wait.
                    Some(
                        RequestOutcome::Disconnected | RequestOutcome::Cancelled | RequestOutcome::Crashed,
                    ) => at_once(running).await.unwrap_or_else(|| Err(Loss::Connection.into())),
                    _ => running.await,
                }
            };
            record_result(&self.sim, (self.actor, self.server), request, &result);
            self.sim.note_exchange(self.actor, brief, hash_result::<R>(&result));
            if result.is_err() && self.session.is_hung_up() {
                self.sim.state().lose_connection(self.actor);
                self.reopen();
            }
            if is_reply_late && self.in_time(sent, self.receive_reply()).await.is_none() {
                let fault = self.fault(FaultKind::LoseReply);
                self.sim.record_request_fault(self.actor, fault, || request.text().0);
                return Err(Loss::Reply);
            }
            if is_reply_late && self.sim.recording == Recording::Full {
                self.sim.record(EventKind::Received { actor: self.actor });
            }
            let (Some(fault), Some(outcome)) = (fault, outcome) else { return Ok(result) };
            // A client that has crashed observes nothing more. The step records its end.
            if outcome != RequestOutcome::Crashed {
                self.sim.record_request_fault(self.actor, fault, || request.text().0);
            }
            match outcome {
                RequestOutcome::Resent => {}
                RequestOutcome::TimedOut => return Err(Loss::Reply),
                RequestOutcome::Cancelled => {
                    self.sim.cancel_request(self.gate);
                    return std::future::pending().await;
                }
                RequestOutcome::Crashed => return std::future::pending().await,
                RequestOutcome::Disconnected => {
                    self.reopen();
                    return Err(Loss::Connection);
                }
            }
        }
    }

    /// A request is about to wait at the gate.
    fn announce(&self, at: Duration, brief: u64) {
        let mut state = self.sim.state();
        state.note_request(at, self.actor, brief);
        state.gates[self.gate].request = brief;
        if state.gates[self.gate].traffic == Traffic::Bytes && state.recorder.is_in_stall() {
            state.may_time_out(self.actor);
        }
    }

    /// The request is sent, and arrives unless a fault prevents that.
    fn send(&mut self, fault: Option<Fault>, request: &impl Request) -> Result<(), Loss> {
        let of_request = fault.and_then(Fault::of_request);
        let (Some(fault), Some(RequestFault { delivery, outcome, .. })) = (fault, of_request) else {
            self.sim.before_command(self.actor);
            return Ok(());
        };
        let loss = match (delivery, outcome) {
            (Delivery::Now, _) => {
                self.sim.before_command(self.actor);
                return Ok(());
            }
            (Delivery::Later, _) => Loss::Late,
            (Delivery::Never, RequestOutcome::Disconnected) => Loss::Connection,
            (Delivery::Never, _) => Loss::Request,
        };
        self.sim.before_send(self.actor);
        self.sim.record_request_fault(self.actor, fault, || request.text().0);
        match loss {
            Loss::Late => self.delay(request),
            Loss::Connection => self.reopen(),
            Loss::Request | Loss::Reply => {}
        }
        Err(loss)
    }

    /// Opens a new session in place of a broken one.
    fn reopen(&mut self) {
        self.close();
        self.session = Session::open(&self.sim.servers[self.server]);
    }

    /// Closes the session, and records what that touches.
    fn close(&self) {
        match &self.session {
            Session::Emulator(connection) => {
                let closing = connection.closing();
                if !closing.is_empty() {
                    self.sim.state().recorder.server_access(self.server, Arc::new(closing));
                }
            }
            // A real server may notice the closed connection later than other clients see its next
            // effect.
            Session::Redis(connection) if self.traffic() == Traffic::Messages => {
                _ = subscription::news(&mut connection.lock().expect("one task uses it"), "UNSUBSCRIBE");
            }
            Session::Redis(_) => {}
        }
    }

    /// Keeps the request for later. When it runs, it does not wait for anything on the server.
    fn delay(&self, request: &impl Request) {
        let (sim, actor, server) = (Arc::downgrade(&self.sim), self.actor, self.server);
        let (session, request) = (self.session.clone(), request.owned());
        let late = async move {
            let Some(sim) = sim.upgrade() else { return };
            sim.before_command(actor);
            let result = at_once(pin!(run_recorded(&sim, (actor, server), &request, &session))).await;
            let result = result.unwrap_or_else(|| Err(Loss::Late.into()));
            record_result(&sim, (actor, server), &request, &result);
            sim.record(EventKind::Late { actor });
        };
        self.sim.delay(self.gate, Box::pin(late));
    }
}

/// Records a request that has run.
fn record_result<R: Request>(
    sim: &Simulation,
    (actor, server): (Actor, usize),
    request: &R,
    result: &RedisResult<R::Reply>,
) {
    let reply = || result.as_ref().map_or_else(format_error, Format::show);
    sim.observes(actor, reply);
    if sim.recording == Recording::Full {
        let (reply, changed) = (reply(), changed_keys(sim, server));
        let late = sim.real_time.get().map_or(Duration::ZERO, |real_time| real_time.late(sim.now()));
        let (text, brief) = request.text();
        sim.record(EventKind::Command { actor, server, text, brief, reply, changed, late });
    }
    sim.after_command(actor);
    if sim.real_time.get().is_some() {
        let listeners = std::mem::take(&mut sim.state().listeners);
        listeners.into_iter().for_each(Waker::wake);
    }
}

/// The keys that the last command changed, with their new values. On a real server they are not
/// known.
fn changed_keys(sim: &Simulation, server: usize) -> Vec<String> {
    let Server::Emulator(emulator) = &sim.servers[server] else { return Vec::new() };
    let footprint = emulator.footprint();
    let mut keys: Vec<&[u8]> = footprint
        .iter()
        .filter_map(|(resource, access, _)| match resource {
            Resource::Key { key, .. } if access == Access::Write => Some(key),
            _ => None,
        })
        .collect();
    keys.sort_unstable();
    keys.dedup();
    let show =
        |key: &[u8]| emulator.describe(0, key).unwrap_or_else(|| format!("{} is gone", key.escape_ascii()));
    keys.into_iter().map(show).collect()
}

/// Polls once. `None` if the future would have to wait; it is then never polled again.
async fn at_once<T>(mut running: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    poll_fn(|cx| match running.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Runs a request, whose first poll sends it, and records what the server touched. If the reply
/// comes later or is no longer awaited, what the request waited for is recorded again.
async fn run_recorded<R: Request>(
    sim: &Simulation,
    (actor, server): (Actor, usize),
    request: &R,
    session: &Session,
) -> RedisResult<R::Reply> {
    if sim.refuses(server, actor) {
        return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
    }
    if let Some(reply) = replay_reply(sim, server, request) {
        sim.note_command(server);
        return Ok(reply);
    }
    if let Session::Redis(_) = session {
        let named = request.commands().flat_map(written_keys).map(|key| (server, key));
        sim.state().named_keys.extend(named);
    }
    let mut running = pin!(request.run(session));
    let (mut is_sent, mut blocked) = (false, None);
    poll_fn(|cx| {
        let poll = running.as_mut().poll(cx);
        if is_sent {
            // A client that waits on a server has what is due there run.
            sim.note_footprint(server);
        } else {
            is_sent = true;
            log_reply(sim, server, request, &poll);
            sim.note_command(server);
            let waits_for = if poll.is_pending() { sim.footprint(server) } else { None };
            blocked = waits_for.map(|footprint| Blocked { sim, server, footprint });
        }
        if poll.is_ready() {
            blocked = None;
        }
        poll
    })
    .await
}

/// A hash of a reply, or of the error of a request that the server refused.
fn hash_result<R: Request>(result: &RedisResult<R::Reply>) -> u64 {
    result.as_ref().map_or_else(|error| FixedState::default().hash_one(error.to_string()), R::hash_reply)
}

/// A command that waits on the server until this is dropped.
struct Blocked<'a> {
    sim: &'a Simulation,
    server: usize,
    footprint: Arc<Footprint>,
}

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        let footprint = std::mem::take(&mut self.footprint);
        self.sim.state().recorder.server_access(self.server, footprint);
    }
}

/// A clone is a connection of its own.
impl Clone for GatedConnection {
    fn clone(&self) -> GatedConnection {
        Client::new(self.sim.clone(), self.actor).connection_to(self.server)
    }
}

impl Drop for GatedConnection {
    fn drop(&mut self) {
        self.close();
        self.sim.state().gates[self.gate].is_open = false;
    }
}

impl ConnectionLike for GatedConnection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async { self.step(cmd).await??.extract_error() })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            if pipeline.is_transaction() {
                return self.step(&Transaction { pipeline: Cow::Borrowed(pipeline), offset, count }).await?;
            }
            let mut replies = Vec::with_capacity(pipeline.len());
            let mut lost = None;
            let mut commands = pipeline.cmd_iter();
            while let Some(cmd) = commands.next() {
                match self.step(cmd).await {
                    // In a pipeline an error is one of the replies. The commands after it run.
                    Ok(reply) => replies.push(reply?),
                    // The commands after a lost reply run, too. After a lost request nothing
                    // arrives, and after a late one all others are late.
                    Err(Loss::Reply) => lost = Some(Loss::Reply),
                    Err(loss) => {
                        if matches!(loss, Loss::Late) {
                            commands.for_each(|cmd| self.delay(cmd));
                        }
                        return Err(loss.into());
                    }
                }
            }
            if let Some(loss) = lost {
                return Err(loss.into());
            }
            Ok(replies.into_iter().skip(offset).take(count).collect())
        })
    }

    fn get_db(&self) -> i64 {
        match &self.session {
            Session::Emulator(connection) => ConnectionLike::get_db(&**connection),
            Session::Redis(_) => 0,
        }
    }
}
