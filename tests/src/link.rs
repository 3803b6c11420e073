//! A client's side of an execution: connections whose every command waits at the gate, a clock that may be wrong, and the
//! marks that say where the client is inside a critical section.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use emulator::{Access, DirectConnection, Footprint, Reply, Resource};
use locks::{Env, Messages, Record, Source, Subscribe, Subscription};
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisError, RedisFuture, RedisResult, Value};

use crate::fault::Mishap;
use crate::history::{StayId, What};
use crate::schedule::Actor;
use crate::server::Server;
use crate::show::{Show, brief, brief_command, first_key, show_command, show_error};
use crate::world::{Carries, Lane, OperationId, Recording, Turn, World};

/// What an actor of a scenario is handed: its way to the server, and its place in the world.
#[derive(Clone)]
pub struct Client {
    world: Arc<World>,
    actor: Actor,
}

impl Client {
    pub(crate) fn new(world: Arc<World>, actor: Actor) -> Client {
        Client { world, actor }
    }

    /// The actor's name: `A`, `B`, …
    pub fn name(&self) -> String {
        self.actor.to_string()
    }

    /// How long this actor's grants last.
    pub fn lease(&self) -> Duration {
        self.world.lease_of(self.actor)
    }

    /// A new connection to the server. Its commands run one at a time, in the order in which they were sent.
    ///
    /// # Panics
    /// A real server does not answer.
    pub fn connection(&self) -> Link {
        self.connection_to(0)
    }

    /// The same to one of several servers: [`Scenario::servers`](crate::Scenario::servers).
    ///
    /// # Panics
    /// There is no such server, or it is a real one that does not answer.
    pub fn connection_to(&self, server: usize) -> Link {
        let session = Session::open(&self.world.servers[server]);
        let mut state = self.world.state();
        let own = |lane: &&Lane| lane.actor == self.actor;
        let is_free = |lane: &Lane| lane.server == server && !lane.is_open && lane.late.is_empty();
        let closed = state.lanes.iter().position(|lane| own(&lane) && is_free(lane));
        let lane = closed.unwrap_or_else(|| {
            let nth = state.lanes.iter().filter(own).count();
            let (actor, turn, late) = (self.actor, Turn::Idle, VecDeque::new());
            let (carries, operation, is_open) = (Carries::Requests, None, false);
            state.lanes.push(Lane { actor, nth, server, turn, carries, operation, late, is_open });
            state.lanes.len() - 1
        });
        (state.lanes[lane].is_open, state.lanes[lane].carries) = (true, Carries::Requests);
        drop(state);
        Link { world: self.world.clone(), actor: self.actor, lane, server, session }
    }

    /// The client's own clock, as wrong as the schedule made it, and unique names that are the same in every execution.
    pub fn env(&self) -> Env {
        Env::new(self.clone())
    }

    /// True time since the start of the execution.
    pub fn now(&self) -> Duration {
        self.world.state().touch(|touch| touch.is_timed = true);
        self.world.now()
    }

    /// Does something that the schedule may cancel wherever it waits, where [`Faults::cancels`](crate::Faults) lets it: then it is dropped,
    /// as by a `select!` or a timeout, and the answer is `None`. A request that waits to be sent is never sent; of one that has been, the
    /// reply is thrown away. What is done in tasks of their own is not cancelled.
    pub async fn cancellable<F: Future>(&self, operation: F) -> Option<F::Output> {
        struct Begun<'a>(&'a World, OperationId);
        impl Drop for Begun<'_> {
            fn drop(&mut self) {
                self.0.end_operation(self.1);
            }
        }
        let (world, actor) = (&*self.world, self.actor);
        let begun = Begun(world, world.begin_operation(actor));
        let mut operation = pin!(operation);
        poll_fn(|cx| {
            if world.is_cancelled(begun.1, cx.waker()) {
                return Poll::Ready(None);
            }
            let outer = world.set_operation(actor, Some(begun.1));
            let poll = operation.as_mut().poll(cx);
            world.set_operation(actor, outer);
            match poll {
                Poll::Pending if world.is_cancelled(begun.1, cx.waker()) => Poll::Ready(None),
                poll => poll.map(Some),
            }
        })
        .await
    }

    /// Says that the client was granted `section` and is inside.
    pub fn hold(&self, section: &'static str) -> Hold<'_> {
        Hold { client: self, section, since: None, record: None }
    }
}

impl Source for Client {
    fn now(&self) -> Duration {
        let error_ms = {
            let mut state = self.world.state();
            state.touch(|touch| touch.is_timed = true);
            state.actors[state.idx(self.actor)].error_ms(self.world.now())
        };
        let true_ms = self.world.wall_time().millis();
        Duration::from_millis(u64::try_from(true_ms + error_ms).unwrap_or(0))
    }

    fn unique(&self) -> String {
        let mut state = self.world.state();
        let idx = state.idx(self.actor);
        state.actors[idx].names += 1;
        format!("{}{}", self.actor, state.actors[idx].names)
    }
}

/// A client inside a section.
#[must_use = "a client is inside only while `until` is awaited"]
pub struct Hold<'a> {
    client: &'a Client,
    section: &'static str,
    since: Option<Duration>,
    record: Option<Record>,
}

impl Hold<'_> {
    /// The lease counts from then, and not from when the client's last request was sent: for locks that take several commands.
    pub fn since(self, since: Duration) -> Self {
        Hold { since: Some(since), ..self }
    }

    /// Where the server keeps the grant, so that it is noticed who ends it.
    pub fn record(self, record: Record) -> Self {
        Hold { record: Some(record), ..self }
    }

    /// Stays inside until the first command of `release` runs, and gives what `release` gives. A command that waits at the gate
    /// has not been sent for all that anybody can tell, so a client that stalls inside is one whose release waits.
    pub async fn until<F: Future>(self, release: F) -> F::Output {
        self.enter().until(release).await
    }

    /// Stays inside while `work` is done, and gives what it gives: for sections in which commands are sent.
    pub async fn during<F: Future>(self, work: F) -> F::Output {
        let _stay = self.enter();
        work.await
    }

    /// Is inside from now on: for sections in which there is more to tell.
    pub fn enter(self) -> Stay {
        let Hold { client, section, since, record } = self;
        let id = client.world.enter(client.actor, section, since, record);
        Stay { client: client.clone(), id }
    }
}

/// A client's stay in a section. Dropped, it is over.
#[must_use = "a client is inside only while its stay is not dropped"]
pub struct Stay {
    client: Client,
    id: StayId,
}

impl Stay {
    /// The client was granted the section once more, while it is inside: its lease counts from `since` now.
    pub fn extend(&self, since: Duration, record: Record) {
        self.client.world.extend(self.id, since, record);
    }

    /// Stays inside until the first command of `release` runs, as [`Hold::until`] does.
    pub async fn until<F: Future>(self, release: F) -> F::Output {
        let Stay { client, id } = &self;
        let mut release = pin!(release);
        client.world.set_release_to_come(client.actor, Some(*id));
        // Only what the release itself sends ends the stay: the client may do other things besides.
        let released =
            poll_fn(|cx| client.world.releasing(client.actor, Some(*id), || release.as_mut().poll(cx)));
        let released = released.await;
        client.world.set_release_to_come(client.actor, None);
        released
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.client.world.leave(self.id);
    }
}

/// A connection whose commands wait at the gate until the schedule lets them through. Implements
/// [`redis::aio::ConnectionLike`], so any code over redis-rs runs on it unchanged.
///
/// Each command of a pipeline is a step of its own, as it is on a server; a transaction is one step.
pub struct Link {
    world: Arc<World>,
    actor: Actor,
    lane: usize,
    server: usize,
    session: Session,
}

/// A clone is the same session: that of a request which is still on its way.
#[derive(Clone)]
enum Session {
    Emulator(Arc<DirectConnection>),
    /// The lock is never contended: it makes the connection `Sync`, which redis-rs's traits ask for.
    Redis(Arc<Mutex<redis::Connection>>),
}

/// Why a client will never hear a reply.
enum Loss {
    /// The request did not arrive.
    Request,
    /// It did, and the reply was lost.
    Reply,
    /// The request is still on its way.
    Late,
    /// The connection has broken.
    Connection,
}

/// As redis-rs says it.
impl From<Loss> for RedisError {
    fn from(loss: Loss) -> RedisError {
        let kind = match loss {
            Loss::Request | Loss::Reply | Loss::Late => io::ErrorKind::TimedOut,
            Loss::Connection => io::ErrorKind::BrokenPipe,
        };
        io::Error::from(kind).into()
    }
}

/// What is one step: a command or a transaction.
trait Request: Sync {
    type Reply: Show + Send;
    /// The same for when nobody waits for it any more.
    type Kept: Request + Send + 'static;

    fn run(&self, session: &Session) -> impl Future<Output = RedisResult<Self::Reply>> + Send;
    /// As one would type it, and its name and first key.
    fn text(&self) -> (String, String);
    fn keep(&self) -> Self::Kept;
}

impl Request for Cmd {
    type Reply = Value;
    type Kept = Cmd;

    async fn run(&self, session: &Session) -> RedisResult<Value> {
        session.request(self).await
    }

    fn text(&self) -> (String, String) {
        (show_command(self), brief_command(self))
    }

    fn keep(&self) -> Cmd {
        self.clone()
    }
}

struct Transaction<'a> {
    pipeline: Cow<'a, Pipeline>,
    offset: usize,
    count: usize,
}

impl Request for Transaction<'_> {
    type Reply = Vec<Value>;
    type Kept = Transaction<'static>;

    async fn run(&self, session: &Session) -> RedisResult<Vec<Value>> {
        session.request_all(&self.pipeline, self.offset, self.count).await
    }

    fn text(&self) -> (String, String) {
        let commands: Vec<_> = self.pipeline.cmd_iter().map(show_command).collect();
        let key = self.pipeline.cmd_iter().find_map(first_key);
        (format!("MULTI; {}; EXEC", commands.join("; ")), brief("MULTI", key))
    }

    fn keep(&self) -> Transaction<'static> {
        let Transaction { offset, count, .. } = *self;
        Transaction { pipeline: Cow::Owned(self.pipeline.clone().into_owned()), offset, count }
    }
}

impl Link {
    /// Waits at the gate with a request that was made then, or with a message, and says what befalls it. Dropped while it waits, a
    /// request was never sent, and a message is still to come.
    async fn turn(&self, request: Option<(Duration, usize)>) -> Option<Mishap> {
        struct Withdraw<'a>(&'a Link);
        impl Drop for Withdraw<'_> {
            fn drop(&mut self) {
                let turn = std::mem::replace(&mut self.0.world.state().lanes[self.0.lane].turn, Turn::Idle);
                if matches!(turn, Turn::Waiting(_)) {
                    self.0.world.idle.stir();
                }
            }
        }
        let _withdraw = Withdraw(self);
        poll_fn(|cx| {
            let mut state = self.world.state();
            let idx = state.idx(self.actor);
            let state = &mut *state;
            let (actor, lane) = (&mut state.actors[idx], &mut state.lanes[self.lane]);
            let (turn, operation) = (&mut lane.turn, &mut lane.operation);
            if actor.is_crashed {
                // The task of a crashed client may still be polled; nothing that it sends arrives.
                return Poll::Pending;
            }
            if let Turn::Granted(mishap) = *turn {
                return Poll::Ready(mishap);
            }
            if matches!(turn, Turn::Idle) {
                if let Some((sent_at, sent_in)) = request {
                    (actor.sent_at, actor.sent_in) = (sent_at, sent_in);
                }
                *operation = actor.operation;
                self.world.idle.stir();
                if actor.is_alone {
                    return Poll::Ready(None);
                }
            }
            *turn = Turn::Waiting(cx.waker().clone());
            state.moves(self.actor);
            Poll::Pending
        })
        .await
    }

    /// The same connection, for something else.
    pub(crate) fn carrying(self, carries: Carries) -> Link {
        self.world.state().lanes[self.lane].carries = carries;
        self
    }

    /// A command that has come out of a stream, as a step.
    pub(crate) async fn forward(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        let (world, actor) = (self.world.clone(), self.actor);
        let release = world.set_release_to_come(actor, None);
        let mut step = pin!(self.step(cmd));
        poll_fn(|cx| world.releasing(actor, release, || step.as_mut().poll(cx))).await?
    }

    /// What befalls a request that is made now. Nobody waits longer for his turn than for a reply.
    async fn fate(&self, sent: (Duration, usize)) -> Option<Mishap> {
        let turn = self.turn(Some(sent));
        // What comes out of a stream has the patience of whoever wrote it.
        let is_stream = || self.world.state().lanes[self.lane].carries == Carries::Bytes;
        match self.world.terms.response_timeout {
            Some(limit) if !is_stream() => {
                tokio::time::timeout(limit, turn).await.unwrap_or(Some(Mishap::Delay))
            }
            _ => turn.await,
        }
    }

    /// One request as one step, or as two if it is sent again. What the server calls an error of a command is a value.
    async fn step<R: Request>(&mut self, request: &R) -> Result<RedisResult<R::Reply>, Loss> {
        let sent = self.world.sending();
        loop {
            let mishap = self.fate(sent).await;
            self.set_out(mishap, request)?;
            let running = noted(&self.world, self.server, self.actor, request.run(&self.session));
            let result = match mishap {
                Some(Mishap::DropAfter | Mishap::CancelAfter) => {
                    at_once(running).await.unwrap_or_else(|| Err(Loss::Connection.into()))
                }
                _ => running.await,
            };
            done(&self.world, (self.actor, self.server), request, &result);
            let Some(mishap) = mishap else { return Ok(result) };
            self.world.mishap(self.actor, mishap, || request.text());
            match mishap {
                Mishap::Resend => {}
                Mishap::CancelAfter => {
                    self.world.cancel_lane(self.lane);
                    return std::future::pending().await;
                }
                Mishap::DropAfter => {
                    self.reopen();
                    return Err(Loss::Connection);
                }
                _ => return Err(Loss::Reply),
            }
        }
    }

    /// The request is sent, and arrives unless something comes in between.
    fn set_out(&mut self, mishap: Option<Mishap>, request: &impl Request) -> Result<(), Loss> {
        let loss = match mishap {
            Some(Mishap::LoseRequest) => Loss::Request,
            Some(Mishap::DropBefore) => Loss::Connection,
            Some(Mishap::Delay) => Loss::Late,
            _ => {
                self.world.before_command(self.actor);
                return Ok(());
            }
        };
        self.world.sends(self.actor);
        self.world.mishap(self.actor, mishap.expect("something happened"), || request.text());
        match loss {
            Loss::Late => self.delay(request),
            Loss::Connection => self.reopen(),
            Loss::Request | Loss::Reply => {}
        }
        Err(loss)
    }

    /// The connection has broken, and the next request goes over a new one.
    fn reopen(&mut self) {
        self.close();
        self.session = Session::open(&self.world.servers[self.server]);
    }

    /// Notes what it touches that the connection closes.
    fn close(&self) {
        if let Session::Emulator(connection) = &self.session {
            let closing = connection.closing();
            if !closing.is_empty() {
                self.world.state().touch(|touch| touch.footprints.push((self.server, closing)));
            }
        }
    }

    /// The request is still on its way. When it runs, what it would have to wait for it does not wait for.
    fn delay(&self, request: &impl Request) {
        let (world, actor, server) = (Arc::downgrade(&self.world), self.actor, self.server);
        let (session, request) = (self.session.clone(), request.keep());
        let late = async move {
            let Some(world) = world.upgrade() else { return };
            world.before_command(actor);
            let result = at_once(noted(&world, server, actor, request.run(&session))).await;
            let result = result.unwrap_or_else(|| Err(Loss::Late.into()));
            done(&world, (actor, server), &request, &result);
            world.record(What::Late { actor });
        };
        self.world.delay(self.lane, Box::pin(late));
    }
}

/// What has run is noted.
fn done<R: Request>(
    world: &World,
    (actor, server): (Actor, usize),
    request: &R,
    result: &RedisResult<R::Reply>,
) {
    let reply = || result.as_ref().map_or_else(show_error, Show::show);
    world.shows(actor, reply);
    if world.recording == Recording::Full {
        let (reply, changed) = (reply(), changed_keys(world, server));
        let late = world.pace.get().map_or(Duration::ZERO, |pace| pace.late(world.now()));
        let (text, brief) = request.text();
        world.record(What::Command { actor, server, text, brief, reply, changed, late });
    }
    world.after_command(actor);
    if world.pace.get().is_some() {
        let listeners = std::mem::take(&mut world.state().listeners);
        listeners.into_iter().for_each(Waker::wake);
    }
}

/// The keys that the last command changed, with what they hold now; on a real server that is not known.
fn changed_keys(world: &World, server: usize) -> Vec<String> {
    let Server::Emulator(emulator) = &world.servers[server] else { return Vec::new() };
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

/// What comes of it without waiting; `None` if it would have to wait, and now never will.
async fn at_once<T>(running: impl Future<Output = T>) -> Option<T> {
    let mut running = pin!(running);
    poll_fn(|cx| match running.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// A request whose first poll sends it, if the server is there: notes what the server touched then. Where the reply comes later, or nobody waits for it any
/// more, what it waited for is touched again.
async fn noted<T>(
    world: &World,
    server: usize,
    actor: Actor,
    request: impl Future<Output = RedisResult<T>>,
) -> RedisResult<T> {
    if world.refuses(server, actor) {
        return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
    }
    let (mut request, mut is_sent, mut blocked) = (pin!(request), false, None);
    poll_fn(|cx| {
        let poll = request.as_mut().poll(cx);
        if is_sent {
            // Whoever waits at a server lets happen there what is due.
            world.note_footprint(server);
        } else {
            is_sent = true;
            let footprint = world.note_command(server);
            blocked =
                footprint.filter(|_| poll.is_pending()).map(|footprint| Blocked { world, server, footprint });
        }
        if poll.is_ready() {
            blocked = None;
        }
        poll
    })
    .await
}

/// A command that waits on the server. Dropped, it does so no longer.
struct Blocked<'a> {
    world: &'a World,
    server: usize,
    footprint: Footprint,
}

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        let footprint = std::mem::take(&mut self.footprint);
        self.world.state().touch(|touch| touch.footprints.push((self.server, footprint)));
    }
}

/// A clone is a connection of its own.
impl Clone for Link {
    fn clone(&self) -> Link {
        Client::new(self.world.clone(), self.actor).connection_to(self.server)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
        self.world.state().lanes[self.lane].is_open = false;
    }
}

impl ConnectionLike for Link {
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
                    // In a pipeline an error is one of the replies: the commands behind it run all the same.
                    Ok(reply) => replies.push(reply?),
                    // So they do behind a reply that is lost; behind a request that is, nothing arrives, and behind one that is late all
                    // else is late, too.
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

/// A subscription is a connection of its own. To subscribe is a step, and so is every message that the client hears: between its
/// publication and that anything may happen, as on a real network. What is published to a client that crashes first is never heard. No other
/// message is lost: a connection that listens breaks neither by [`Faults::drops`](crate::Faults) nor together with a server.
impl Subscribe for Link {
    fn subscribe<'a>(&'a self, channel: &'a str) -> RedisFuture<'a, Subscription> {
        Box::pin(async move {
            let mut link = self.clone();
            link.step(redis::cmd("SUBSCRIBE").arg(channel)).await??.extract_error()?;
            let link = link.carrying(Carries::Messages);
            Ok(Subscription::new(Listening { link, channel: channel.to_owned(), unheard: VecDeque::new() }))
        })
    }
}

/// What stands behind a subscription.
struct Listening {
    link: Link,
    channel: String,
    /// What has come, the oldest first, and the client has not heard yet.
    unheard: VecDeque<Vec<u8>>,
}

impl Messages for Listening {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send + '_>> {
        Box::pin(async {
            if self.unheard.is_empty() {
                self.unheard = self.link.messages().await;
            }
            if !self.unheard.is_empty() {
                self.link.turn(None).await;
            }
            let message = self.unheard.pop_front()?;
            let (world, actor) = (&self.link.world, self.link.actor);
            let text = || format!("{}: \"{}\"", self.channel, message.escape_ascii());
            world.shows(actor, text);
            if world.recording == Recording::Full {
                let brief = brief("message", Some(self.channel.clone().into_bytes()));
                world.record(What::Message { actor, text: text(), brief });
            }
            Some(message)
        })
    }
}

impl Link {
    /// What has come by the channel that the connection listens to, once it is anything; nothing if the connection is closed.
    async fn messages(&mut self) -> VecDeque<Vec<u8>> {
        let Link { world, actor, server, session, .. } = self;
        poll_fn(|cx| match session {
            Session::Emulator(connection) => {
                world.looks(*actor, *server, connection.looking());
                connection.poll_message(cx).map(|message| payload(message).into_iter().collect())
            }
            Session::Redis(connection) => {
                let news = news(&mut connection.lock().expect("one task uses it"));
                let news = news.unwrap_or_else(|error| panic!("a real server does not answer: {error}"));
                if news.is_empty() {
                    world.state().listeners.push(cx.waker().clone());
                    return Poll::Pending;
                }
                Poll::Ready(news)
            }
        })
        .await
    }
}

fn payload(message: Reply) -> Option<Vec<u8>> {
    let Reply::Push(words) = message else { return None };
    words
        .into_iter()
        .next_back()
        .and_then(|word| if let Reply::Bulk(bytes) = word { Some(bytes.into()) } else { None })
}

/// What a real server has sent to who listens: all of it comes before the answer to the next request.
fn news(connection: &mut redis::Connection) -> RedisResult<VecDeque<Vec<u8>>> {
    connection.send_packed_command(&redis::cmd("PING").get_packed_command())?;
    let mut news = VecDeque::new();
    loop {
        let words: Vec<Vec<u8>> = redis::from_redis_value(connection.recv_response()?)?;
        match &words[..] {
            [kind, _, message] if kind == b"message" => news.push_back(message.clone()),
            _ => return Ok(news),
        }
    }
}

impl Session {
    fn open(server: &Server) -> Session {
        match server {
            Server::Emulator(emulator) => Session::Emulator(Arc::new(emulator.connection())),
            Server::Redis(client) => {
                let connection = client.get_connection();
                let connection =
                    connection.unwrap_or_else(|error| panic!("{client:?} does not answer: {error}"));
                connection.set_read_timeout(Some(REPLY_MAX)).expect("a socket takes this option");
                Session::Redis(Arc::new(Mutex::new(connection)))
            }
        }
    }

    async fn request(&self, cmd: &Cmd) -> RedisResult<Value> {
        match self {
            Session::Emulator(connection) => connection.exchange(cmd).await,
            Session::Redis(connection) => {
                use redis::ConnectionLike as _;
                connection.lock().expect("one task uses it").req_command(cmd)
            }
        }
    }

    async fn request_all(&self, pipeline: &Pipeline, offset: usize, count: usize) -> RedisResult<Vec<Value>> {
        match self {
            Session::Emulator(connection) => connection.request_all(pipeline, offset, count).await,
            Session::Redis(connection) => {
                use redis::ConnectionLike as _;
                let mut connection = connection.lock().expect("one task uses it");
                connection.req_packed_commands(&pipeline.get_packed_pipeline(), offset, count)
            }
        }
    }
}

/// How long a real server may take to answer.
const REPLY_MAX: Duration = Duration::from_secs(10);
