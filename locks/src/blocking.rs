//! Locks for code without async.
//!
//! ```
//! use locks::{Mutex, Release, blocking};
//!
//! # fn example(connection: impl redis::ConnectionLike + Send + 'static) -> Result<(), locks::Error> {
//! let mutex = Mutex::builder(blocking::connection(connection), "report").build()?;
//! let guard = blocking::wait(mutex.lock())?;
//! // Ours. A thread renews the lease of 30 seconds until the guard is dropped or released.
//! assert_eq!(blocking::wait(guard.release())?, Release::Released);
//! # Ok(()) }
//! # let server = emulator::Emulator::new();
//! # example(server.client().get_connection().unwrap()).unwrap();
//! ```

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use redis::{Cmd, ConnectionLike, Pipeline, RedisFuture, Value, aio};
use tokio::runtime::{self, Runtime};

use crate::connection::Connection;

/// Its thread renews grants, and releases those whose guards were dropped.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = runtime::Builder::new_multi_thread();
    builder.worker_threads(1).thread_name("locks").enable_time();
    builder.build().expect("the system can start a thread")
});

/// Waits for the future of a lock, as [`Mutex::lock`](crate::Mutex::lock).
///
/// # Panics
/// If it is called in code that is async: such code awaits the future. Also if the system cannot
/// start a thread.
pub fn wait<F: Future>(future: F) -> F::Output {
    RUNTIME.block_on(future)
}

/// A connection for locks. One request after another goes over it. A client that waits asks again
/// and again.
///
/// A [`redis::Connection`] that broke stays broken. A [`redis::Client`] connects for each request,
/// and a connection of a pool when the pool says so.
pub fn connection(connection: impl ConnectionLike + Send + 'static) -> Connection {
    Connection::new(SharedConnection(Arc::new(Mutex::new(connection))))
}

/// A connection that blocks the thread.
struct SharedConnection<C>(Arc<Mutex<C>>);

impl<C> SharedConnection<C> {
    fn lock(&self) -> MutexGuard<'_, C> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> Clone for SharedConnection<C> {
    fn clone(&self) -> Self {
        SharedConnection(self.0.clone())
    }
}

impl<C> fmt::Debug for SharedConnection<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedConnection").finish_non_exhaustive()
    }
}

impl<C: ConnectionLike + Send> aio::ConnectionLike for SharedConnection<C> {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async { self.lock().req_command(cmd) })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(
            async move { self.lock().req_packed_commands(&pipeline.get_packed_pipeline(), offset, count) },
        )
    }

    fn get_db(&self) -> i64 {
        self.lock().get_db()
    }
}
