//! A gated connection: each request waits at a gate until the schedule lets it pass.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use emulator::Footprint;
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisFuture, RedisResult, Value};

use super::Client;
use crate::actor::Actor;
use crate::sim::{
    Answer, Blocked, GateState, Loss, Pending, Request, RequestKind, Session, Simulation, Traffic,
};

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
}

impl GatedConnection {
    pub(super) fn session(&self) -> Session {
        self.sim.session(self.gate)
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
        let mut step = pin!(self.step(cmd.into()));
        poll_fn(|cx| sim.releasing(actor, release, || step.as_mut().poll(cx))).await?
    }

    /// Runs a request as one step, or as more if it is sent again or its reply is late. An error
    /// reply of a command is a value.
    pub(super) async fn step(&mut self, request: Request) -> Result<RedisResult<Value>, Loss> {
        let sent = self.sim.request_time(self.actor);
        let brief = request.hash_brief(self.server);
        let mut asked = Visit { link: self, request: Some(Pending { request, brief, sent, release: None }) };
        loop {
            match self.in_time(sent, poll_fn(|cx| asked.poll_answer(cx))).await {
                Some(Answer::Reply(result)) => return Ok(result),
                Some(Answer::Lost(loss)) => return Err(loss),
                Some(Answer::Waits(blocked)) => {
                    let blocked = blocked.lock().expect("one client waits").take();
                    let blocked = blocked.expect("the client takes it once");
                    let passage = blocked.passage;
                    let result = self.wait_on_server(blocked).await;
                    self.sim.finish(self.gate, result, passage);
                }
                None => self.sim.give_up(self.gate),
            }
        }
    }

    /// Waits for a message, and at the gate until it may pass. `None` if no more will come. If the
    /// future is dropped, the message is still to come.
    pub(super) async fn receive(&self) -> Option<Vec<u8>> {
        let visit = Visit { link: self, request: None };
        poll_fn(|cx| visit.poll_message(cx)).await
    }

    /// Waits, but no longer than the client waits for the reply to a request that it made at
    /// `sent`. `None` if the client gives up.
    async fn in_time<T>(&self, sent: Duration, waiting: impl Future<Output = T>) -> Option<T> {
        // The client at the other end of a stream has a timeout of its own.
        match self.sim.config.response_timeout {
            Some(limit) if self.traffic() != Traffic::Bytes => {
                tokio::time::timeout_at(self.sim.instant(sent + limit), waiting).await.ok()
            }
            _ => Some(waiting.await),
        }
    }

    /// Lets a command wait on its server. If the reply comes later or is no longer awaited, what
    /// the command waited for is recorded again.
    async fn wait_on_server(&self, Blocked { mut running, footprint, .. }: Blocked) -> RedisResult<Value> {
        struct Waited<'a>(&'a GatedConnection, Option<Arc<Footprint>>);
        impl Drop for Waited<'_> {
            fn drop(&mut self) {
                if let Some(footprint) = self.1.take() {
                    self.0.sim.state().recorder.server_access(self.0.server, footprint);
                }
            }
        }
        let _waited = Waited(self, footprint);
        poll_fn(|cx| {
            let poll = running.as_mut().poll(cx);
            // A client that waits on a server has what is due there run.
            self.sim.note_footprint(self.server);
            poll
        })
        .await
    }
}

/// A client that waits at a gate. If this is dropped, it no longer does.
struct Visit<'a> {
    link: &'a GatedConnection,
    /// The request, until it comes to the gate.
    request: Option<Pending>,
}

impl Visit<'_> {
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Answer> {
        let GatedConnection { sim, gate, .. } = self.link;
        if let Some(request) = self.request.take() {
            let release = sim.release_of(self.link.actor);
            sim.ask(*gate, Pending { release, ..request });
        }
        sim.poll_gate(*gate, cx, GateState::take_answer)
    }

    fn poll_message(&self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        let GatedConnection { sim, gate, .. } = self.link;
        sim.await_message(*gate);
        sim.poll_gate(*gate, cx, GateState::take_message)
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.link.sim.withdraw(self.link.gate);
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
        self.sim.close(self.gate);
    }
}

impl ConnectionLike for GatedConnection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async { self.step(cmd.into()).await??.extract_error() })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            if pipeline.is_transaction() {
                let pipeline = Arc::new(pipeline.clone());
                let reply = self.step(RequestKind::Transaction { pipeline, offset, count }.into()).await??;
                return redis::from_redis_value(reply).map_err(Into::into);
            }
            let mut replies = Vec::with_capacity(pipeline.len());
            let mut lost = None;
            let mut commands = pipeline.cmd_iter();
            while let Some(cmd) = commands.next() {
                match self.step(cmd.into()).await {
                    // In a pipeline an error is one of the replies. The commands after it run.
                    Ok(reply) => replies.push(reply?),
                    // The commands after a lost reply run, too. After a lost request nothing
                    // arrives, and after a late one all others are late.
                    Err(Loss::Reply) => lost = Some(Loss::Reply),
                    Err(loss) => {
                        if matches!(loss, Loss::Late) {
                            commands.for_each(|cmd| self.sim.delay_too(self.gate, cmd.into()));
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
        match self.session() {
            Session::Emulator(connection) => connection.get().map_or(0, ConnectionLike::get_db),
            Session::Redis(_) => 0,
        }
    }
}
