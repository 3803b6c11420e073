//! The settings of a rate limiter, as people write them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{LimiterParts, RateLimiter, sliding_window, token_bucket};
use crate::connection::Connection;
use crate::counters::Counters;
use crate::env::Env;
use crate::error::Error;
use crate::request::Context;

/// The settings of a rate limiter. [`RateLimiterBuilder::build`] checks them, and sends nothing.
#[must_use = "a rate limiter is made by `build`"]
pub struct RateLimiterBuilder {
    connection: Connection,
    context: Context,
    prefix: String,
    rate: Option<Rate>,
}

#[derive(Clone, Copy)]
enum Rate {
    SlidingWindow { limit: u32, per: Duration },
    TokenBucket { capacity: u32, refill: u32, per: Duration },
}

impl RateLimiter {
    /// The settings of the limiter with this name.
    pub fn builder(connection: Connection, name: &str) -> RateLimiterBuilder {
        RateLimiterBuilder::new(connection, name)
    }
}

impl RateLimiterBuilder {
    fn new(connection: Connection, name: &str) -> RateLimiterBuilder {
        RateLimiterBuilder { connection, context: Context::new(name), prefix: String::new(), rate: None }
    }

    /// At most `limit` permits within any span of the length `per`.
    ///
    /// It is exact, and keeps one member of a sorted set for each permit of the span.
    pub fn sliding_window(self, limit: u32, per: Duration) -> Self {
        RateLimiterBuilder { rate: Some(Rate::SlidingWindow { limit, per }), ..self }
    }

    /// A bucket for up to `capacity` permits, into which `refill` permits flow in each span `per`,
    /// one by one at equal intervals. It is full at first.
    ///
    /// Up to `capacity` permits can be granted at once. The long-term rate is that of the refill.
    pub fn token_bucket(self, capacity: u32, refill: u32, per: Duration) -> Self {
        RateLimiterBuilder { rate: Some(Rate::TokenBucket { capacity, refill, per }), ..self }
    }

    /// A text before the name. Together they are the key.
    pub fn prefix(self, prefix: &str) -> Self {
        RateLimiterBuilder { prefix: prefix.to_owned(), ..self }
    }

    /// Counts what happens to the rate limiter. Several limiters can have the same counters.
    pub fn counters(mut self, counters: &Counters) -> Self {
        self.context.counters = counters.clone();
        self
    }

    /// Other clocks and another source of unique names than those of the machine, for tests.
    pub fn env(mut self, env: Env) -> Self {
        self.context.env = env;
        self
    }

    /// Makes the rate limiter.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the settings make no sense, or name no algorithm.
    pub fn build(self) -> Result<RateLimiter, Error> {
        let RateLimiterBuilder { connection, context, prefix, rate } = self;
        let keys = context.keys(&prefix)?;
        let algorithm = match rate {
            Some(Rate::SlidingWindow { limit, per }) => sliding_window::algorithm(&keys, limit, per),
            Some(Rate::TokenBucket { capacity, refill, per }) => {
                token_bucket::algorithm(&keys, capacity, refill, per)
            }
            None => Err("choose a `sliding_window` or a `token_bucket`".into()),
        };
        let algorithm = algorithm.map_err(|reason| context.invalid(reason))?;
        Ok(RateLimiter(Arc::new(LimiterParts { connection, context, algorithm })))
    }
}

impl fmt::Debug for RateLimiterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiterBuilder").field("name", &self.context.name).finish_non_exhaustive()
    }
}
