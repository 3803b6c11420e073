//! The requests that a client makes to the server with a token.

use std::sync::Arc;
use std::time::Duration;

use redis::{FromRedisValue, RedisResult, Script};
use tokio::time::sleep;

use super::Shared;
use crate::error::{Error, Operation, is_transient};

/// How often a request is sent again after errors that may pass by themselves, and when.
const RESENDS_MAX: u32 = 2;
const RESEND_AFTER: Duration = Duration::from_millis(50);

/// A token, by which the server knows one holder of a lock.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) shared: Arc<Shared>,
    pub(super) token: Token,
    /// Arguments of the kind of lock.
    more: Vec<u32>,
}

/// A token. A client that knows it can end the grant, so it is in no text for people.
#[derive(Clone)]
pub(super) struct Token(pub(super) String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// A reply of a server.
pub(super) struct Reply<T> {
    pub(super) value: T,
    /// When the request was sent, by the client's monotonic clock.
    pub(super) sent_at: Duration,
    /// An earlier request, to which no reply came, may have run as well.
    pub(super) is_second: bool,
}

impl Holder {
    pub(super) fn new(shared: &Arc<Shared>, more: &[u32]) -> Holder {
        let token = Token(shared.env.unique());
        let more = shared.protocol.more.iter().chain(more).copied().collect();
        Holder { shared: shared.clone(), token, more }
    }

    /// Asks for the lock. If `patience` is not zero, the holder waits in the queue for so long.
    pub(super) async fn acquire(&self, patience: Duration) -> Result<Reply<(bool, i64)>, Error> {
        self.request(Operation::Acquire, &self.shared.protocol.scripts.acquire, patience).await
    }

    /// Asks that the lease begin anew. The value says whether the holder has the lock.
    pub(super) async fn extend(&self) -> Result<Reply<bool>, Error> {
        self.request(Operation::Extend, &self.shared.protocol.scripts.extend, Duration::ZERO).await
    }

    /// Gives up the lock and the place in the queue. The value says whether the holder had the
    /// lock.
    pub(super) async fn release(&self) -> Result<Reply<bool>, Error> {
        self.request(Operation::Release, &self.shared.protocol.scripts.release, Duration::ZERO).await
    }

    /// Sends a request. After an error that may pass by itself, sends it again: all scripts do the
    /// same if they run twice.
    async fn request<T: FromRedisValue>(
        &self,
        operation: Operation,
        script: &Script,
        patience: Duration,
    ) -> Result<Reply<T>, Error> {
        let Shared { env, name, .. } = &*self.shared;
        let mut resends = 0;
        loop {
            let sent_at = env.elapsed();
            match self.run(script, patience).await {
                Ok(value) => return Ok(Reply { value, sent_at, is_second: resends > 0 }),
                Err(error) if is_transient(&error) && resends < RESENDS_MAX => {
                    resends += 1;
                    sleep(env.jittered(RESEND_AFTER)).await;
                }
                Err(source) => return Err(Error::Server { lock: name.clone(), operation, source }),
            }
        }
    }

    async fn run<T: FromRedisValue>(&self, script: &Script, patience: Duration) -> RedisResult<T> {
        let Shared { connection, protocol, options, .. } = &*self.shared;
        let mut invocation = script.prepare_invoke();
        for key in &protocol.keys {
            invocation.key(key);
        }
        let millis = |span: Duration| span.as_millis() as u64;
        invocation.arg(&self.token.0).arg(millis(options.lease)).arg(millis(patience));
        invocation.arg(&protocol.channel).arg(u8::from(options.is_fair)).arg(&self.more);
        invocation.invoke_async(&mut connection.clone()).await
    }
}
