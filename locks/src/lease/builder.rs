//! The settings of a lock, as people write them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Lease;
use super::options::{LEASE, Options};
use super::parts::LeaseParts;
use super::protocol::Protocol;
use super::servers::Servers;
use crate::connection::Connection;
use crate::counters::Counters;
use crate::env::Env;
use crate::error::Error;
use crate::lock::Terms;
use crate::name::{Name, together};
use crate::request::{Context, millis};
use crate::script::SPAN_MAX;

/// How long the result of an operation is kept if its settings do not say that.
const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// The settings of a lock. [`Builder::build`] checks them, and sends nothing.
#[must_use = "a lock is made by `build`"]
pub struct Builder<L> {
    servers: Servers,
    /// Its name is that of the lock: all names.
    context: Context,
    names: Vec<String>,
    prefix: String,
    /// `None` if the default lease is meant.
    lease: Option<Duration>,
    renews: Option<bool>,
    options: Options,
    pub(crate) details: Details,
    kind: Kind<L>,
}

/// Settings that only some kinds of locks have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Details {
    pub(crate) is_fenced: bool,
    pub(crate) permits: u32,
    /// How long the result of an operation is kept.
    pub(crate) retention: Duration,
}

impl Default for Details {
    fn default() -> Details {
        Details { is_fenced: false, permits: 1, retention: RETENTION }
    }
}

impl Details {
    /// Why these settings make no sense, if so.
    fn problem(&self) -> Option<String> {
        let retention = self.retention;
        if self.permits == 0 {
            return Some("a semaphore has at least one permit".into());
        }
        if retention < Duration::from_millis(1) {
            return Some("`retention` is at least one millisecond".into());
        }
        (retention > SPAN_MAX).then(|| format!("`retention` is at most {SPAN_MAX:?}, and not {retention:?}"))
    }
}

/// A kind of lock.
pub(crate) struct Kind<L> {
    /// The protocol for these names. Only some kinds have several.
    pub(crate) protocol: fn(&[Name], Details) -> Protocol,
    pub(crate) new: fn(Lease, Details) -> L,
}

impl<L> Builder<L> {
    /// A lock with one name on one server.
    pub(crate) fn on_one(connection: Connection, name: &str, details: Details, kind: Kind<L>) -> Builder<L> {
        Builder::new(Servers::One(connection), vec![name.to_owned()], details, kind)
    }

    pub(crate) fn new(servers: Servers, names: Vec<String>, details: Details, kind: Kind<L>) -> Builder<L> {
        Builder {
            servers,
            context: Context::new(&names.join(", ")),
            names,
            prefix: String::new(),
            lease: None,
            renews: None,
            options: Options::default(),
            details,
            kind,
        }
    }

    /// How long a grant lasts if nobody renews or releases it: 30 seconds if this is not called.
    ///
    /// If it is called, grants are not renewed, unless [`Builder::renew`] says so. Those of an
    /// [`Election`](crate::Election) are renewed nonetheless.
    pub fn lease(self, lease: Duration) -> Self {
        Builder { lease: Some(lease), ..self }
    }

    /// Whether a task renews each grant, every third of its lease.
    pub fn renew(self, renews: bool) -> Self {
        Builder { renews: Some(renews), ..self }
    }

    /// No grant is renewed after this time. It is then lost when its lease ends.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = Some(max_hold);
        self
    }

    /// How long a client waits for the lock, for ever if this is not called. Calls that say so
    /// themselves are not meant.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = Some(wait);
        self
    }

    /// The longest time after which a waiting client looks again whether the lock is free. If this
    /// is not called, it is one second, or 100 milliseconds if the connection cannot subscribe.
    ///
    /// A client that cannot subscribe waits for a random part of that time, at least half of it.
    pub fn retry(mut self, retry: Duration) -> Self {
        self.options.retry = Some(retry);
        self
    }

    /// The lock goes to the clients that wait in the order in which they came. One whose next look
    /// ([`Builder::retry`]) is late by a second loses its turn.
    ///
    /// A lock that is not fair is faster: it goes to the client that asks first when it is free. It
    /// wakes the waiting clients in their order. [`Redlock`](crate::Redlock) and
    /// [`MultiLock`](crate::MultiLock) cannot be fair.
    pub fn fair(mut self) -> Self {
        self.options.is_fair = true;
        self
    }

    /// A text before the name. Together they are the key.
    pub fn prefix(self, prefix: &str) -> Self {
        Builder { prefix: prefix.to_owned(), ..self }
    }

    /// Counts what happens to the lock. Several locks can have the same counters.
    pub fn counters(mut self, counters: &Counters) -> Self {
        self.context.counters = counters.clone();
        self
    }

    /// Other clocks and another source of unique names than those of the machine, for tests.
    pub fn env(mut self, env: Env) -> Self {
        self.context.env = env;
        self
    }

    /// How long a client waits for the reply of one of several servers.
    pub(crate) fn with_server_timeout(mut self, server_timeout: Duration) -> Self {
        self.options.server_timeout = Some(server_timeout);
        self
    }

    /// Makes the lock of a row in the registry, with its terms as they are. If the row sets no
    /// `retry`, a client looks only after a lease, so that a lost wake-up shows.
    pub(crate) fn of(self, env: Env, terms: &Terms) -> Result<L, Error> {
        let retry = self.options.retry.unwrap_or(terms.lease);
        self.env(env).lease(terms.lease).retry(retry).build()
    }

    /// Makes the lock.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the settings make no sense.
    pub fn build(self) -> Result<L, Error> {
        let Builder { servers, context, names, prefix, lease, renews, mut options, details, kind } = self;
        let names = together(&prefix, &names).map_err(|reason| context.invalid(reason))?;
        // The server counts in milliseconds.
        options.lease = Duration::from_millis(millis(lease.unwrap_or(LEASE)));
        options.renew_every = renews.unwrap_or(lease.is_none()).then(|| options.lease / 3);
        if let Some(reason) = options.problem().or(servers.problem()) {
            return Err(context.invalid(reason));
        }
        if let Some(reason) = details.problem() {
            return Err(context.invalid(reason));
        }
        let protocol = (kind.protocol)(&names, details);
        if options.is_fair && !protocol.has_queue {
            return Err(context.invalid("a lock of this kind has no queue, so it cannot be fair"));
        }
        let lease = Lease(Arc::new(LeaseParts { servers, context, options, protocol }));
        Ok((kind.new)(lease, details))
    }
}

impl<L> fmt::Debug for Builder<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("name", &self.context.name).finish_non_exhaustive()
    }
}
