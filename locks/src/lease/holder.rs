//! The requests that a client makes to the servers with a token.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::{FromRedisValue, ParsingError, Value, from_redis_value};

use super::parts::LeaseParts;
use super::servers::Servers;
use crate::connection::Connection;
use crate::error::{Error, Operation};
use crate::request::{Reply, millis};

/// A token, by which the servers know one holder of a lock.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) shared: Arc<LeaseParts>,
    pub(super) token: Token,
    /// Arguments of the kind of lock.
    pub(super) more: Vec<Vec<u8>>,
    /// The lock is given up, and so is a grant that comes late. Clones share it.
    pub(super) has_given_up: Arc<AtomicBool>,
}

/// A token. A client that knows it can end the grant, so it is in no text for people.
#[derive(Clone)]
pub(super) struct Token(pub(super) String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// The answer to a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    /// The holder has the lock; for a release, it had the lock.
    pub(super) is_yes: bool,
    /// The number that comes with the answer to [`Operation::Acquire`].
    pub(super) number: i64,
}

impl FromRedisValue for Answer {
    fn from_redis_value(value: Value) -> Result<Answer, ParsingError> {
        let (is_yes, number) = match value {
            Value::Array(_) => from_redis_value(value)?,
            _ => (from_redis_value(value)?, 0),
        };
        Ok(Answer { is_yes, number })
    }
}

impl Holder {
    pub(super) fn new(shared: &Arc<LeaseParts>, more: &[&[u8]]) -> Holder {
        let token = Token(shared.context.env.unique());
        let more = more.iter().map(|argument| argument.to_vec());
        let more = shared.protocol.more.iter().cloned().chain(more).collect();
        Holder { shared: shared.clone(), token, more, has_given_up: Arc::default() }
    }

    /// Another holder that wants the same.
    pub(super) fn anew(&self) -> Holder {
        let token = Token(self.shared.context.env.unique());
        Holder { token, has_given_up: Arc::default(), ..self.clone() }
    }

    /// Asks for the lock. If it is not granted and `patience` is not zero, the holder is then in
    /// the queue, and counts as alive there for that time.
    pub(super) async fn acquire(&self, patience: Duration) -> Result<Reply<Answer>, Error> {
        self.ask(Operation::Acquire, patience).await
    }

    /// Asks that the lease begin anew. The answer says whether the holder has the lock.
    pub(super) async fn extend(&self) -> Result<Reply<Answer>, Error> {
        self.ask(Operation::Extend, Duration::ZERO).await
    }

    /// Gives up the lock and the place in the queue. The answer says whether the holder had the
    /// lock.
    pub(super) async fn release(&self) -> Result<Reply<Answer>, Error> {
        self.has_given_up.store(true, Ordering::Relaxed);
        self.ask(Operation::Release, Duration::ZERO).await
    }

    async fn ask(&self, operation: Operation, patience: Duration) -> Result<Reply<Answer>, Error> {
        match &self.shared.servers {
            Servers::One(connection) => self.request(connection, operation, patience).await,
            Servers::Many(connections) => self.ask_all(connections, operation).await,
        }
    }

    /// Asks one server.
    pub(super) async fn request(
        &self,
        connection: &Connection,
        operation: Operation,
        patience: Duration,
    ) -> Result<Reply<Answer>, Error> {
        let LeaseParts { context, protocol, options, .. } = &*self.shared;
        let mut call = protocol.scripts.of(operation).call();
        call.key(&protocol.keys).arg(&self.token.0).arg(millis(options.lease)).arg(millis(patience));
        call.arg(&protocol.channels).arg(u8::from(options.is_fair)).arg(&self.more);
        context.request(connection, operation, &call).await
    }
}
