//! The shortest front end: redis-rs's connection traits on the engine itself, without bytes and
//! without a task.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use redis::{Arg, Cmd, Pipeline, RedisFuture, RedisResult, Value, VerbatimFormat};
use smallvec::SmallVec;

use crate::Emulator;
use crate::client::{CallContext, Client, Closing, Slot};
use crate::command;
use crate::connection::Connection;
use crate::error::Error;
use crate::footprint::{Access, Footprint};
use crate::reply::Reply;
use crate::resp::{self, Protocol};
use crate::shared::Shared;
use crate::topic::Topic;

/// A client connection that runs each command where it is awaited. Implements
/// [`redis::aio::ConnectionLike`] and [`redis::ConnectionLike`].
///
/// A command runs when its future is first polled. If the future is dropped before, the command was
/// never sent. If a future is dropped while its command waits (`BLPOP`, `WAIT`, …), the command is
/// withdrawn.
///
/// Through the sync trait no command can wait: it replies at once, as inside `MULTI`.
pub struct DirectConnection {
    shared: Arc<Shared>,
    slot: Slot,
    /// The connection of the sync trait, which passes bytes. It is opened at the first use.
    bytes: Option<Box<Connection>>,
}

impl DirectConnection {
    pub(crate) fn open(emulator: &Emulator) -> DirectConnection {
        DirectConnection::over(emulator.shared.clone())
    }

    fn over(shared: Arc<Shared>) -> DirectConnection {
        let slot = shared.engine().open_client().slot;
        DirectConnection { shared, slot, bytes: None }
    }

    /// Runs one command now. A command that would wait replies at once, as inside `MULTI`.
    pub fn execute(&mut self, argv: &[&[u8]]) -> Reply {
        self.call(argv, CallContext::WithoutWaiting).reply
    }

    /// Runs one command and waits for its reply. A command may wait for a key, for the end of a
    /// pause, or for a time.
    pub async fn execute_and_wait(&self, argv: &[&[u8]]) -> Reply {
        self.answer(argv).await.reply
    }

    async fn answer(&self, argv: &[&[u8]]) -> Answer {
        let answer = self.call(argv, CallContext::Directly);
        if !answer.comes_later {
            return answer;
        }
        struct Withdraw<'a>(&'a Shared, Slot);
        impl Drop for Withdraw<'_> {
            fn drop(&mut self) {
                self.0.engine().unblock(self.1);
            }
        }
        let _withdraw = Withdraw(&self.shared, self.slot);
        // Boxed because few commands wait, and the state of a wait is large.
        let reply = Box::pin(self.until(Client::take_answer)).await;
        self.client(|client| Answer::to(client, reply))
    }

    /// Returns the next message that is not a reply, such as one of a subscribed channel.
    pub async fn message(&mut self) -> Reply {
        self.until(Client::take_message).await
    }

    /// Polls for the next message that is not a reply. The caller must make time pass on the
    /// server.
    pub fn poll_message(&self, cx: &mut Context<'_>) -> Poll<Reply> {
        self.poll(cx, Client::take_message)
    }

    /// Returns the footprint of a poll for messages: the subscribed channels, and that the
    /// connection is open.
    pub fn looking(&self) -> Footprint {
        let mut footprint = Footprint::default();
        footprint.connections(Access::Read);
        self.client(|client| {
            client.listens_to().for_each(|(topic, name)| match topic {
                Topic::Pattern => footprint.channels(Access::Read),
                Topic::Channel | Topic::ShardChannel => footprint.channel(Access::Read, name),
            });
        });
        footprint
    }

    /// Returns the footprint of closing the connection: its subscriptions end, unless the server
    /// has hung up before.
    pub fn closing(&self) -> Footprint {
        let mut footprint = Footprint::default();
        self.client(|client| {
            if client.is_subscriber() || client.is_hung_up {
                footprint.connections(Access::Read);
            }
            client.note_leaving(&mut footprint);
        });
        footprint
    }

    /// Whether [`Emulator::hang_up`] has closed the connection.
    pub fn is_hung_up(&self) -> bool {
        self.client(|client| client.is_hung_up)
    }

    /// Waits for what `take` takes from the client, or for the end of the connection, which gives
    /// [`Reply::NOTHING`]. Meanwhile it runs what is due by the clock.
    async fn until(&self, take: fn(&mut Client) -> Option<Reply>) -> Reply {
        tokio::select! {
            biased;
            reply = poll_fn(|cx| self.poll(cx, take)) => reply,
            () = self.shared.clone().drive() => unreachable!("driving never ends"),
        }
    }

    fn poll(&self, cx: &mut Context<'_>, take: fn(&mut Client) -> Option<Reply>) -> Poll<Reply> {
        let mut engine = self.shared.engine();
        let client = engine.client(self.slot);
        let taken = take(client).or((client.closing != Closing::No).then_some(Reply::NOTHING));
        if taken.is_none() {
            client.set_waker(cx.waker());
        }
        taken.map_or(Poll::Pending, Poll::Ready)
    }

    fn call(&self, argv: &[&[u8]], runs: CallContext) -> Answer {
        let mut engine = self.shared.engine();
        let client = engine.client(self.slot);
        if client.closing != Closing::No {
            // If the connection was refused, the reason was sent to it before.
            let reply = client.take_answer().unwrap_or(Reply::NOTHING);
            let answer = Answer::to(client, reply);
            engine.keyspace.footprint_mut().clear();
            engine.use_connection();
            return answer;
        }
        client.context = runs;
        let reply = command::call(&mut engine, self.slot, argv);
        let (reply, messages) = reply.split_messages();
        messages.into_iter().for_each(|message| engine.deliver_to(self.slot, message));
        Answer::to(engine.client(self.slot), reply)
    }

    fn client<R>(&self, look: impl FnOnce(&Client) -> R) -> R {
        look(self.shared.engine().client(self.slot))
    }

    /// Runs one command of redis-rs and waits for its reply, if the command has to wait.
    ///
    /// # Errors
    /// The server's error reply, or a broken pipe if the connection is closed.
    pub async fn request(&self, cmd: &Cmd) -> RedisResult<Value> {
        self.exchange(cmd).await?.extract_error()
    }

    /// Like [`request`](DirectConnection::request), but a server error is a value, as it is on the
    /// wire.
    ///
    /// # Errors
    /// A broken pipe, if the connection is closed.
    pub async fn exchange(&self, cmd: &Cmd) -> RedisResult<Value> {
        let Answer { reply, protocol, is_closed, .. } = self.answer(&argv(cmd)?).await;
        if reply == Reply::NOTHING && is_closed {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
        }
        Ok(to_value(reply, protocol))
    }

    /// Runs a pipeline in one piece, as if its bytes had arrived together, unless one of its
    /// commands has to wait.
    ///
    /// # Errors
    /// A broken pipe, if the connection is closed. Server errors are values in the result.
    pub async fn request_all(
        &self,
        pipeline: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        let fixed = |name: &str| redis::cmd(name);
        let (multi, exec) = (fixed("MULTI"), fixed("EXEC"));
        let is_transaction = pipeline.is_transaction();
        let first = is_transaction.then_some(&multi);
        let last = is_transaction.then_some(&exec);
        let mut replies = Vec::with_capacity(pipeline.len() + 2);
        for cmd in first.into_iter().chain(pipeline.cmd_iter()).chain(last) {
            replies.push(match self.request(cmd).await {
                Ok(value) => value,
                Err(error) => Value::ServerError(error.try_into()?),
            });
        }
        Ok(replies.into_iter().skip(offset).take(count).collect())
    }
}

/// A clone is a new connection, without the selected database, the name and the subscriptions of
/// this one.
impl Clone for DirectConnection {
    fn clone(&self) -> DirectConnection {
        DirectConnection::over(self.shared.clone())
    }
}

impl Drop for DirectConnection {
    fn drop(&mut self) {
        self.shared.close_client(self.slot);
    }
}

impl redis::aio::ConnectionLike for DirectConnection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(self.request(cmd))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(self.request_all(pipeline, offset, count))
    }

    fn get_db(&self) -> i64 {
        self.shared.engine().client(self.slot).db as i64
    }
}

impl redis::ConnectionLike for DirectConnection {
    fn req_packed_command(&mut self, cmd: &[u8]) -> RedisResult<Value> {
        let mut replies = self.req_packed_commands(cmd, 0, 1)?;
        replies.pop().unwrap_or_default().extract_error()
    }

    fn req_packed_commands(&mut self, cmd: &[u8], offset: usize, count: usize) -> RedisResult<Vec<Value>> {
        let bytes = self.bytes.get_or_insert_with(|| {
            let mut connection = Connection::over(&self.shared);
            connection.never_waits();
            Box::new(connection)
        });
        let mut output = BytesMut::new();
        bytes.receive(cmd, &mut output);
        let mut parser = redis::Parser::new();
        let mut input = &output[..];
        let replies: Vec<Value> =
            (0..offset + count).map(|_| parser.parse_value(&mut input)).collect::<Result<_, _>>()?;
        Ok(replies.into_iter().skip(offset).collect())
    }

    fn get_db(&self) -> i64 {
        self.shared.engine().client(self.slot).db as i64
    }

    fn check_connection(&mut self) -> bool {
        self.is_open()
    }

    fn is_open(&self) -> bool {
        self.client(|client| client.closing == Closing::No)
    }
}

/// The reply to a command, with the state of the client at that moment.
struct Answer {
    reply: Reply,
    /// The command waits, or its reply is lost.
    comes_later: bool,
    protocol: Protocol,
    is_closed: bool,
}

impl Answer {
    fn to(client: &Client, reply: Reply) -> Answer {
        Answer {
            reply,
            comes_later: client.is_blocked || client.is_cut_off,
            protocol: client.protocol,
            is_closed: client.closing != Closing::No,
        }
    }
}

/// Returns the arguments of a command of redis-rs.
fn argv(cmd: &Cmd) -> RedisResult<SmallVec<[&[u8]; 8]>> {
    let args = cmd.args_iter().map(|arg| match arg {
        Arg::Simple(bytes) => bytes,
        Arg::Cursor => b"0",
        _ => b"",
    });
    let argv: SmallVec<_> = args.collect();
    if argv.is_empty() {
        return Err((redis::ErrorKind::Client, "a command needs a name").into());
    }
    Ok(argv)
}

/// Converts a reply to the value that redis-rs's parser makes of its bytes in this protocol.
fn to_value(reply: Reply, protocol: Protocol) -> Value {
    let is_resp3 = protocol == Protocol::Resp3;
    let to_value = |reply| to_value(reply, protocol);
    let bytes = |bytes: bytes::Bytes| Value::BulkString(Vec::from(bytes));
    let all = |items: Vec<Reply>| items.into_iter().map(to_value).collect();
    match reply {
        Reply::Status(text) if text == "OK" => Value::Okay,
        Reply::Status(text) => Value::SimpleString(String::from_utf8_lossy(&text).into_owned()),
        Reply::Integer(n) => Value::Int(n),
        Reply::Boolean(yes) if is_resp3 => Value::Boolean(yes),
        Reply::Boolean(yes) => Value::Int(yes.into()),
        Reply::Verbatim(format, text) if is_resp3 => Value::VerbatimString {
            format: match &format {
                b"txt" => VerbatimFormat::Text,
                b"mkd" => VerbatimFormat::Markdown,
                other => VerbatimFormat::Unknown(String::from_utf8_lossy(other).into_owned()),
            },
            text: String::from_utf8_lossy(&text).into_owned(),
        },
        Reply::Bulk(text) | Reply::BigNumber(text) | Reply::Verbatim(_, text) => bytes(text),
        Reply::Nil | Reply::NilArray => Value::Nil,
        Reply::Settled(protocol, reply) => self::to_value(*reply, protocol),
        Reply::Set(items) if is_resp3 => Value::Set(all(items)),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) | Reply::Several(items) => {
            Value::Array(all(items))
        }
        Reply::Map(pairs) if is_resp3 => {
            Value::Map(pairs.into_iter().map(|(key, value)| (to_value(key), to_value(value))).collect())
        }
        Reply::Map(pairs) => Value::Array(
            pairs.into_iter().flat_map(|(key, value)| [to_value(key), to_value(value)]).collect(),
        ),
        Reply::Double(value) if is_resp3 => Value::Double(value),
        Reply::Double(value) => bytes(crate::reply::format_double(value).into()),
        // redis-rs makes its error kinds only by parsing, and it parses only UTF-8.
        Reply::Error(error) => {
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let mut wire = BytesMut::new();
            resp::encode(&Reply::Error(Error::new(text)), Protocol::Resp2, &mut wire);
            redis::parse_redis_value(&wire).expect("an encoded error parses")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_is_no_text_is_an_error() {
        let reply = Reply::Error(Error::new(b"ERR \xff".to_vec()));
        let Value::ServerError(error) = to_value(reply, Protocol::Resp2) else { panic!("it is an error") };
        assert_eq!(error.details(), Some("\u{fffd}"));
    }
}
