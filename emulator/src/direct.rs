//! The shortest door: redis-rs's connection traits over the engine itself, without bytes and without a task.

use std::sync::Arc;

use bytes::BytesMut;
use redis::{Arg, Cmd, Pipeline, RedisFuture, RedisResult, Value};
use smallvec::SmallVec;

use crate::client::Client;
use crate::command;
use crate::connection::Connection;
use crate::reply::Reply;
use crate::resp::{self, Protocol};
use crate::{Emulator, Shared};

/// A client connection that runs each command where it is awaited. Implements [`redis::aio::ConnectionLike`] and
/// [`redis::ConnectionLike`].
///
/// A command runs when its future is first polled: one that is dropped before was never sent.
pub struct DirectConnection {
    shared: Arc<Shared>,
    client: Client,
    /// The sync trait hands over bytes, so that side has a connection of its own, made when first used.
    bytes: Option<Box<Connection>>,
}

impl DirectConnection {
    pub(crate) fn open(emulator: &Emulator) -> DirectConnection {
        let shared = emulator.shared.clone();
        let client = shared.engine().open_client();
        DirectConnection { shared, client, bytes: None }
    }

    /// Runs one command now.
    pub fn execute(&mut self, argv: &[&[u8]]) -> Reply {
        command::call(&mut self.shared.engine(), &mut self.client, argv)
    }

    /// Runs a command of redis-rs now.
    ///
    /// # Errors
    /// The server's error reply.
    pub fn request(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        let argv: SmallVec<[&[u8]; 8]> = cmd
            .args_iter()
            .map(|arg| match arg {
                Arg::Simple(bytes) => bytes,
                Arg::Cursor => b"0",
                _ => b"",
            })
            .collect();
        if argv.is_empty() {
            return Err((redis::ErrorKind::Client, "a command needs a name").into());
        }
        to_value(self.execute(&argv)).extract_error()
    }

    /// Runs a pipeline now: in one piece, as if its bytes had arrived together.
    ///
    /// # Errors
    /// None of the server's: those stand in the values.
    pub fn request_all(
        &mut self,
        pipeline: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        let fixed = |name: &str| redis::cmd(name);
        let (multi, exec) = (fixed("MULTI"), fixed("EXEC"));
        let is_transaction = pipeline.is_transaction();
        let first = is_transaction.then_some(&multi);
        let last = is_transaction.then_some(&exec);
        let cmds = first.into_iter().chain(pipeline.cmd_iter()).chain(last);
        let replies = cmds.map(|cmd| match self.request(cmd) {
            Ok(value) => Ok(value),
            Err(error) => redis::ServerError::try_from(error).map(Value::ServerError),
        });
        let replies: Vec<Value> = replies.collect::<Result<_, _>>()?;
        Ok(replies.into_iter().skip(offset).take(count).collect())
    }
}

impl Drop for DirectConnection {
    fn drop(&mut self) {
        self.shared.engine().close_client(&self.client);
    }
}

impl redis::aio::ConnectionLike for DirectConnection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move { self.request(cmd) })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move { self.request_all(pipeline, offset, count) })
    }

    fn get_db(&self) -> i64 {
        self.client.db as i64
    }
}

impl redis::ConnectionLike for DirectConnection {
    fn req_packed_command(&mut self, cmd: &[u8]) -> RedisResult<Value> {
        let mut replies = self.req_packed_commands(cmd, 0, 1)?;
        replies.pop().unwrap_or_default().extract_error()
    }

    fn req_packed_commands(&mut self, cmd: &[u8], offset: usize, count: usize) -> RedisResult<Vec<Value>> {
        let open = || Box::new(Connection::open(&Emulator { shared: self.shared.clone() }));
        let bytes = self.bytes.get_or_insert_with(open);
        let mut output = BytesMut::new();
        bytes.receive(cmd, &mut output);
        let mut parser = redis::Parser::new();
        let mut input = &output[..];
        let replies: Vec<Value> =
            (0..offset + count).map(|_| parser.parse_value(&mut input)).collect::<Result<_, _>>()?;
        Ok(replies.into_iter().skip(offset).collect())
    }

    fn get_db(&self) -> i64 {
        self.client.db as i64
    }

    fn check_connection(&mut self) -> bool {
        true
    }

    fn is_open(&self) -> bool {
        true
    }
}

/// A reply as redis-rs's parser would have made it from RESP2 bytes.
fn to_value(reply: Reply) -> Value {
    let bytes = |bytes: bytes::Bytes| Value::BulkString(Vec::from(bytes));
    let array = |items: Vec<Reply>| Value::Array(items.into_iter().map(to_value).collect());
    match reply {
        Reply::Status(text) if text == "OK" => Value::Okay,
        Reply::Status(text) => Value::SimpleString(String::from_utf8_lossy(&text).into_owned()),
        Reply::Integer(n) => Value::Int(n),
        Reply::Boolean(yes) => Value::Int(yes.into()),
        Reply::Bulk(text) | Reply::BigNumber(text) | Reply::Verbatim(_, text) => bytes(text),
        Reply::Nil | Reply::NilArray | Reply::None => Value::Nil,
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => array(items),
        Reply::Map(pairs) => array(pairs.into_iter().flat_map(|(key, value)| [key, value]).collect()),
        Reply::Double(value) => bytes(crate::reply::format_double(value).into()),
        // redis-rs has no public way to make its error kinds but to parse them.
        Reply::Error(_) => {
            let mut wire = BytesMut::new();
            resp::encode(&reply, Protocol::Resp2, &mut wire);
            redis::parse_redis_value(&wire).expect("an encoded error parses")
        }
    }
}
