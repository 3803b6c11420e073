//! A gated connection: each request waits at a gate until the schedule lets it pass.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisFuture, RedisResult, Value};

use super::Client;
use crate::live::{Answer, LiveClient, Loss, Pending, Request, RequestKind, Terms, Traffic};

/// A connection whose commands wait at the gate until the schedule lets them through. Implements
/// [`redis::aio::ConnectionLike`], so any code over redis-rs runs on it unchanged.
///
/// Each command of a pipeline is a step of its own, as it is on a server; a transaction is one
/// step.
pub struct GatedConnection {
    pub(super) live: LiveClient,
    /// The number of this connection among those of the client.
    pub(super) nth: usize,
    /// The database that it has selected.
    pub(super) db: i64,
}

impl Client {
    /// A new connection to the server. Its commands run one at a time, in the order in which they
    /// were sent.
    ///
    /// # Panics
    /// A real server does not answer.
    pub fn connection(&self) -> GatedConnection {
        self.connection_to(0)
    }

    /// A new connection to one of several servers: [`Scenario::servers`](crate::Scenario::servers).
    ///
    /// # Panics
    /// There is no such server, or it is a real one that does not answer.
    pub fn connection_to(&self, server: usize) -> GatedConnection {
        self.open(server, Traffic::Requests)
    }

    /// A new connection to a replica of a server, both counted from 0:
    /// [`Scenario::read_replicas`](crate::Scenario::read_replicas).
    ///
    /// It leads to the same replica for ever. If that takes over, it is a connection to a primary.
    /// A replica runs no command that writes. Subscriptions there are not simulated: the request
    /// gets an error that says so. Neither are the offsets in `ROLE` and `INFO`.
    ///
    /// # Panics
    /// There is no such replica.
    pub fn replica(&self, server: usize, nth: usize) -> GatedConnection {
        let &Terms { servers, readable, .. } = self.0.terms();
        assert!(
            server < servers && nth < readable,
            "there is no replica {nth} of server {server} to read: the scenario has {servers} servers with \
             {readable} such replicas each (`Scenario::read_replicas`), all counted from 0"
        );
        self.open_at(servers + server * readable + nth, Traffic::Requests)
    }

    pub(super) fn open(&self, server: usize, traffic: Traffic) -> GatedConnection {
        let servers = self.0.terms().servers;
        assert!(
            server < servers,
            "there is no server {server}: `Scenario::servers` says {servers}, counted from 0"
        );
        self.open_at(server, traffic)
    }

    fn open_at(&self, address: usize, traffic: Traffic) -> GatedConnection {
        let nth = self.0.open(address, traffic);
        GatedConnection { live: self.0.clone(), nth, db: 0 }
    }
}

impl GatedConnection {
    /// Runs a command that came out of a stream, as a step.
    pub(crate) async fn forward(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        let live = self.live.clone();
        let release = live.set_release_to_come(None);
        let mut step = pin!(self.step(cmd.into()));
        poll_fn(|cx| live.releasing(release, || step.as_mut().poll(cx))).await?
    }

    /// Runs a request as one step, or as more if it is sent again or its reply is late. An error
    /// reply of a command is a value.
    pub(super) async fn step(&mut self, request: Request) -> Result<RedisResult<Value>, Loss> {
        let selected = request.selects();
        let result = self.ask(request).await?;
        if let (Some(db), Ok(Value::Okay)) = (selected, &result) {
            self.db = db;
        }
        Ok(result)
    }

    async fn ask(&self, request: Request) -> Result<RedisResult<Value>, Loss> {
        let sent = self.live.now();
        let brief = request.hash_brief(self.live.link(self.nth).0);
        let mut asked =
            Visit { link: self, request: Some(Pending { request, brief, sent, release: None, task: 0 }) };
        let in_time = self.in_time(sent, poll_fn(|cx| asked.poll_answer(cx))).await;
        if in_time.is_none() {
            self.live.give_up(self.nth);
        }
        let mut answer = in_time.unwrap_or(Answer::Waits);
        loop {
            match answer {
                Answer::Reply(result) => return Ok(result),
                Answer::Lost(loss) => return Err(loss),
                Answer::Waits => answer = poll_fn(|cx| asked.poll_answer(cx)).await,
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
        // The client at the other end of a stream has a timeout of its own, and for what comes from
        // outside there is none.
        let traffic = self.live.link(self.nth).1;
        match self.live.terms().response_timeout {
            Some(limit) if !traffic.is_stream() && traffic != Traffic::Arrivals => {
                tokio::time::timeout_at(self.live.instant(sent + limit), waiting).await.ok()
            }
            _ => Some(waiting.await),
        }
    }
}

/// The replies to the commands of a transaction.
///
/// # Errors
/// The server has run none of them.
pub(super) fn replies_of_transaction(reply: Value) -> RedisResult<Vec<Value>> {
    let replies: Vec<Value> = redis::from_redis_value(reply)?;
    match &replies[..] {
        [Value::ServerError(error)] => Err(error.clone().into()),
        _ => Ok(replies),
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
        let GatedConnection { live, nth, .. } = self.link;
        if let Some(request) = self.request.take() {
            live.ask(*nth, request);
        }
        live.poll_answer(*nth, cx)
    }

    fn poll_message(&self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        self.link.live.poll_message(self.link.nth, cx)
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.link.live.withdraw(self.link.nth);
    }
}

/// A clone is a connection of its own.
impl Clone for GatedConnection {
    fn clone(&self) -> GatedConnection {
        Client(self.live.clone()).open_at(self.live.link(self.nth).0, Traffic::Requests)
    }
}

impl Drop for GatedConnection {
    fn drop(&mut self) {
        self.live.close(self.nth);
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
                return replies_of_transaction(reply);
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
                            commands.for_each(|cmd| self.live.delay(self.nth, cmd.into()));
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
        self.db
    }
}
