//! How a lock hears that it may try again: subscriptions to channels, over whatever connection can have them.

use std::fmt;
use std::pin::Pin;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue as _, Pipeline, ProtocolVersion, PushInfo,
    PushKind, RedisFuture, RedisResult, Value,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A connection whose client can listen to channels, too. <https://redis.io/docs/latest/develop/pubsub/>
///
/// redis-rs's own connections are tied to a socket of theirs: [`PubSubConnection`] is one of them with this added. A test brings
/// its own.
pub trait Subscribe: ConnectionLike {
    /// Listens to a channel: what is published after this has been answered, and before the subscription is dropped, is heard.
    fn subscribe<'a>(&'a self, channel: &'a str) -> RedisFuture<'a, Subscription>;
}

/// A client's ear on a channel. Dropped, it hears no more.
pub struct Subscription(Box<dyn Messages>);

/// What stands behind a [`Subscription`].
pub trait Messages: Send {
    /// The next message, once there is one; `None` if none will come any more. Nothing is lost if it is dropped before.
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send + '_>>;
}

impl Subscription {
    /// Any source of messages.
    pub fn new(messages: impl Messages + 'static) -> Subscription {
        Subscription(Box::new(messages))
    }

    /// The next message that was published, the oldest first. May be dropped at any time: then it is still to come.
    ///
    /// # Errors
    /// The connection is closed.
    pub async fn message(&mut self) -> RedisResult<Vec<u8>> {
        let message = self.0.next().await;
        message.ok_or_else(|| (ErrorKind::Io, "the subscription has ended: its connection is closed").into())
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

/// A connection of redis-rs that can listen: commands share one socket, and each subscription has one of its own.
#[derive(Clone, Debug)]
pub struct PubSubConnection {
    commands: MultiplexedConnection,
    /// For subscriptions: only in RESP3 does redis-rs hand over what a multiplexed connection is told.
    client: Client,
}

impl PubSubConnection {
    /// Connects.
    ///
    /// # Errors
    /// As those of [`Client::get_multiplexed_async_connection`].
    pub async fn open(client: &Client) -> RedisResult<PubSubConnection> {
        let info = client.get_connection_info().clone();
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let commands = client.get_multiplexed_async_connection().await?;
        Ok(PubSubConnection { commands, client: Client::open(info.set_redis_settings(settings))? })
    }
}

impl Subscribe for PubSubConnection {
    fn subscribe<'a>(&'a self, channel: &'a str) -> RedisFuture<'a, Subscription> {
        Box::pin(async move {
            let (sender, pushes) = unbounded_channel();
            let config = AsyncConnectionConfig::new().set_push_sender(sender);
            let mut connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
            connection.subscribe(channel).await?;
            Ok(Subscription::new(Pushes { pushes, _connection: connection }))
        })
    }
}

impl ConnectionLike for PubSubConnection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        self.commands.req_packed_command(cmd)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.commands.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.commands.get_db()
    }
}

/// What a connection is told that answers nothing.
struct Pushes {
    pushes: UnboundedReceiver<PushInfo>,
    /// The server listens for as long as it is open.
    _connection: MultiplexedConnection,
}

impl Messages for Pushes {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send + '_>> {
        Box::pin(async {
            loop {
                let PushInfo { kind, data } = self.pushes.recv().await?;
                match kind {
                    // The channel, and what was published.
                    PushKind::Message => return Vec::from_redis_value(data.into_iter().nth(1)?).ok(),
                    PushKind::Disconnection => return None,
                    _ => {}
                }
            }
        })
    }
}
