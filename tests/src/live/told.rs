//! Everything that clients are told. Their local states follow from it.

use std::hash::{Hash, Hasher};
use std::io;
use std::time::Duration;

use redis::{RedisError, RedisResult, Value};

use super::{OperationId, hash_result, value_bytes};
use crate::trace::LocalState;

/// One thing that a client is told.
#[derive(Clone)]
pub(crate) enum Told {
    /// Its turn begins.
    Turn,
    Answered {
        nth: usize,
        answer: Answer,
    },
    /// It receives a message, or no more will come.
    Heard {
        nth: usize,
        message: Option<Vec<u8>>,
    },
    Cancelled(OperationId),
    Clock {
        skew_ms: i64,
        drift_ppm: i64,
    },
    /// Its tasks run on while its code stands still. Code that runs alone cannot be told this.
    Other,
}

/// A turn is hashed as nothing: `LocalState::in_turn` knows it by the time alone.
impl Hash for Told {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        if let Told::Turn = self {
            return;
        }
        std::mem::discriminant(self).hash(hasher);
        match self {
            Told::Turn | Told::Other => {}
            Told::Answered { nth, answer } => (nth, answer).hash(hasher),
            Told::Heard { nth, message } => (nth, message).hash(hasher),
            Told::Cancelled(id) => id.hash(hasher),
            Told::Clock { skew_ms, drift_ppm } => (skew_ms, drift_ppm).hash(hasher),
        }
    }
}

impl Told {
    /// About how many bytes its values take.
    pub(crate) fn value_bytes(&self) -> usize {
        match self {
            Told::Answered { answer: Answer::Reply(Ok(reply)), .. } => value_bytes(reply),
            Told::Heard { message: Some(message), .. } => message.len(),
            _ => 0,
        }
    }
}

/// How a local state follows from another one.
#[derive(Clone)]
pub(crate) struct Telling {
    pub(crate) before: LocalState,
    pub(crate) at: Duration,
    pub(crate) told: Told,
    pub(crate) after: LocalState,
}

/// The traffic of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// Requests of a client that waits for as long as the reply takes.
    Requests,
    /// Requests of a client that may have stopped waiting before the reply arrives.
    Bytes,
    /// Requests as in `Bytes`, over RESP3: the server sends messages between its replies.
    Pushes,
    /// Messages that the client has not received yet.
    Messages,
    /// What comes to the client from outside. No server has a part in it.
    Arrivals,
}

impl Traffic {
    /// Whether the bytes of all tasks of a client pass here.
    pub(crate) fn is_stream(self) -> bool {
        matches!(self, Traffic::Bytes | Traffic::Pushes)
    }
}

/// The thing that happens to a client that waits for a reply.
#[derive(Clone)]
pub(crate) enum Answer {
    Reply(RedisResult<Value>),
    /// No reply will come.
    Lost(Loss),
    /// The command waits on its server. The client no longer minds how long it takes.
    Waits,
}

impl Hash for Answer {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        match self {
            Answer::Reply(result) => hash_result(result).hash(hasher),
            Answer::Lost(loss) => loss.hash(hasher),
            Answer::Waits => "waits".hash(hasher),
        }
    }
}

/// Why a client will never get a reply.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum Loss {
    /// The request did not arrive.
    Request,
    /// The request arrived, and the reply was lost.
    Reply,
    /// The request is still on its way.
    Late,
    /// The connection has broken.
    Connection,
}

/// The error that redis-rs gives in this case.
impl From<Loss> for RedisError {
    fn from(loss: Loss) -> RedisError {
        let kind = match loss {
            Loss::Request | Loss::Reply | Loss::Late => io::ErrorKind::TimedOut,
            Loss::Connection => io::ErrorKind::BrokenPipe,
        };
        io::Error::from(kind).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_replies_and_of_messages_are_counted() {
        let reply = Answer::Reply(Ok(Value::BulkString(b"reply".into())));
        assert_eq!(Told::Answered { nth: 0, answer: reply }.value_bytes(), 5);
        assert_eq!(Told::Heard { nth: 0, message: Some(b"message".into()) }.value_bytes(), 7);
        assert_eq!(Told::Turn.value_bytes(), 0);
    }
}
