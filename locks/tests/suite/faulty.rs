//! A connection to a server that fails when a test says so.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use emulator::DirectConnection;
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisFuture, Value};
use tokio::time::sleep;

/// How a server replies.
#[derive(Clone, Copy)]
pub(crate) enum State {
    Up,
    /// Each connection is refused.
    Down,
    /// Requests arrive after this time.
    Slow(Duration),
    /// No request ever arrives.
    Silent,
}

/// A connection to a server in a state that a test sets.
#[derive(Clone)]
pub(crate) struct Faulty {
    pub(crate) inner: DirectConnection,
    pub(crate) state: Arc<Mutex<State>>,
}

impl ConnectionLike for Faulty {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        let state = *self.state.lock().unwrap();
        Box::pin(async move {
            match state {
                State::Up => {}
                State::Down => return Err((redis::ErrorKind::Io, "connection refused").into()),
                State::Slow(by) => sleep(by).await,
                State::Silent => std::future::pending().await,
            }
            self.inner.req_packed_command(cmd).await
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.inner.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.inner.get_db()
    }
}
