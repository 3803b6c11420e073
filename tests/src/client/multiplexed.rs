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
use redis::{AsyncConnectionConfig, Cmd, ProtocolVersion, RedisConnectionInfo, RedisResult};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::Mutex;

use super::{Client, GatedConnection};
use crate::live::{Part, Traffic, encode};

/// Most bytes on their way in one direction. A writer of more has to wait.
const BYTES_MAX: usize = 64 * 1024;

impl Client {
    /// A new connection to the server, as [`redis::Client::get_multiplexed_async_connection`] gives
    /// one. Clones share it. A client stops waiting for a reply after half a second, while the
    /// server may still run the request.
    ///
    /// If a request or a reply is lost, the connection breaks. It speaks RESP2;
    /// [`Client::multiplexed_resp3`] gives one that receives messages. For subscriptions use
    /// [`Client::connection`].
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
    /// The configuration needs RESP3: [`Client::multiplexed_resp3`].
    pub async fn multiplexed_with_config(
        &self,
        config: AsyncConnectionConfig,
    ) -> RedisResult<MultiplexedConnection> {
        self.multiplex(Traffic::Bytes, ProtocolVersion::RESP2, config).await
    }

    /// A multiplexed connection over RESP3, for client-side caching: with `CLIENT TRACKING ON` the
    /// server says when a key changes that the client has read. Each such message is a step, so
    /// that anything may happen between the change and its arrival. Messages and replies arrive in
    /// the order in which the server wrote them. The configuration has the receiver
    /// ([`AsyncConnectionConfig::set_push_sender`]).
    ///
    /// The connection begins with `HELLO 3`, which is a step.
    ///
    /// <https://redis.io/docs/latest/develop/reference/client-side-caching/>
    ///
    /// # Errors
    /// The server does not answer, or the scenario loses its answer.
    pub async fn multiplexed_resp3(
        &self,
        config: AsyncConnectionConfig,
    ) -> RedisResult<MultiplexedConnection> {
        self.multiplex(Traffic::Pushes, ProtocolVersion::RESP3, config).await
    }

    async fn multiplex(
        &self,
        traffic: Traffic,
        protocol: ProtocolVersion,
        config: AsyncConnectionConfig,
    ) -> RedisResult<MultiplexedConnection> {
        // Its tasks stand still in a pause, and others do not. That is not learned.
        self.0.note_sharing();
        let (near, far) = tokio::io::duplex(BYTES_MAX);
        tokio::spawn(serve(self.open(0, traffic), far));
        // Without the library's name and version, a connection over RESP2 sends nothing before the
        // first request.
        let info = RedisConnectionInfo::default().set_skip_set_lib_name().set_protocol(protocol);
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

/// Reads requests from the stream and writes replies to it, and messages between them. Ends when
/// one of them is lost or the client closes the stream.
async fn serve(mut link: GatedConnection, stream: DuplexStream) {
    let (mut reader, writer) = tokio::io::split(stream);
    let writer = Mutex::new(writer);
    let (live, nth) = (link.live.clone(), link.nth);
    let messages = async {
        while let Some(message) = poll_fn(|cx| live.poll_push(nth, cx)).await {
            writer.lock().await.write_all(&message).await.ok()?;
        }
        None::<()>
    };
    let requests = async {
        let (mut decoder, mut input) = (Decoder::default(), BytesMut::new());
        loop {
            let Some(argv) = decoder.decode(&mut input).ok()? else {
                if reader.read_buf(&mut input).await.ok()? == 0 {
                    return None;
                }
                continue;
            };
            if argv.is_empty() {
                continue;
            }
            let mut cmd = Cmd::new();
            argv.iter().for_each(|arg| _ = cmd.arg(&arg[..]));
            let reply = link.forward(&cmd).await.ok()?;
            writer.lock().await.write_all(&encode(&reply)).await.ok()?;
        }
    };
    tokio::select! {
        biased;
        _ = messages => {}
        None::<()> = requests => {}
    }
}
