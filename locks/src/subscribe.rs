//! Subscriptions to channels, by which a lock is notified that it may try again.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue as _, Pipeline, ProtocolVersion, PushInfo,
    PushKind, RedisFuture, RedisResult, Value,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A connection that can also subscribe to channels. <https://redis.io/docs/latest/develop/pubsub/>
///
/// Each of redis-rs's own connections is bound to its socket. [`PubSubConnection`] adds
/// subscriptions to one of them. A test passes its own implementation.
pub trait Subscribe: ConnectionLike {
    /// Subscribes to a channel. The subscription receives every message published after this call
    /// returns and before the subscription is dropped.
    fn subscribe<'a>(&'a self, channel: &'a str) -> RedisFuture<'a, Subscription>;
}

/// A client's subscription to a channel. It ends when it is dropped.
pub struct Subscription(Box<dyn Messages>);

/// The implementation behind a [`Subscription`].
pub trait Messages: Send {
    /// Waits for the next message; `None` if no more messages will come. If the future is dropped,
    /// no message is lost.
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send + '_>>;

    /// Unsubscribes.
    fn end(self: Box<Self>) -> RedisFuture<'static, ()>;
}

impl Subscription {
    /// A subscription from any source of messages.
    pub fn new(messages: impl Messages + 'static) -> Subscription {
        Subscription(Box::new(messages))
    }

    /// Ends the subscription, and returns when the server has done so. If it is only dropped, the
    /// server notices that its connection is closed.
    ///
    /// # Errors
    /// The connection is closed, or the server does not answer.
    pub async fn unsubscribe(self) -> RedisResult<()> {
        self.0.end().await
    }

    /// Waits for the next published message, the oldest first. If the future is dropped, a later
    /// call still returns that message.
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

/// How often a request waits for a new socket, and how long at most each time. With the defaults of
/// redis-rs, it would take seconds until a client notices that its server is back.
const RECONNECTS: usize = 3;
const RECONNECT_MAX: Duration = Duration::from_millis(500);

/// A connection of redis-rs that can subscribe. Commands share one socket, and each subscription
/// has its own. If the socket of the commands breaks, it connects again.
#[derive(Clone, Debug)]
pub struct PubSubConnection {
    commands: ConnectionManager,
    /// Opens the connections of subscriptions. redis-rs delivers push messages of a multiplexed
    /// connection only in RESP3.
    client: Client,
}

impl PubSubConnection {
    /// Connects.
    ///
    /// # Errors
    /// The errors of [`ConnectionManager::new_with_config`].
    pub async fn open(client: &Client) -> RedisResult<PubSubConnection> {
        let info = client.get_connection_info().clone();
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let config =
            ConnectionManagerConfig::new().set_max_delay(RECONNECT_MAX).set_number_of_retries(RECONNECTS);
        let commands = ConnectionManager::new_with_config(client.clone(), config).await?;
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
            Ok(Subscription::new(Pushes { pushes, connection, channel: channel.to_owned() }))
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

/// The push messages of a connection.
struct Pushes {
    pushes: UnboundedReceiver<PushInfo>,
    /// Keeps the subscription open until it is dropped.
    connection: MultiplexedConnection,
    channel: String,
}

impl Messages for Pushes {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send + '_>> {
        Box::pin(async {
            loop {
                let PushInfo { kind, data } = self.pushes.recv().await?;
                match kind {
                    // The channel comes first, then the message.
                    PushKind::Message => return Vec::from_redis_value(data.into_iter().nth(1)?).ok(),
                    PushKind::Disconnection => return None,
                    _ => {}
                }
            }
        })
    }

    fn end(mut self: Box<Self>) -> RedisFuture<'static, ()> {
        Box::pin(async move { self.connection.unsubscribe(&self.channel).await })
    }
}
