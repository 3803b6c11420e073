//! A latch: clients wait until others have lowered its count to zero.
//!
//! 1. Set the count, one script: if no count runs, write it, and our token as the name of its
//!    round. A count of zero does not run.
//! 2. Count down, one script: if a count runs, lower it by one. If it is then zero, publish a
//!    message. The count of zero stays until its time to live ends.
//! 3. Wait: read the count and the round. If the count is zero, or the round is no longer the one
//!    that we saw first, we are done. Otherwise subscribe, look once more, and sleep until a
//!    message comes. A message may be lost, so a client also looks from time to time.
//!
//! The first two remember their tokens for a minute. If a reply is lost, the client sends the
//! request again with its token, and the script finds that it has run. Therefore each counts once.
//!
//! Every key has a time to live, which each use raises to at least what the settings say. A client
//! that waits raises it with every look. If the count ends nonetheless while a client waits, the
//! wait is an error, and not an open latch.
//!
//! It assumes one server that keeps its data. If the server loses a count, clients that begin to
//! wait later find no count and pass.
//!
//! Source: Doug Lea's `java.util.concurrent.CountDownLatch`, and Redisson's `RCountDownLatch`.

mod script;
mod builder;

use std::sync::Arc;
use std::time::Duration;

pub use builder::CountDownLatchBuilder;
use redis::FromRedisValue;

use crate::bell::Bell;
use crate::connection::Connection;
use crate::counters::{Event, Span};
use crate::error::{Error, Operation};
use crate::request::{Context, millis};
use crate::script::Script;
use crate::wait::Wait;

/// How long the server knows that a request has run. Sending it again ends long before.
const MEMORY: Duration = Duration::from_secs(60);

/// A count that clients lower, while others wait until it is zero. Clones share it.
///
/// ```
/// use locks::{Connection, CountDownLatch};
///
/// # async fn example(connection: Connection) -> Result<(), locks::Error> {
/// let loaded = CountDownLatch::builder(connection, "loaded").build()?;
/// assert!(loaded.try_set_count(2).await?);
/// let worker = loaded.clone();
/// tokio::spawn(async move {
///     for _part in 0..2 {
///         // Load a part. Its clients may be anywhere.
///         worker.count_down().await?;
///     }
///     Ok::<_, locks::Error>(())
/// });
/// loaded.wait().await?;
/// assert_eq!(loaded.count().await?, 0);
/// # Ok(()) }
/// # let server = emulator::Emulator::new();
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # runtime.block_on(example(Connection::new(server.connection()))).unwrap();
/// ```
///
/// # Beside others
///
/// | | this latch | Redisson's [`RCountDownLatch`] | Java's [`CountDownLatch`][java] |
/// | --- | --- | --- | --- |
/// | the count is set | by [`CountDownLatch::try_set_count`], if none runs | likewise | once, by the constructor |
/// | it can be used again | when the count is zero | likewise | no |
/// | wait without a count | returns at once | likewise | there is always one |
/// | wait over a new count | returns: the first has come to zero | waits for the new one, too | there is none |
/// | count down at zero | does nothing | likewise | likewise |
/// | a reply is lost | the request counts once | it may count twice | there are none |
/// | nobody uses it any more | its keys expire | the count stays for ever | garbage |
/// | its count is lost amid a wait | [`Error::Lost`] | the wait returns | it cannot be |
///
/// [`RCountDownLatch`]: https://redisson.pro/docs/data-and-services/locks-and-synchronizers/#countdownlatch
/// [java]: https://docs.oracle.com/en/java/javase/21/docs/api/java.base/java/util/concurrent/CountDownLatch.html
#[derive(Clone, Debug)]
pub struct CountDownLatch(Arc<LatchParts>);

#[derive(Debug)]
struct LatchParts {
    connection: Connection,
    context: Context,
    /// The count, and the tokens of recent requests.
    keys: [String; 2],
    /// The channel of messages to the clients that wait.
    channel: String,
    ttl: Duration,
    retry: Option<Duration>,
}

/// The count that is left, and its round.
type Look = Option<(u32, String)>;

impl CountDownLatch {
    /// Sets the count if none runs, and closes the latch by that. Returns whether it did: a count
    /// runs until it is zero.
    ///
    /// # Errors
    /// [`Error::Invalid`]: a latch with a count of zero is open. [`Error::Server`]: a server did
    /// not do what it was asked, and whether the count is set is not known.
    pub async fn try_set_count(&self, count: u32) -> Result<bool, Error> {
        if count == 0 {
            let reason = "a count is at least one: a latch without a count is open";
            return Err(self.0.context.invalid(reason));
        }
        let count = count.to_string();
        let set = self.once(Operation::SetCount, &script::SET_COUNT, &count);
        self.0.context.in_span(Span::SetCount, set).await
    }

    /// Lowers the count by one, and wakes all clients that wait if it is then zero. Does nothing if
    /// no count runs. Returns the count that is left.
    ///
    /// # Errors
    /// [`Error::Server`]: a server did not do what it was asked, and whether the call counts is not
    /// known. It counts at most once.
    pub async fn count_down(&self) -> Result<u32, Error> {
        let LatchParts { context, channel, .. } = &*self.0;
        let counted_down = async {
            let left = self.once(Operation::CountDown, &script::COUNT_DOWN, channel).await?;
            context.note(&Event::CountedDown { left });
            Ok(left)
        };
        context.in_span(Span::CountDown, counted_down).await
    }

    /// The count that is left: zero if none runs.
    ///
    /// # Errors
    /// [`Error::Server`]: a server did not do what it was asked.
    pub async fn count(&self) -> Result<u32, Error> {
        Ok(self.look().await?.map_or(0, |(count, _)| count))
    }

    /// Waits until the count is zero, and returns at once if none runs. Work that others did before
    /// they counted down is then done. If the future is dropped, the client no longer waits.
    ///
    /// # Errors
    /// [`Error::Lost`]: the server no longer has the count. [`Error::Server`]: a server did not do
    /// what it was asked.
    pub async fn wait(&self) -> Result<(), Error> {
        self.wait_within(None).await
    }

    /// Waits up to `timeout` until the count is zero.
    ///
    /// # Errors
    /// Those of [`CountDownLatch::wait`], and [`Error::TimedOut`]: the count was not zero within
    /// `timeout`.
    pub async fn wait_timeout(&self, timeout: Duration) -> Result<(), Error> {
        self.wait_within(Some(timeout)).await
    }

    async fn wait_within(&self, within: Option<Duration>) -> Result<(), Error> {
        self.0.context.acquiring(Span::Wait, self.until_open(within), |()| true).await
    }

    async fn until_open(&self, within: Option<Duration>) -> Result<(), Error> {
        let LatchParts { connection, context, channel, retry, .. } = &*self.0;
        let (mut wait, mut bell) = (Wait::begin(context, within), Bell::default());
        let mut awaited: Option<String> = None;
        loop {
            wait.attempt();
            context.note(&Event::Attempted);
            match self.look().await? {
                None if awaited.is_some() => return Err(Error::Lost { lock: context.name.clone() }),
                None | Some((0, _)) => return Ok(()),
                Some((_, round)) if *awaited.get_or_insert_with(|| round.clone()) != round => return Ok(()),
                Some(_) => {}
            }
            // A client that has just begun to listen looks once more: the count may have come to
            // zero before that.
            if bell.begin(connection, channel).await {
                continue;
            }
            let every = bell.next_look(*retry, &context.env);
            let left = wait.left(context.env.elapsed(), Duration::ZERO)?;
            bell.wait(left.min(every), |_| true).await;
        }
    }

    /// Sends a request that counts once.
    async fn once<T: FromRedisValue>(
        &self,
        operation: Operation,
        script: &Script,
        argument: &str,
    ) -> Result<T, Error> {
        let LatchParts { connection, context, keys, ttl, .. } = &*self.0;
        let mut call = script.call();
        call.key(keys).arg(context.env.unique()).arg(millis(*ttl)).arg(millis(MEMORY)).arg(argument);
        Ok(context.request(connection, operation, &call).await?.value)
    }

    async fn look(&self) -> Result<Look, Error> {
        let LatchParts { connection, context, keys, ttl, .. } = &*self.0;
        let mut call = script::LOOK.call();
        call.key(&keys[0]).arg(millis(*ttl));
        Ok(context.request(connection, Operation::Look, &call).await?.value)
    }
}
