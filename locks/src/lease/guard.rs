//! Guards: what a client has while it holds a lock.

use std::fmt;
#[cfg(feature = "tokio-util")]
use std::sync::OnceLock;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
#[cfg(feature = "tokio-util")]
use tokio_util::sync::{CancellationToken, DropGuard};

use super::claim::{Claim, Granted};
use super::holder::Holder;
use super::parts::LeaseParts;
use super::validity::Validity;
use crate::counters::{Event, Span};
use crate::error::Error;
use crate::lock::Release;
use crate::request::Context;

/// When a renewal is tried again that has failed, at first. That doubles each time, up to a part of
/// the time between two renewals.
const RENEW_AGAIN: Duration = Duration::from_millis(100);
const RENEW_AGAIN_PART: u32 = 4;

/// A grant. The client holds the lock until it releases it or drops the guard, or until the grant
/// is lost.
///
/// A lock with a lease is advice: a client may stall for longer than its lease and not notice it.
/// If something must never happen twice, its resource has to check [`Guard::fencing_token`].
///
/// If a guard is dropped, a task releases the lock, and touches no grant but this one. It runs on
/// the runtime on which the lock was acquired. If that has ended, the grant stays until its lease
/// ends.
#[must_use = "a lock is released as soon as its guard is dropped"]
pub struct Guard {
    /// Cancels the tokens that callers have, before the claim ends.
    #[cfg(feature = "tokio-util")]
    on_end: OnceLock<DropGuard>,
    /// The renewal, if there is one. It stops before the claim ends.
    renewal: JoinSet<()>,
    claim: Claim,
    validity: Validity,
    fencing_token: i64,
}

impl Guard {
    pub(super) fn new(claim: Claim, granted: Granted) -> Guard {
        let Granted { fencing_token, until } = granted;
        let shared = &claim.holder.shared;
        let validity = Validity::new(shared.context.env.clone(), until);
        let mut renewal = JoinSet::new();
        if let Some(every) = shared.options.renew_every
            && let Some(runtime) = &claim.runtime
        {
            renewal.spawn_on(renew(claim.holder.clone(), validity.clone(), every), runtime);
        }
        Guard {
            #[cfg(feature = "tokio-util")]
            on_end: OnceLock::new(),
            renewal,
            claim,
            validity,
            fencing_token,
        }
    }

    /// A number that is greater than that of every earlier grant of this lock. `None` if the lock
    /// is not made with `fenced`.
    ///
    /// Send it with every write to the resource that the lock guards. The resource has to refuse a
    /// write whose number is smaller than one that it has seen.
    /// <https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html>
    pub fn fencing_token(&self) -> Option<i64> {
        (self.fencing_token > 0).then_some(self.fencing_token)
    }

    /// Whether the client can no longer rely on the grant: its lease is over by the client's own
    /// clock, or the server no longer has it. That does not change any more.
    pub fn is_lost(&self) -> bool {
        self.validity.is_over()
    }

    /// Waits until the grant is lost, as [`Guard::is_lost`] says. It needs no reply of a server for
    /// that.
    ///
    /// ```
    /// # async fn work() {}
    /// # async fn example(guard: locks::Guard) {
    /// tokio::select! {
    ///     () = work() => {}
    ///     () = guard.lost() => eprintln!("lost the lock: the work is cancelled"),
    /// }
    /// # }
    /// ```
    pub async fn lost(&self) {
        self.validity.over().await;
        note_loss(&self.claim.holder.shared.context, &self.validity);
    }

    /// A token that is cancelled when the grant is lost, or when its release begins: by
    /// [`Guard::release`], or by the end of the guard. Many pieces of work can wait for it. A
    /// caller that cancels its token does not cancel those of others.
    ///
    /// A loss is noticed on the tokio runtime on which the lock was acquired. If that ends, the
    /// token is cancelled.
    #[cfg(feature = "tokio-util")]
    pub fn cancellation_token(&self) -> CancellationToken {
        let on_end = self.on_end.get_or_init(|| {
            let (token, validity) = (CancellationToken::new(), self.validity.clone());
            if let Some(runtime) = &self.claim.runtime {
                let on_loss = token.clone().drop_guard();
                runtime.spawn(async move {
                    on_loss.token().run_until_cancelled(validity.over()).await;
                });
            }
            token.drop_guard()
        });
        on_end.token().child_token()
    }

    /// For how long the client can still rely on the grant, unless it is renewed. Zero if it is
    /// lost.
    pub fn remaining(&self) -> Duration {
        self.validity.remaining()
    }

    /// Begins the lease anew. Never takes a lock that is lost.
    ///
    /// # Errors
    /// [`Error::Lost`]: the grant is lost. [`Error::Server`] and [`Error::NoQuorum`]: whether it is
    /// extended is not known.
    pub async fn extend(&self) -> Result<(), Error> {
        match extend(&self.claim.holder, &self.validity).await? {
            true => Ok(()),
            false => Err(self.lost_error()),
        }
    }

    /// Gives the lock back, and says what the server had. The renewal ends before.
    ///
    /// If the future is dropped before it returns, the lock is released as if the guard had been
    /// dropped.
    ///
    /// # Errors
    /// [`Error::Server`] and [`Error::NoQuorum`]: too few servers replied. A task tries once more,
    /// and otherwise the lease ends the grant.
    pub async fn release(mut self) -> Result<Release, Error> {
        #[cfg(feature = "tokio-util")]
        drop(self.on_end.take());
        self.renewal.abort_all();
        let Guard { claim, validity, .. } = self;
        note_loss(&claim.holder.shared.context, &validity);
        claim.release(|| validity.is_over()).await
    }

    /// Ends this guard without a release. Whoever has the returned text can go on with the grant,
    /// in this process or in another one: `resume` of the same lock takes it. Until then, nobody
    /// renews the lease.
    ///
    /// The text is a secret: who knows it can end the grant. If it is resumed twice, both have the
    /// grant.
    #[must_use = "without it, nobody can release the lock before its lease ends"]
    pub fn into_token(mut self) -> String {
        self.renewal.abort_all();
        let Guard { claim, fencing_token, .. } = self;
        claim.into_token(fencing_token)
    }

    /// Releases with a further argument of the kind of lock. If the release has to be tried again,
    /// the argument is sent again.
    pub(crate) async fn release_with(mut self, argument: &[u8]) -> Result<Release, Error> {
        self.claim.holder.more.push(argument.to_vec());
        self.release().await
    }

    /// The grant is lost.
    pub(crate) fn lost_error(&self) -> Error {
        Error::Lost { lock: self.claim.holder.shared.context.name.clone() }
    }

    /// The token of the holder.
    pub(crate) fn token(&self) -> &str {
        &self.claim.holder.token.0
    }
}

/// Extends the grant if the server still has it. Returns whether the client can still rely on it.
async fn extend(holder: &Holder, validity: &Validity) -> Result<bool, Error> {
    let LeaseParts { context, options, .. } = &*holder.shared;
    let extended = async {
        let reply = holder.extend().await?;
        if reply.value.is_yes {
            validity.extend(reply.sent_at + options.usable_lease());
        } else {
            validity.deny();
        }
        if validity.is_over() {
            note_loss(context, validity);
            return Ok(false);
        }
        context.note(&Event::Renewed);
        Ok(true)
    };
    context.in_span(Span::Extend, extended).await
}

/// Notes that a grant is lost, unless that is known.
fn note_loss(context: &Context, validity: &Validity) {
    if validity.is_newly_over() {
        context.note(&Event::Lost);
    }
}

/// Extends a grant again and again, until it is lost or has lasted for `max_hold`. After an error
/// it tries again soon, and then less and less often.
async fn renew(holder: Holder, validity: Validity, every: Duration) {
    let (env, options) = (&holder.shared.context.env, &holder.shared.options);
    let began_at = env.elapsed();
    let (mut pause, mut next_pause) = (every, RENEW_AGAIN);
    loop {
        sleep(pause).await;
        if options.max_hold.is_some_and(|max_hold| env.elapsed() - began_at >= max_hold) {
            return;
        }
        (pause, next_pause) = match extend(&holder, &validity).await {
            Ok(_) => (every, RENEW_AGAIN),
            Err(_) => (env.jittered(next_pause.min(every / RENEW_AGAIN_PART)), next_pause * 2),
        };
        if validity.is_over() {
            return note_loss(&holder.shared.context, &validity);
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("lock", &self.claim.holder.shared.context.name)
            .field("fencing_token", &self.fencing_token())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
