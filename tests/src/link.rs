//! A client's side of an execution: connections whose every command waits at the gate, a clock that may be wrong, and the
//! marks that say where the client is inside a critical section.

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
use crate::world::{Carries, Lane, Recording, Turn, World};

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
        let session = match &self.world.servers[server] {
            Server::Emulator(emulator) => Session::Emulator(emulator.connection()),
            Server::Redis(client) => {
                let connection = client.get_connection();
                let connection =
                    connection.unwrap_or_else(|error| panic!("{client:?} does not answer: {error}"));
                connection.set_read_timeout(Some(REPLY_MAX)).expect("a socket takes this option");
                Session::Redis(Box::new(Mutex::new(connection)))
            }
        };
        let mut state = self.world.state();
        let own = |lane: &&Lane| lane.actor == self.actor;
        let closed = state.lanes.iter().position(|lane| own(&lane) && lane.server == server && !lane.is_open);
        let lane = closed.unwrap_or_else(|| {
            let nth = state.lanes.iter().filter(own).count();
            let (turn, carries, is_open) = (Turn::Idle, Carries::Requests, false);
            state.lanes.push(Lane { actor: self.actor, nth, server, turn, carries, is_open });
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

    /// Says that the client was granted `section` and is inside.
    pub fn hold(&self, section: &'static str) -> Hold<'_> {
        Hold { client: self, section, since: None, record: None }
    }
}

impl Source for Client {
    fn now(&self) -> Duration {
        let skew_ms = {
            let mut state = self.world.state();
            state.touch(|touch| touch.is_timed = true);
            state.actors[state.idx(self.actor)].skew_ms
        };
        let true_ms = self.world.wall_time().millis();
        Duration::from_millis(u64::try_from(true_ms + skew_ms).unwrap_or(0))
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

enum Session {
    Emulator(DirectConnection),
    /// The lock is never contended: it makes the connection `Sync`, which redis-rs's traits ask for.
    Redis(Box<Mutex<redis::Connection>>),
}

/// What a client that gives up waiting will never hear of.
enum Loss {
    /// The request did not arrive.
    Request,
    /// It did, and the reply was lost.
    Reply,
}

/// As redis-rs says it.
impl From<Loss> for RedisError {
    fn from(_: Loss) -> RedisError {
        io::Error::from(io::ErrorKind::TimedOut).into()
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
            let (actor, turn) = (&mut state.actors[idx], &mut state.lanes[self.lane].turn);
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

    /// One command as one step, or as two if it is sent again. What the server calls an error is a value.
    async fn step(&mut self, cmd: &Cmd) -> Result<RedisResult<Value>, Loss> {
        let (sent, text) = (Some(self.world.sending()), || (show_command(cmd), brief_command(cmd)));
        loop {
            let mishap = self.turn(sent).await;
            self.set_out(mishap, text)?;
            let result = noted(&self.world, self.server, self.actor, self.session.request(cmd)).await;
            self.done(text, &result);
            if self.is_heard(mishap, text)? {
                return Ok(result);
            }
        }
    }

    /// A transaction as one step, or as two if it is sent again.
    async fn step_all(
        &mut self,
        pipeline: &Pipeline,
        offset: usize,
        count: usize,
    ) -> Result<RedisResult<Vec<Value>>, Loss> {
        let sent = Some(self.world.sending());
        let text = || {
            let commands: Vec<_> = pipeline.cmd_iter().map(show_command).collect();
            let key = pipeline.cmd_iter().find_map(first_key);
            (format!("MULTI; {}; EXEC", commands.join("; ")), brief("MULTI", key))
        };
        loop {
            let mishap = self.turn(sent).await;
            self.set_out(mishap, text)?;
            let request = self.session.request_all(pipeline, offset, count);
            let result = noted(&self.world, self.server, self.actor, request).await;
            self.done(text, &result);
            if self.is_heard(mishap, text)? {
                return Ok(result);
            }
        }
    }

    /// The request is sent, and arrives unless it is lost.
    fn set_out(&self, mishap: Option<Mishap>, text: impl Fn() -> (String, String)) -> Result<(), Loss> {
        if mishap == Some(Mishap::LoseRequest) {
            self.world.sends(self.actor);
            self.world.mishap(self.actor, Mishap::LoseRequest, text);
            return Err(Loss::Request);
        }
        self.world.before_command(self.actor);
        Ok(())
    }

    /// Whether the client hears the reply; otherwise its library, which has not, sends the request again.
    fn is_heard(&self, mishap: Option<Mishap>, text: impl Fn() -> (String, String)) -> Result<bool, Loss> {
        let Some(mishap) = mishap else { return Ok(true) };
        self.world.mishap(self.actor, mishap, text);
        if mishap == Mishap::Resend { Ok(false) } else { Err(Loss::Reply) }
    }

    fn done<R: Show>(&self, text: impl Fn() -> (String, String), result: &RedisResult<R>) {
        let reply = || result.as_ref().map_or_else(show_error, Show::show);
        self.world.shows(self.actor, reply);
        if self.world.recording == Recording::Full {
            let reply = reply();
            let (actor, server, changed) = (self.actor, self.server, self.changed_keys());
            let late = self.world.pace.get().map_or(Duration::ZERO, |pace| pace.late(self.world.now()));
            let (text, brief) = text();
            self.world.record(What::Command { actor, server, text, brief, reply, changed, late });
        }
        self.world.after_command(self.actor);
        if self.world.pace.get().is_some() {
            let listeners = std::mem::take(&mut self.world.state().listeners);
            listeners.into_iter().for_each(Waker::wake);
        }
    }

    /// The keys that the last command changed, with what they hold now; on a real server that is not known.
    fn changed_keys(&self) -> Vec<String> {
        let Server::Emulator(emulator) = &self.world.servers[self.server] else { return Vec::new() };
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
        let show = |key: &[u8]| {
            emulator.describe(0, key).unwrap_or_else(|| format!("{} is gone", key.escape_ascii()))
        };
        keys.into_iter().map(show).collect()
    }
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
        if !std::mem::replace(&mut is_sent, true) {
            let footprint = world.note_footprint(server);
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
        if let Session::Emulator(connection) = &self.session {
            let closing = connection.closing();
            if !closing.is_empty() {
                self.world.state().touch(|touch| touch.footprints.push((self.server, closing)));
            }
        }
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
                return self.step_all(pipeline, offset, count).await?;
            }
            let mut replies = Vec::with_capacity(pipeline.len());
            let mut lost = None;
            for cmd in pipeline.cmd_iter() {
                match self.step(cmd).await {
                    // In a pipeline an error is one of the replies: the commands behind it run all the same.
                    Ok(reply) => replies.push(reply?),
                    // So they do behind a reply that is lost; behind a request that is, nothing arrives.
                    Err(Loss::Reply) => lost = Some(Loss::Reply),
                    Err(Loss::Request) => return Err(Loss::Request.into()),
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
            Session::Emulator(connection) => ConnectionLike::get_db(connection),
            Session::Redis(_) => 0,
        }
    }
}

/// A subscription is a connection of its own. To subscribe is a step, and so is every message that the client hears: between its
/// publication and that anything may happen, as on a real network. What is published to a client that crashes first is never heard. No other
/// message is lost, and whoever listens to a server that restarts goes on listening: that connections break is no fault of these.
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
                let news = news(connection.get_mut().expect("one task uses it"));
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
    async fn request(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        match self {
            Session::Emulator(connection) => connection.exchange(cmd).await,
            Session::Redis(connection) => {
                use redis::ConnectionLike as _;
                connection.get_mut().expect("one task uses it").req_command(cmd)
            }
        }
    }

    async fn request_all(
        &mut self,
        pipeline: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        match self {
            Session::Emulator(connection) => connection.request_all(pipeline, offset, count).await,
            Session::Redis(connection) => {
                use redis::ConnectionLike as _;
                let connection = connection.get_mut().expect("one task uses it");
                connection.req_packed_commands(&pipeline.get_packed_pipeline(), offset, count)
            }
        }
    }
}

/// How long a real server may take to answer.
const REPLY_MAX: Duration = Duration::from_secs(10);
