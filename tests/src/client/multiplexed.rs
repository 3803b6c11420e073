//! redis-rs's own [`MultiplexedConnection`], with its queue, its driver and its timeouts, over a
//! stream in memory. Each request that comes out of the stream waits at a gate, as the requests of
//! a [`GatedConnection`] do.
//!
//! A gated connection is faster, and runs a transaction as one step. Here each request of a
//! transaction is a step, as on the wire, and only `EXEC` touches anything.

use std::future::poll_fn;
use std::task::Poll;

use bytes::BytesMut;
use emulator::resp::Decoder;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, RedisResult, Value};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::{Client, GatedConnection};
use crate::live::{Part, Traffic};

/// Most bytes on their way in one direction. A writer of more has to wait.
const BYTES_MAX: usize = 64 * 1024;

impl Client {
    /// A new connection to the server, as [`redis::Client::get_multiplexed_async_connection`] gives
    /// one. Clones share it. A client stops waiting for a reply after half a second, while the
    /// server may still run the request.
    ///
    /// If a request or a reply is lost, the connection breaks. It speaks RESP2; for subscriptions
    /// use [`Client::connection`].
    ///
    /// # Errors
    /// redis-rs returns none.
    pub async fn multiplexed(&self) -> RedisResult<MultiplexedConnection> {
        self.multiplexed_with_config(AsyncConnectionConfig::new()).await
    }

    /// A multiplexed connection with other timeouts
    /// ([`AsyncConnectionConfig::set_response_timeout`]) or limits.
    ///
    /// # Errors
    /// The configuration needs RESP3.
    pub async fn multiplexed_with_config(
        &self,
        config: AsyncConnectionConfig,
    ) -> RedisResult<MultiplexedConnection> {
        // Its tasks stand still in a pause, and others do not. That is not learned.
        self.0.note_sharing();
        let (near, far) = tokio::io::duplex(BYTES_MAX);
        tokio::spawn(serve(self.open(0, Traffic::Bytes), far));
        // Without the library's name and version, the connection sends nothing before the first
        // request.
        let info = RedisConnectionInfo::default().set_skip_set_lib_name();
        let (connection, driver) = MultiplexedConnection::new_with_config(&info, near, config).await?;
        let (live, mut driver) = (self.0.clone(), Box::pin(driver));
        tokio::spawn(poll_fn(move |cx| {
            if live.stands_still(Part::Driver, cx.waker()) {
                return Poll::Pending;
            }
            driver.as_mut().poll(cx)
        }));
        Ok(connection)
    }
}

/// Reads requests from the stream and writes replies to it, until one of them is lost or the client
/// closes the stream.
async fn serve(mut link: GatedConnection, mut stream: DuplexStream) {
    let (mut decoder, mut input) = (Decoder::default(), BytesMut::new());
    loop {
        match decoder.decode(&mut input) {
            Ok(Some(argv)) if argv.is_empty() => {}
            Ok(Some(argv)) => {
                let mut cmd = Cmd::new();
                argv.iter().for_each(|arg| _ = cmd.arg(&arg[..]));
                let Ok(reply) = link.forward(&cmd).await else { return };
                let mut output = Vec::new();
                encode(&reply, &mut output);
                if stream.write_all(&output).await.is_err() {
                    return;
                }
            }
            Ok(None) => {
                if !stream.read_buf(&mut input).await.is_ok_and(|count| count > 0) {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

fn encode(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Nil => out.extend(b"$-1\r\n"),
        Value::Int(n) => out.extend(format!(":{n}\r\n").into_bytes()),
        Value::Okay => out.extend(b"+OK\r\n"),
        Value::SimpleString(text) => out.extend(format!("+{text}\r\n").into_bytes()),
        Value::BulkString(bytes) => {
            out.extend(format!("${}\r\n", bytes.len()).into_bytes());
            out.extend(bytes);
            out.extend(b"\r\n");
        }
        Value::Array(items) => {
            out.extend(format!("*{}\r\n", items.len()).into_bytes());
            items.iter().for_each(|item| encode(item, out));
        }
        Value::ServerError(error) => {
            let details = error.details().map(|details| format!(" {details}"));
            out.extend(format!("-{}{}\r\n", error.code(), details.unwrap_or_default()).into_bytes());
        }
        _ => out.extend(b"-ERR this reply needs RESP3, and the connection uses RESP2\r\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// redis-rs decodes the bytes to the same values.
    #[test]
    fn replies_survive_the_wire() {
        let error = redis::parse_redis_value(b"-WRONGTYPE of a key\r\n").unwrap();
        let unknown = redis::parse_redis_value(b"-MINE\r\n").unwrap();
        let replies = vec![
            Value::Nil,
            Value::Int(-7),
            Value::Okay,
            Value::SimpleString("QUEUED".into()),
            Value::BulkString(b"\r\n\0".to_vec()),
            Value::BulkString(Vec::new()),
            error,
            unknown,
            Value::Array(vec![Value::Array(Vec::new()), Value::Nil]),
        ];
        let mut wire = Vec::new();
        encode(&Value::Array(replies.clone()), &mut wire);
        assert_eq!(redis::parse_redis_value(&wire).unwrap(), Value::Array(replies));
    }
}
