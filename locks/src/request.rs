//! Requests to the server for a lock, a latch or a limiter.

use std::time::Duration;

use redis::FromRedisValue;
use tokio::time::sleep;

use crate::connection::Connection;
use crate::counters::{Counters, Event, Span, in_span};
use crate::env::Env;
use crate::error::{Error, Operation, is_transient};
use crate::name::Name;
use crate::script::Call;

/// How often a request is sent again, and when.
const RESENDS_MAX: u32 = 2;
const RESEND_AFTER: Duration = Duration::from_millis(50);

/// The parts that the requests for a lock, a latch or a limiter share.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) env: Env,
    /// The name of the lock, latch or limiter, for errors and events.
    pub(crate) name: String,
    pub(crate) counters: Counters,
}

/// A reply of a server.
pub(crate) struct Reply<T> {
    pub(crate) value: T,
    /// When the request was sent, by the client's monotonic clock.
    pub(crate) sent_at: Duration,
    /// An earlier request, to which no reply came, may have run as well.
    pub(crate) is_second: bool,
}

impl Context {
    pub(crate) fn new(name: &str) -> Context {
        Context { env: Env::system(), name: name.to_owned(), counters: Counters::default() }
    }

    /// Its keys, with this text before the name.
    pub(crate) fn keys(&self, prefix: &str) -> Result<Name, Error> {
        Name::new(prefix, &self.name).map_err(|reason| self.invalid(reason))
    }

    /// Its settings, or the arguments of a call, make no sense.
    pub(crate) fn invalid(&self, reason: impl Into<String>) -> Error {
        Error::Invalid { lock: self.name.clone(), reason: reason.into() }
    }

    /// Notes an event.
    pub(crate) fn note(&self, event: &Event<'_>) {
        self.counters.note(&self.name, event);
    }

    /// Runs an operation as a span.
    pub(crate) async fn in_span<F: Future>(&self, span: Span, operation: F) -> F::Output {
        in_span(span, &self.name, operation).await
    }

    /// Runs an operation that acquires something or waits for it, and notes how it ends.
    pub(crate) async fn acquiring<T>(
        &self,
        span: Span,
        operation: impl Future<Output = Result<T, Error>>,
        is_acquired: impl Fn(&T) -> bool,
    ) -> Result<T, Error> {
        let noted = async {
            let began_at = self.env.elapsed();
            let result = operation.await;
            self.note(&match &result {
                Ok(value) if is_acquired(value) => Event::Acquired { waited: self.env.elapsed() - began_at },
                Ok(_) => Event::Refused,
                Err(error) => Event::Failed(error),
            });
            result
        };
        self.in_span(span, noted).await
    }

    /// Sends a request. After an error that may pass by itself, sends it again: all scripts do the
    /// same if they run twice.
    pub(crate) async fn request<T: FromRedisValue>(
        &self,
        connection: &Connection,
        operation: Operation,
        call: &Call<'_>,
    ) -> Result<Reply<T>, Error> {
        let mut resends = 0;
        loop {
            let sent_at = self.env.elapsed();
            match call.invoke(&mut connection.clone()).await {
                Ok(value) => return Ok(Reply { value, sent_at, is_second: resends > 0 }),
                Err(error) if is_transient(&error) && resends < RESENDS_MAX => {
                    resends += 1;
                    sleep(self.env.jittered(RESEND_AFTER)).await;
                }
                Err(source) => return Err(Error::Server { lock: self.name.clone(), operation, source }),
            }
        }
    }
}

/// A span as an argument of a script.
pub(crate) fn millis(span: Duration) -> u64 {
    span.as_millis() as u64
}
