//! A client's side of an execution: gated connections, a clock that may be wrong, and holds, which
//! mark when the client is inside a critical section.

mod connection;
mod subscription;
mod cluster;
mod hold;
mod multiplexed;
mod operation;

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use locks::{Env, Source};

pub use cluster::ClusterConnection;
pub use connection::GatedConnection;
pub use hold::{Hold, HoldGuard};
pub use operation::Operation;

use crate::interned::interned;
use crate::live::{Act, LiveClient, OperationId, Request, Traffic};

/// The connections, the clock and the name of one actor. The harness passes it to the actor's code.
#[derive(Clone)]
pub struct Client(pub(crate) LiveClient);

impl Client {
    /// The actor's name: `A`, `B`, …
    pub fn name(&self) -> String {
        self.0.actor.to_string()
    }

    /// How long the grants of this actor last: [`Scenario::lease`](crate::Scenario::lease). If code
    /// takes its lease from here, or if both take it from one constant, they cannot differ.
    pub fn lease(&self) -> Duration {
        self.0.terms().lease_of(self.0.actor)
    }

    /// The number of servers: [`Scenario::servers`](crate::Scenario::servers).
    pub fn servers(&self) -> usize {
        self.0.terms().servers
    }

    /// The client's own clock, as wrong as the schedule makes it, and unique names that are equal
    /// in every execution.
    pub fn env(&self) -> Env {
        Env::new(self.clone())
    }

    /// The time that the client's own clock shows, since the Unix epoch. The clock is as wrong as
    /// the schedule makes it, and is that of [`Client::env`].
    pub fn now(&self) -> Duration {
        Source::now(self)
    }

    /// True time since the start of the execution, which no client knows. It is for marks:
    /// [`Hold::since`] and [`HoldGuard::extend`]. Code under test reads [`Client::now`]. A mark
    /// takes a time of it, too, and counts from when the client read it, however wrong the clock
    /// was.
    pub fn true_time(&self) -> Duration {
        self.0.note(Act::ReadTime);
        self.0.now()
    }

    /// The true time of a mark: this time, or that at which the client read this from its clock. A
    /// mark in the future would be a lease of decades.
    #[track_caller]
    fn past(&self, since: Duration) -> Duration {
        let now = self.0.now();
        if since <= now {
            return since;
        }
        let read_ms = i64::try_from(since.as_millis()).ok();
        read_ms.and_then(|read_ms| self.0.read_at(read_ms)).unwrap_or_else(|| {
            panic!(
                "a lease cannot begin at {since:?}, because {now:?} have passed, and the client has not read this from its clock: take the time from Client::true_time or Client::now"
            )
        })
    }

    /// Runs an operation that a schedule may cancel wherever it waits, if
    /// [`Faults::cancels`](crate::Faults) allows it. A cancelled operation is dropped, as by a
    /// `select!` or a timeout, and the result is `None`. A request that waits to be sent is then
    /// never sent; the reply to a sent one is dropped. Tasks that the operation spawned are not
    /// cancelled.
    pub async fn cancellable<F: Future>(&self, operation: F) -> Option<F::Output> {
        struct Begun<'a>(&'a LiveClient, OperationId);
        impl Drop for Begun<'_> {
            fn drop(&mut self) {
                self.0.end_operation(self.1);
            }
        }
        let live = &self.0;
        let begun = Begun(live, live.begin_operation());
        let mut operation = pin!(operation);
        poll_fn(|cx| {
            if live.is_cancelled(begun.1, cx.waker()) {
                return Poll::Ready(None);
            }
            let outer = live.set_operation(Some(begun.1));
            let poll = operation.as_mut().poll(cx);
            live.set_operation(outer);
            match poll {
                Poll::Pending if live.is_cancelled(begun.1, cx.waker()) => Poll::Ready(None),
                poll => poll.map(Some),
            }
        })
        .await
    }

    /// Waits until something comes from outside, such as the second request of a user to the
    /// process. This is a step without a command: others may do anything before it.
    ///
    /// ```
    /// use harness::{Client, Scenario};
    /// use redis::AsyncCommands as _;
    ///
    /// // One process serves two requests at once. The second one may come at any time.
    /// let scenario = Scenario::new("two requests").actors(1, |client: Client| async move {
    ///     let second = tokio::spawn({
    ///         let client = client.clone();
    ///         async move {
    ///             client.arrival().await;
    ///             client.connection().incr::<_, _, i64>("requests", 1).await
    ///         }
    ///     });
    ///     let _: i64 = client.connection().incr("requests", 1).await?;
    ///     second.await??;
    ///     Ok(())
    /// });
    /// # let scenario = scenario.always(harness::oracle::Success);
    /// harness::exhaustive(&scenario).unwrap();
    /// ```
    pub async fn arrival(&self) {
        let mut gate = self.open(0, Traffic::Arrivals);
        _ = gate.step(Request::arrival()).await;
    }

    /// Records that the client did something that counts: it sent a mail, ran a job, let a request
    /// through. [`AtMostOnce`](crate::oracle::AtMostOnce), [`Rate`](crate::oracle::Rate) and others
    /// judge how often that is done.
    pub fn did(&self, what: impl AsRef<str>) {
        self.0.note(Act::Did { what: interned(what.as_ref()) });
    }

    /// Records that a resource accepted a write of this client with this fencing token. The write
    /// was the client's last command, whose reply may have been late.
    pub fn accepted(&self, resource: impl AsRef<str>, token: i64) {
        self.0.note(Act::Accept { resource: interned(resource.as_ref()), token });
    }
}

impl Source for Client {
    fn now(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.read_clock()).unwrap_or(0))
    }

    /// True time, as much too fast or too slow as the client's clock is.
    fn elapsed(&self) -> Duration {
        let now = self.true_time();
        let drift_ms = self.0.drift_ms(now);
        let drift = Duration::from_millis(drift_ms.unsigned_abs());
        if drift_ms < 0 { now.saturating_sub(drift) } else { now + drift }
    }

    fn unique(&self) -> String {
        self.0.draw_name()
    }

    /// Always the most: executions do not depend on chance.
    fn jitter(&self, max: Duration) -> Duration {
        max
    }
}
