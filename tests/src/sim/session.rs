//! The session of a connection, on an emulator or on a real server.

use std::io;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll, Waker};

use emulator::{BlockedCommand, Clock, DirectConnection, Emulator};
use redis::{Cmd, Pipeline, ProtocolVersion, PushInfo, RedisError, RedisResult, Value};

use super::server::{Server, connect};
use crate::live::{Request, RequestKind, Traffic};
use crate::render::bytes_of;

/// A request that is being run. The first poll sends it.
pub(super) type Running = Pin<Box<dyn Future<Output = RedisResult<Value>> + Send>>;

/// One session. A clone is the same session, for a request that is still on its way.
#[derive(Clone)]
pub(crate) enum Session {
    Emulator(Arc<LazyConnection>),
    /// The lock is never contended. It makes the connection `Sync`, as redis-rs's traits require.
    Redis(Arc<Mutex<Real>>),
}

/// A connection to a real server.
pub(crate) struct Real {
    /// `None` if the server has not answered once.
    connection: Option<redis::Connection>,
    /// The messages that it has sent between its replies.
    pushes: Receiver<PushInfo>,
    mirror: Mirror,
}

/// A connection of an emulator in the same state as one of a real server, which would not say
/// whether it watches any keys.
struct Mirror {
    emulator: Emulator,
    connection: DirectConnection,
}

/// The commands that change the state of a connection.
const OF_CONNECTIONS: [&str; 19] = [
    "asking",
    "client",
    "discard",
    "exec",
    "hello",
    "monitor",
    "multi",
    "psubscribe",
    "punsubscribe",
    "readonly",
    "readwrite",
    "reset",
    "select",
    "ssubscribe",
    "subscribe",
    "sunsubscribe",
    "unsubscribe",
    "unwatch",
    "watch",
];

impl Real {
    fn open(client: &redis::Client, traffic: Traffic) -> RedisResult<Real> {
        let (sender, pushes) = channel();
        let mut connection = if traffic == Traffic::Pushes {
            let info = client.get_connection_info().clone();
            let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
            connect(&redis::Client::open(info.set_redis_settings(settings))?)?
        } else {
            connect(client)?
        };
        connection.set_push_sender(sender);
        Ok(Real { connection: Some(connection), ..Real::closed(pushes) })
    }

    fn closed(pushes: Receiver<PushInfo>) -> Real {
        let emulator = Emulator::with_clock(Clock::manual());
        let connection = emulator.connection();
        Real { connection: None, pushes, mirror: Mirror { emulator, connection } }
    }
}

impl Mirror {
    /// A request is about to run on the real server.
    fn follow(&mut self, request: &Request) {
        if let RequestKind::Transaction { .. } = request.kind {
            // Its end is also that of what the connection watched.
            self.connection.execute(&[b"UNWATCH"]);
        }
        for cmd in request.commands() {
            let argv: Vec<&[u8]> = cmd.args_iter().map(|arg| bytes_of(&arg)).collect();
            let is_meant =
                |name: &&[u8]| OF_CONNECTIONS.iter().any(|of| name.eq_ignore_ascii_case(of.as_bytes()));
            if argv.first().is_some_and(is_meant) {
                self.connection.execute(&argv);
            }
        }
    }
}

/// A connection to an emulator, opened when it is needed.
pub(crate) struct LazyConnection {
    emulator: Emulator,
    connection: OnceLock<DirectConnection>,
}

impl LazyConnection {
    /// The connection. It is opened if it was not.
    pub(crate) fn open(&self) -> &DirectConnection {
        self.connection.get_or_init(|| self.emulator.connection())
    }

    /// Opens the connection. It gets this number, or the next one.
    pub(super) fn open_with(&self, id: Option<u64>) {
        let connection = self.open();
        id.into_iter().for_each(|id| connection.set_id(id));
    }

    /// The connection, if it is open.
    pub(crate) fn get(&self) -> Option<&DirectConnection> {
        self.connection.get()
    }
}

impl Session {
    /// A session on a connection that may be open already.
    pub(super) fn over(emulator: &Emulator, connection: OnceLock<DirectConnection>) -> Session {
        Session::Emulator(Arc::new(LazyConnection { emulator: emulator.clone(), connection }))
    }

    pub(crate) fn open(server: &Server, traffic: Traffic) -> Session {
        match server {
            Server::Emulator(emulator) => Session::over(emulator, OnceLock::new()),
            Server::Redis(client) => {
                let real = Real::open(client, traffic).unwrap_or_else(|_| Real::closed(channel().1));
                Session::Redis(Arc::new(Mutex::new(real)))
            }
        }
    }

    /// The command that waits on this connection, if one does. None waits on a real server.
    pub(super) fn blocked(&self) -> Option<BlockedCommand> {
        match self {
            Session::Emulator(connection) => connection.get()?.blocked(),
            Session::Redis(_) => None,
        }
    }

    /// Whether the server has disconnected.
    pub(crate) fn is_hung_up(&self) -> bool {
        match self {
            Session::Emulator(connection) => connection.get().is_some_and(DirectConnection::is_hung_up),
            Session::Redis(real) => locked(real).mirror.connection.is_hung_up(),
        }
    }

    /// Whether a new connection is like this one.
    pub(super) fn is_as_new(&self) -> bool {
        match self {
            Session::Emulator(connection) => connection.get().is_none_or(DirectConnection::is_as_new),
            Session::Redis(real) => locked(real).mirror.connection.is_as_new(),
        }
    }

    /// A real server disconnects those that wait for something.
    pub(super) fn hang_up(&self) {
        if let Session::Redis(real) = self {
            let mut real = locked(real);
            real.mirror.emulator.hang_up();
            if real.mirror.connection.is_hung_up() {
                real.connection = None;
            }
        }
    }

    /// The messages that a real server has sent. All of them come before the reply to this command.
    ///
    /// # Errors
    /// The server does not answer.
    pub(crate) fn news(&self, command: &str) -> RedisResult<Vec<Vec<u8>>> {
        let Session::Redis(connection) = self else { return Ok(Vec::new()) };
        let (news, reply) = ask(connection, |connection| hear_until_reply(connection, &redis::cmd(command)))?;
        reply.extract_error()?;
        Ok(news)
    }

    /// Takes the messages that the server has sent between its replies. `None` is the end of the
    /// connection.
    pub(super) fn take_pushes(&self) -> Vec<Option<Value>> {
        match self {
            Session::Emulator(connection) => {
                let Some(connection) = connection.get() else { return Vec::new() };
                let (mut pushes, mut cx) = (Vec::new(), Context::from_waker(Waker::noop()));
                let has_ended = |pushes: &[Option<Value>]| pushes.last().is_some_and(Option::is_none);
                while !has_ended(&pushes)
                    && let Poll::Ready(push) = connection.poll_push(&mut cx)
                {
                    pushes.push(push);
                }
                pushes
            }
            // They come before the reply to a command that is sent now.
            Session::Redis(real) => {
                use redis::ConnectionLike as _;
                _ = ask(real, |connection| connection.req_command(&redis::cmd("PING")));
                let real = locked(real);
                let pushes = real.pushes.try_iter();
                let pushes = pushes.map(|PushInfo { kind, data }| Some(Value::Push { kind, data }));
                pushes.chain(real.mirror.connection.is_hung_up().then_some(None)).collect()
            }
        }
    }

    /// Runs a request. An error reply of a command is a value.
    pub(super) fn run(&self, request: Request) -> Running {
        let session = self.clone();
        Box::pin(async move {
            if request.is_asking {
                session.request(&redis::cmd("ASKING")).await?;
            }
            if let Session::Redis(real) = &session {
                locked(real).mirror.follow(&request);
            }
            match &request.kind {
                RequestKind::Arrival => Ok(Value::Okay),
                RequestKind::Subscribe { cmd, ends: true, .. } => session.unsubscribe(cmd).await,
                RequestKind::Command(cmd) | RequestKind::Subscribe { cmd, .. } => session.request(cmd).await,
                RequestKind::Transaction { pipeline, offset, count } => {
                    session.request_all(pipeline, *offset, *count).await.map(Value::Array)
                }
            }
        })
    }

    /// Ends a subscription. A real server may have sent messages before its reply, which nobody
    /// hears any more.
    async fn unsubscribe(&self, cmd: &Cmd) -> RedisResult<Value> {
        let Session::Redis(connection) = self else { return self.request(cmd).await };
        ask(connection, |connection| hear_until_reply(connection, cmd)).map(|(_, reply)| reply)
    }

    async fn request(&self, cmd: &Cmd) -> RedisResult<Value> {
        match self {
            Session::Emulator(connection) => connection.open().exchange(cmd).await,
            Session::Redis(connection) => {
                use redis::ConnectionLike as _;
                ask(connection, |connection| connection.req_command(cmd))
            }
        }
    }

    async fn request_all(&self, pipeline: &Pipeline, offset: usize, count: usize) -> RedisResult<Vec<Value>> {
        match self {
            Session::Emulator(connection) => connection.open().request_all(pipeline, offset, count).await,
            Session::Redis(connection) => {
                use redis::ConnectionLike as _;
                let packed = pipeline.get_packed_pipeline();
                ask(connection, |connection| connection.req_packed_commands(&packed, offset, count))
            }
        }
    }
}

fn locked(session: &Mutex<Real>) -> MutexGuard<'_, Real> {
    session.lock().expect("one task uses it")
}

/// The messages that a real server has sent to a subscriber before its reply to this command, and
/// the reply.
fn hear_until_reply(connection: &mut redis::Connection, cmd: &Cmd) -> RedisResult<(Vec<Vec<u8>>, Value)> {
    connection.send_packed_command(&cmd.get_packed_command())?;
    let mut messages = Vec::new();
    loop {
        match connection.recv_response()? {
            Value::Array(words) => match &words[..] {
                [Value::BulkString(kind), _, Value::BulkString(message)] if kind == b"message" => {
                    messages.push(message.clone());
                }
                _ => return Ok((messages, Value::Array(words))),
            },
            reply => return Ok((messages, reply)),
        }
    }
}

/// Asks a real server. If it has not answered once, it is not asked again: each time would take as
/// long.
fn ask<R>(
    session: &Mutex<Real>,
    ask: impl FnOnce(&mut redis::Connection) -> RedisResult<R>,
) -> RedisResult<R> {
    let mut session = locked(session);
    let connection = session.connection.as_mut().ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
    let answer = ask(connection);
    if answer.as_ref().is_err_and(RedisError::is_io_error) {
        session.connection = None;
    }
    answer
}
