//! The session of a connection, on an emulator or on a real server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use emulator::DirectConnection;
use redis::{Cmd, Pipeline, RedisResult, Value};

use crate::sim::{Server, no_answer};

/// Longest time that a real server may take to answer.
const REPLY_MAX: Duration = Duration::from_secs(10);

/// One session. A clone is the same session, for a request that is still on its way.
#[derive(Clone)]
pub(super) enum Session {
    Emulator(Arc<DirectConnection>),
    /// The lock is never contended. It makes the connection `Sync`, as redis-rs's traits require.
    Redis(Arc<Mutex<redis::Connection>>),
}

impl Session {
    pub(super) fn open(server: &Server) -> Session {
        match server {
            Server::Emulator(emulator) => Session::Emulator(Arc::new(emulator.connection())),
            Server::Redis(client) => {
                let connection = client.get_connection();
                let connection = connection.unwrap_or_else(|error| panic!("{}", no_answer(client, &error)));
                connection.set_read_timeout(Some(REPLY_MAX)).expect("a socket takes this option");
                Session::Redis(Arc::new(Mutex::new(connection)))
            }
        }
    }

    /// Whether the server has disconnected. A real server never does: it is not restarted.
    pub(super) fn is_hung_up(&self) -> bool {
        match self {
            Session::Emulator(connection) => connection.is_hung_up(),
            Session::Redis(_) => false,
        }
    }

    pub(super) async fn request(&self, cmd: &Cmd) -> RedisResult<Value> {
        match self {
            Session::Emulator(connection) => connection.exchange(cmd).await,
            Session::Redis(connection) => {
                use redis::ConnectionLike as _;
                connection.lock().expect("one task uses it").req_command(cmd)
            }
        }
    }

    pub(super) async fn request_all(
        &self,
        pipeline: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        match self {
            Session::Emulator(connection) => connection.request_all(pipeline, offset, count).await,
            Session::Redis(connection) => {
                use redis::ConnectionLike as _;
                let mut connection = connection.lock().expect("one task uses it");
                connection.req_packed_commands(&pipeline.get_packed_pipeline(), offset, count)
            }
        }
    }
}
