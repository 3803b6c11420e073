//! The settings of a latch, as people write them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{CountDownLatch, LatchParts};
use crate::bell;
use crate::connection::Connection;
use crate::counters::Counters;
use crate::env::Env;
use crate::error::Error;
use crate::request::Context;
use crate::script::SPAN_MAX;

/// The time to live of a count whose settings name none.
const TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// The settings of a latch. [`CountDownLatchBuilder::build`] checks them, and sends nothing.
#[must_use = "a latch is made by `build`"]
pub struct CountDownLatchBuilder {
    connection: Connection,
    context: Context,
    prefix: String,
    ttl: Duration,
    retry: Option<Duration>,
}

impl CountDownLatch {
    /// The settings of the latch with this name.
    pub fn builder(connection: Connection, name: &str) -> CountDownLatchBuilder {
        CountDownLatchBuilder::new(connection, name)
    }
}

impl CountDownLatchBuilder {
    fn new(connection: Connection, name: &str) -> CountDownLatchBuilder {
        CountDownLatchBuilder {
            connection,
            context: Context::new(name),
            prefix: String::new(),
            ttl: TTL,
            retry: None,
        }
    }

    /// How long the server keeps a count that nobody uses: one day if this is not called. Every use
    /// begins that time anew: a count-down, and every look of a client that waits.
    pub fn ttl(self, ttl: Duration) -> Self {
        CountDownLatchBuilder { ttl, ..self }
    }

    /// The longest time after which a waiting client looks at the count again. If this is not
    /// called, it is one second, or 100 milliseconds if the connection cannot subscribe.
    ///
    /// A client that cannot subscribe waits for a random part of that time, at least half of it.
    pub fn retry(self, retry: Duration) -> Self {
        CountDownLatchBuilder { retry: Some(retry), ..self }
    }

    /// A text before the name. Together they are the key.
    pub fn prefix(self, prefix: &str) -> Self {
        CountDownLatchBuilder { prefix: prefix.to_owned(), ..self }
    }

    /// Counts what happens to the latch. Several latches can have the same counters.
    pub fn counters(mut self, counters: &Counters) -> Self {
        self.context.counters = counters.clone();
        self
    }

    /// Other clocks and another source of unique names than those of the machine, for tests.
    pub fn env(mut self, env: Env) -> Self {
        self.context.env = env;
        self
    }

    /// Makes the latch.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the settings make no sense.
    pub fn build(self) -> Result<CountDownLatch, Error> {
        let CountDownLatchBuilder { connection, context, prefix, ttl, retry } = self;
        let keys = context.keys(&prefix)?;
        if ttl < Duration::from_millis(1) {
            return Err(context.invalid("`ttl` is at least one millisecond"));
        }
        if ttl > SPAN_MAX {
            return Err(context.invalid(format!("`ttl` is at most {SPAN_MAX:?}, and not {ttl:?}")));
        }
        if let Some(reason) = bell::problem(retry) {
            return Err(context.invalid(reason));
        }
        let (recent, channel) = (keys.side_key("recent"), keys.side_key("open"));
        let keys = [keys.key, recent];
        Ok(CountDownLatch(Arc::new(LatchParts { connection, context, keys, channel, ttl, retry })))
    }
}

impl fmt::Debug for CountDownLatchBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountDownLatchBuilder").field("name", &self.context.name).finish_non_exhaustive()
    }
}
