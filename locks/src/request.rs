//! Requests that are sent again after an error that may pass by itself.

use std::time::Duration;

use redis::{FromRedisValue, ScriptInvocation};
use tokio::time::sleep;

use crate::connection::Connection;
use crate::env::Env;
use crate::error::{Error, Operation, is_transient};

/// How often a request is sent again, and when.
const RESENDS_MAX: u32 = 2;
const RESEND_AFTER: Duration = Duration::from_millis(50);

/// A reply of a server.
pub(crate) struct Reply<T> {
    pub(crate) value: T,
    /// When the request was sent, by the client's monotonic clock.
    pub(crate) sent_at: Duration,
    /// An earlier request, to which no reply came, may have run as well.
    pub(crate) is_second: bool,
}

/// Sends a request for the lock of this name. After an error that may pass by itself, sends it
/// again: all scripts do the same if they run twice.
pub(crate) async fn request<T: FromRedisValue>(
    connection: &Connection,
    env: &Env,
    lock: &str,
    operation: Operation,
    invocation: &ScriptInvocation<'_>,
) -> Result<Reply<T>, Error> {
    let mut resends = 0;
    loop {
        let sent_at = env.elapsed();
        match invocation.invoke_async(&mut connection.clone()).await {
            Ok(value) => return Ok(Reply { value, sent_at, is_second: resends > 0 }),
            Err(error) if is_transient(&error) && resends < RESENDS_MAX => {
                resends += 1;
                sleep(env.jittered(RESEND_AFTER)).await;
            }
            Err(source) => return Err(Error::Server { lock: lock.to_owned(), operation, source }),
        }
    }
}
