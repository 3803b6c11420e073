//! A rate limiter: it limits the permits of all clients together in a span of time.
//!
//! Each algorithm is one script, which decides and records in one step, by the server's time alone.
//! Its keys expire when they no longer matter. See the files of the algorithms for their steps.
//!
//! A request that is sent again has its first token, and the script finds its grant. So a request
//! whose reply was lost counts once. A grant is found for as long as it limits others. If the
//! request is sent again later than that, it is a new one: the client acts only then.
//!
//! A client that waits sleeps for as long as the reply says. No permit is ever given back, so an
//! earlier request would be in vain.
//!
//! It assumes one server that keeps its data and whose clock does not jump ahead. All clients have
//! to use the same settings.

mod algorithm;
mod sliding_window;
mod token_bucket;
mod builder;
mod row;

use std::sync::Arc;
use std::time::Duration;

use algorithm::Algorithm;
pub use builder::RateLimiterBuilder;
pub(crate) use row::{ALGORITHM_BUCKET, ALGORITHM_WINDOW};
use tokio::time::sleep;

use crate::connection::Connection;
use crate::counters::{Event, Span};
use crate::error::{Error, Operation};
use crate::request::Context;
use crate::wait::Wait;

/// Clients that were refused at once come again one after another, in a tenth of their wait or in
/// this time.
const SPREAD_MAX: Duration = Duration::from_millis(100);

/// A limit on the permits of all clients together in a span of time. Clones share it.
///
/// ```
/// use std::time::Duration;
/// use locks::{Connection, Decision, RateLimiter};
///
/// # async fn example(connection: Connection) -> Result<(), locks::Error> {
/// let mails = RateLimiter::builder(connection, "mails")
///     .sliding_window(2, Duration::from_secs(60))
///     .build()?;
/// assert_eq!(mails.try_acquire().await?, Decision::Allowed { remaining: 1 });
/// assert_eq!(mails.try_acquire().await?, Decision::Allowed { remaining: 0 });
/// match mails.try_acquire().await? {
///     Decision::Allowed { .. } => unreachable!("two mails were sent in this minute"),
///     Decision::Denied { retry_after } => assert!(retry_after <= Duration::from_secs(60)),
/// }
/// # Ok(()) }
/// # let server = emulator::Emulator::new();
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # runtime.block_on(example(Connection::new(server.connection()))).unwrap();
/// ```
///
/// # Which algorithm
///
/// | | [sliding window] | [token bucket] |
/// | --- | --- | --- |
/// | granted at most | `limit` within any span `per` | `capacity + refill * t / per` in any time t |
/// | after a pause | `limit` at once | `capacity` at once |
/// | under full load | `limit` at once, again after a span | one permit at equal intervals |
/// | memory | one member for each permit of a span | a hash, and one member for each recent request |
///
/// [sliding window]: RateLimiterBuilder::sliding_window
/// [token bucket]: RateLimiterBuilder::token_bucket
#[derive(Clone, Debug)]
pub struct RateLimiter(Arc<LimiterParts>);

#[derive(Debug)]
struct LimiterParts {
    connection: Connection,
    context: Context,
    algorithm: Algorithm,
}

/// The answer to a request for permits.
#[must_use = "a request that is denied must not go on"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The permits are granted.
    Allowed {
        /// The number of further permits that could be granted at that time.
        remaining: u32,
    },
    /// The permits are not granted, and nothing is recorded.
    Denied {
        /// Before that time has passed, they will not be granted.
        retry_after: Duration,
    },
}

impl Decision {
    /// Whether the permits are granted.
    pub fn is_allowed(self) -> bool {
        matches!(self, Decision::Allowed { .. })
    }
}

impl RateLimiter {
    /// Takes a permit if there is one.
    ///
    /// # Errors
    /// [`Error::Server`]: a server did not do what it was asked, and whether it granted the permit
    /// is not known.
    pub async fn try_acquire(&self) -> Result<Decision, Error> {
        self.try_acquire_many(1).await
    }

    /// Takes `permits` permits in one step if there are as many.
    ///
    /// # Errors
    /// Those of [`RateLimiter::try_acquire`], and [`Error::Invalid`]: `permits` is zero, or more
    /// than there can ever be.
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Decision, Error> {
        let (context, permits) = (&self.0.context, self.checked(permits)?);
        let token = context.env.unique();
        let decision = self.ask(&token, permits);
        context.acquiring(Span::Acquire, decision, |decision| decision.is_allowed()).await
    }

    /// Waits until there is a permit, and takes it. Clients that wait are not served in any order.
    ///
    /// If the future is dropped, its last request may have been granted. That permit is used up.
    ///
    /// # Errors
    /// Those of [`RateLimiter::try_acquire`].
    pub async fn acquire(&self) -> Result<(), Error> {
        self.acquire_many(1).await
    }

    /// Waits until there are `permits` permits, and takes them in one step. It may wait for ever if
    /// others take fewer at a time.
    ///
    /// # Errors
    /// Those of [`RateLimiter::try_acquire_many`].
    pub async fn acquire_many(&self, permits: u32) -> Result<(), Error> {
        self.acquire_within(None, permits).await
    }

    /// Waits up to `timeout` until there is a permit, and takes it. If there can be none by then,
    /// the call does not wait.
    ///
    /// # Errors
    /// Those of [`RateLimiter::try_acquire`], and [`Error::TimedOut`]: there was no permit within
    /// `timeout`, or there will be none.
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<(), Error> {
        self.acquire_within(Some(timeout), 1).await
    }

    async fn acquire_within(&self, within: Option<Duration>, permits: u32) -> Result<(), Error> {
        let (context, permits) = (&self.0.context, self.checked(permits)?);
        let acquired = async {
            let (mut wait, token) = (Wait::begin(context, within), context.env.unique());
            loop {
                wait.attempt();
                let decision = self.ask(&token, permits).await?;
                let Decision::Denied { retry_after } = decision else { return Ok(()) };
                let left = wait.left(context.env.elapsed(), retry_after)?;
                let next = retry_after + context.env.jittered((retry_after / 10).min(SPREAD_MAX));
                sleep(left.min(next)).await;
            }
        };
        context.acquiring(Span::Acquire, acquired, |()| true).await
    }

    /// Asks for permits. A token is granted once.
    async fn ask(&self, token: &str, permits: u32) -> Result<Decision, Error> {
        let LimiterParts { connection, context, algorithm } = &*self.0;
        context.note(&Event::Attempted);
        let mut call = algorithm.script.call();
        call.key(&algorithm.keys).arg(token).arg(permits).arg(&algorithm.more);
        let reply = context.request(connection, Operation::Acquire, &call).await?;
        Ok(match reply.value {
            (true, remaining) => {
                Decision::Allowed { remaining: u32::try_from(remaining).unwrap_or(u32::MAX) }
            }
            (false, wait_us) => Decision::Denied { retry_after: Duration::from_micros(wait_us) },
        })
    }

    fn checked(&self, permits: u32) -> Result<u32, Error> {
        let permits_max = self.0.algorithm.permits_max;
        let reason = match permits {
            0 => "a request is for at least one permit".to_owned(),
            _ if permits > permits_max => {
                format!("{permits} permits were asked for, and there are never more than {permits_max}")
            }
            _ => return Ok(permits),
        };
        Err(self.0.context.invalid(reason))
    }
}
