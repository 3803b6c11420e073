//! Clients of redis-rs: of a cluster and of Sentinels, each with and without `async`.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::sentinel::{SentinelClient, SentinelServerType};
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisResult, Value, cluster, cluster_async};
use tokio::runtime::{Builder, Runtime};

use super::group::{Group, Kind};

/// The number of clients.
pub const PER_GROUP: usize = 2;
/// How often the client of a cluster sends a request again.
const RESENDS_MAX: u32 = 8;
/// The most time between two of them, in milliseconds.
const RESEND_WAIT_MS_MAX: u64 = 20;
/// The clients give up far later than the test does, which so notices all that hang.
const REPLY_MAX: Duration = Duration::from_secs(600);

/// What a client sends at once.
pub enum Request {
    Command(Cmd),
    Transaction(Pipeline),
}

impl From<&mut Cmd> for Request {
    fn from(command: &mut Cmd) -> Request {
        Request::Command(command.clone())
    }
}

/// A client.
pub trait Link: Send {
    fn ask(&mut self, request: &Request) -> RedisResult<Value>;

    /// How often it may send a request again by itself.
    fn resends_max(&self) -> i64;
}

/// A client of each kind.
pub fn open(group: &Group) -> [Box<dyn Link>; PER_GROUP] {
    // A request that is sent in parallel to the end of its connection is lost in redis-rs, which
    // then waits for ever. On one thread, nothing is parallel.
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime needs little");
    match group.kind {
        Kind::Cluster => {
            let client = ClusterClient::builder(group.urls())
                .retries(RESENDS_MAX)
                .min_retry_wait(1)
                .max_retry_wait(RESEND_WAIT_MS_MAX)
                .response_timeout(REPLY_MAX)
                .connection_timeout(REPLY_MAX)
                .build();
            let client = client.expect("the URLs are right");
            let connection = runtime.block_on(client.get_async_connection()).expect("the cluster is up");
            [
                Box::new(AsyncOfCluster { runtime, connection }),
                Box::new(OfCluster(client.get_connection().expect("the cluster is up"))),
            ]
        }
        Kind::Sentinels => {
            let client = || {
                let name = "mymaster".to_owned();
                SentinelClient::build(group.urls(), name, None, SentinelServerType::Master)
                    .expect("the URLs are right")
            };
            [
                Box::new(AsyncOfSentinels { runtime, client: client(), connection: None }),
                Box::new(OfSentinels { client: client(), connection: None }),
            ]
        }
    }
}

struct AsyncOfCluster {
    runtime: Runtime,
    connection: cluster_async::ClusterConnection,
}

impl Link for AsyncOfCluster {
    fn ask(&mut self, request: &Request) -> RedisResult<Value> {
        self.runtime.block_on(ask_async(&mut self.connection, request))
    }

    fn resends_max(&self) -> i64 {
        RESENDS_MAX.into()
    }
}

struct OfCluster(cluster::ClusterConnection);

impl Link for OfCluster {
    fn ask(&mut self, request: &Request) -> RedisResult<Value> {
        ask(&mut self.0, request)
    }

    fn resends_max(&self) -> i64 {
        RESENDS_MAX.into()
    }
}

/// It asks the Sentinels again after each error, as an application does.
struct AsyncOfSentinels {
    runtime: Runtime,
    client: SentinelClient,
    connection: Option<MultiplexedConnection>,
}

impl Link for AsyncOfSentinels {
    fn ask(&mut self, request: &Request) -> RedisResult<Value> {
        let AsyncOfSentinels { runtime, client, connection } = self;
        runtime.block_on(async {
            let mut own = match connection.take() {
                Some(own) => own,
                None => connect(client).await?,
            };
            let reply = ask_async(&mut own, request).await?;
            *connection = Some(own);
            Ok(reply)
        })
    }

    fn resends_max(&self) -> i64 {
        0
    }
}

/// redis-rs gives a reply half a second, which a busy machine exceeds.
pub fn patient() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None)
}

/// Connects to the primary that the Sentinels name. redis-rs gives them little time, which a busy
/// machine exceeds. If that never ends, the test says that the client hangs.
pub async fn connect(client: &mut SentinelClient) -> RedisResult<MultiplexedConnection> {
    loop {
        match client.get_async_connection_with_config(&patient()).await {
            Err(error) if error.is_timeout() => {}
            connected => return connected,
        }
    }
}

/// The same without `async`.
struct OfSentinels {
    client: SentinelClient,
    connection: Option<redis::Connection>,
}

impl Link for OfSentinels {
    fn ask(&mut self, request: &Request) -> RedisResult<Value> {
        let mut own = match self.connection.take() {
            Some(own) => own,
            None => self.client.get_connection()?,
        };
        let reply = ask(&mut own, request)?;
        self.connection = Some(own);
        Ok(reply)
    }

    fn resends_max(&self) -> i64 {
        0
    }
}

fn ask(connection: &mut impl redis::ConnectionLike, request: &Request) -> RedisResult<Value> {
    match request {
        Request::Command(command) => command.query(connection),
        Request::Transaction(pipeline) => pipeline.query(connection).map(Value::Array),
    }
}

async fn ask_async(
    connection: &mut (impl redis::aio::ConnectionLike + Send),
    request: &Request,
) -> RedisResult<Value> {
    match request {
        Request::Command(command) => command.query_async(connection).await,
        Request::Transaction(pipeline) => pipeline.query_async(connection).await.map(Value::Array),
    }
}
