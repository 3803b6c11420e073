//! A claim to a lock, from the first attempt until the server knows it no longer.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::holder::{Answer, Holder, Token};
use super::parts::LeaseParts;
use super::servers::Servers;
use crate::bell::Bell;
use crate::counters::{Event, Span};
use crate::error::Error;
use crate::lock::Release;
use crate::request::Reply;
use crate::wait::Wait;

/// A holder that a server may know. If the claim is dropped, a task gives up its lock and its
/// place in the queue. If the runtime has ended, both end by themselves.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) holder: Holder,
    /// A server may know the holder.
    is_open: bool,
    /// The runtime on which the lock is acquired.
    pub(super) runtime: Option<Handle>,
}

/// The outcome of an attempt to acquire.
pub(super) enum Attempt {
    Granted(Granted),
    /// The lock may be free `retry_in` after the request was sent. `None` if that time is not
    /// known.
    Refused {
        sent_at: Duration,
        retry_in: Option<Duration>,
    },
}

/// A grant of the server.
#[derive(Clone, Copy)]
pub(super) struct Granted {
    pub(super) fencing_token: i64,
    /// Until when the client may rely on it, by its monotonic clock.
    pub(super) until: Duration,
}

impl Claim {
    pub(super) fn new(shared: &Arc<LeaseParts>, more: &[&[u8]]) -> Claim {
        Claim { holder: Holder::new(shared, more), is_open: false, runtime: Handle::try_current().ok() }
    }

    /// Tries once. If that is in vain and `patience` is not zero, the client is then in the
    /// queue, and counts as alive there for that time.
    pub(super) async fn attempt(&mut self, patience: Duration) -> Result<Attempt, Error> {
        match self.holder.shared.servers {
            Servers::One(_) => self.is_open = true,
            // The requests of an attempt give up by themselves what it was granted. If one of them
            // is late, it must not touch the next attempt.
            Servers::Many(_) => self.holder = self.holder.anew(),
        }
        self.holder.shared.context.note(&Event::Attempted);
        let Reply { value: Answer { is_yes, number }, sent_at, .. } = self.holder.acquire(patience).await?;
        if is_yes {
            self.is_open = true;
            let until = self.until(sent_at)?;
            return Ok(Attempt::Granted(Granted { fencing_token: number, until }));
        }
        // A place in the queue is to be given up, too.
        self.is_open = !patience.is_zero();
        // At its very end, a lease still runs.
        let retry_in = u64::try_from(number).ok().map(|ms| Duration::from_millis(ms.saturating_add(1)));
        Ok(Attempt::Refused { sent_at, retry_in })
    }

    /// The end of the lease that was granted on a request which was sent at this time.
    fn until(&self, sent_at: Duration) -> Result<Duration, Error> {
        let LeaseParts { context, options, .. } = &*self.holder.shared;
        let (now, until) = (context.env.elapsed(), sent_at + options.usable_lease());
        if now < until {
            return Ok(until);
        }
        Err(Error::TooLate { lock: context.name.clone(), took: now - sent_at, lease: options.lease })
    }

    /// Tries until the lock is granted, or this time is over.
    pub(super) async fn wait(&mut self, within: Option<Duration>) -> Result<Granted, Error> {
        let shared = self.holder.shared.clone();
        let LeaseParts { servers, context, options, protocol, .. } = &*shared;
        let (mut wait, mut bell) = (Wait::begin(context, within), Bell::default());
        loop {
            // A client that cannot hear is not to be woken in place of one that can. It is in the
            // queue only if it needs its turn.
            let is_queued = bell.listens() || options.is_fair;
            let patience = if is_queued { options.patience(bell.listens()) } else { Duration::ZERO };
            wait.attempt();
            let (sent_at, retry_in) = match self.attempt(patience).await? {
                Attempt::Granted(granted) => return Ok(granted),
                Attempt::Refused { sent_at, retry_in } => (sent_at, retry_in),
            };
            // A client that has just begun to listen looks once more: the lock may have become free
            // before that.
            if let Servers::One(connection) = servers
                && protocol.has_queue
                && bell.begin(connection, &protocol.channels[0]).await
            {
                continue;
            }
            let every = bell.next_look(options.retry, &context.env);
            let now = context.env.elapsed();
            let left = wait.left(now, Duration::ZERO)?;
            // The reply may have taken long.
            let next = sent_at + retry_in.map_or(every, |retry_in| retry_in.min(every));
            let token = self.holder.token.0.as_bytes();
            bell.wait(next.saturating_sub(now).min(left), |message| message == token).await;
        }
    }

    /// A grant in a text, by which another process can go on with it: the token, the fencing token,
    /// and the arguments of the attempt, with points between them. The claim ends without a
    /// release.
    pub(super) fn into_token(mut self, fencing_token: i64) -> String {
        self.is_open = false;
        let Holder { shared, token, more, .. } = &self.holder;
        let mut text = format!("{}.{fencing_token}", token.0);
        for argument in &more[shared.protocol.more.len()..] {
            text += ".";
            text += &String::from_utf8_lossy(argument);
        }
        text
    }

    /// Goes on with a grant of which another claim has made a text, with so many arguments. Begins
    /// its lease anew.
    pub(super) async fn resume(
        shared: &Arc<LeaseParts>,
        text: &str,
        arguments: usize,
    ) -> Result<(Claim, Granted), Error> {
        let mut parts = text.split('.');
        let (token, fencing_token) = (parts.next(), parts.next().map(str::parse));
        let more: Vec<&[u8]> = parts.map(str::as_bytes).collect();
        let (Some(token), Some(Ok(fencing_token)), true) = (token, fencing_token, more.len() == arguments)
        else {
            let reason = "this is no token of a grant of such a lock: take that of `Guard::into_token`";
            return Err(shared.context.invalid(reason));
        };
        let mut claim = Claim::new(shared, &more);
        claim.holder.token = Token(token.to_owned());
        let Reply { value: Answer { is_yes, .. }, sent_at, .. } = claim.holder.extend().await?;
        if !is_yes {
            return Err(Error::Lost { lock: shared.context.name.clone() });
        }
        let until = claim.until(sent_at)?;
        claim.is_open = true;
        Ok((claim, Granted { fencing_token, until }))
    }

    /// Gives up what the server granted. `is_over` says whether that has ended already, as far as
    /// the client knows.
    pub(super) async fn release(mut self, is_over: impl Fn() -> bool) -> Result<Release, Error> {
        let holder = self.holder.clone();
        let released = async {
            let Reply { value: answer, is_second, .. } = holder.release().await?;
            self.is_open = false;
            let release = match answer.is_yes {
                true => Release::Released,
                // Another request may have ended it: the client's library may send one twice.
                false if is_second || !is_over() => Release::Unknown,
                false => Release::NotHeld,
            };
            holder.shared.context.note(&Event::Released(release));
            Ok(release)
        };
        holder.shared.context.in_span(Span::Release, released).await
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.is_open
            && let Some(runtime) = &self.runtime
        {
            let holder = self.holder.clone();
            runtime.spawn(async move {
                let context = &holder.shared.context;
                // Nobody is there to hear of an error. If the request is lost, the lease ends the
                // grant.
                let released = async {
                    if let Ok(Reply { value: Answer { is_yes: true, .. }, .. }) = holder.release().await {
                        context.note(&Event::Released(Release::Released));
                    }
                };
                context.in_span(Span::Release, released).await;
            });
        }
    }
}
