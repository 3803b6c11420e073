//! redis-rs's connection traits for [`DirectConnection`].

use std::io;
use std::task::{Context, Poll};

use bytes::BytesMut;
use redis::{Arg, Cmd, Pipeline, PushKind, RedisFuture, RedisResult, Value, VerbatimFormat};
use smallvec::SmallVec;

use super::{Answer, DirectConnection};
use crate::client::{Client, Closing};
use crate::connection::Connection;
use crate::error::Error;
use crate::reply::Reply;
use crate::resp::{self, Protocol};

impl DirectConnection {
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

    /// The reply to the command that waited on this connection. `None` if it still waits.
    #[doc(hidden)]
    pub fn take_reply(&self) -> Option<RedisResult<Value>> {
        let mut engine = self.shared.engine();
        let client = engine.client(self.slot);
        if let Some(reply) = client.take_answer() {
            return Some(Ok(to_value(reply, client.protocol)));
        }
        (client.closing != Closing::No).then(|| Err(io::Error::from(io::ErrorKind::BrokenPipe).into()))
    }

    /// Polls for the next message that is not a reply. `None` if no more will come.
    #[doc(hidden)]
    pub fn poll_push(&self, cx: &mut Context<'_>) -> Poll<Option<Value>> {
        self.poll(cx, Client::take_push).map(|message| {
            let Reply::Push(words) = message else { return None };
            let mut words = words.into_iter();
            let Some(Reply::Bulk(kind)) = words.next() else { return None };
            let kind = PushKind::Other(String::from_utf8_lossy(&kind).into_owned());
            Some(Value::Push { kind, data: words.map(|word| to_value(word, Protocol::Resp3)).collect() })
        })
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
