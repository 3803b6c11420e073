//! The requests that a client makes to the server with a token.

use std::sync::Arc;
use std::time::Duration;

use redis::{FromRedisValue, Script};

use super::Shared;
use crate::error::{Error, Operation};
use crate::request::{Reply, millis};

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

impl Holder {
    pub(super) fn new(shared: &Arc<Shared>, more: &[u32]) -> Holder {
        let token = Token(shared.remote.env.unique());
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

    async fn request<T: FromRedisValue>(
        &self,
        operation: Operation,
        script: &Script,
        patience: Duration,
    ) -> Result<Reply<T>, Error> {
        let Shared { remote, protocol, options } = &*self.shared;
        let mut invocation = script.prepare_invoke();
        for key in &protocol.keys {
            invocation.key(key);
        }
        invocation.arg(&self.token.0).arg(millis(options.lease)).arg(millis(patience));
        invocation.arg(&protocol.channel).arg(u8::from(options.is_fair)).arg(&self.more);
        remote.request(operation, &invocation).await
    }
}
