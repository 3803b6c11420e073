//! The common parts of the locks for use: settings, attempts, waiting, renewal, and guards. A kind
//! of lock adds its scripts.

mod options;
mod protocol;
mod servers;
mod parts;
mod holder;
mod quorum;
mod claim;
mod validity;
mod guard;
mod builder;

use std::sync::Arc;
use std::time::Duration;

pub use builder::Builder;
pub(crate) use builder::{Details, Kind};
use claim::{Attempt, Claim};
pub use guard::Guard;
use parts::LeaseParts;
pub(crate) use protocol::{Protocol, Scripts};
use redis::FromRedisValue;
pub(crate) use servers::Servers;

use crate::counters::Span;
use crate::error::{Error, Operation};
use crate::script::Script;

/// A lock with a lease, from the view of one process. Clones share it, and each grant is another
/// holder.
#[derive(Clone, Debug)]
pub(crate) struct Lease(Arc<LeaseParts>);

impl Lease {
    /// Tries once. `more` are further arguments of the scripts.
    pub(crate) async fn try_acquire(&self, more: &[&[u8]]) -> Result<Option<Guard>, Error> {
        let mut claim = Claim::new(&self.0, more);
        let granted = async {
            Ok(match claim.attempt(Duration::ZERO).await? {
                Attempt::Granted(granted) => Some(granted),
                Attempt::Refused { .. } => None,
            })
        };
        let granted = self.0.context.acquiring(Span::Acquire, granted, Option::is_some).await?;
        Ok(granted.map(|granted| Guard::new(claim, granted)))
    }

    /// Waits until the lock is granted, at most as long as the settings say.
    pub(crate) async fn acquire(&self, more: &[&[u8]]) -> Result<Guard, Error> {
        self.acquire_within(self.wait(), more).await
    }

    /// How long a client waits if its call does not say it. `None` is for ever.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.0.options.wait
    }

    /// The client's monotonic clock.
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.context.env.elapsed()
    }

    /// Waits up to `timeout` until the lock is granted.
    pub(crate) async fn acquire_timeout(&self, timeout: Duration, more: &[&[u8]]) -> Result<Guard, Error> {
        self.acquire_within(Some(timeout), more).await
    }

    /// Goes on with a grant that a guard has given away, with so many arguments of the attempt.
    pub(crate) async fn resume(&self, token: &str, arguments: usize) -> Result<Guard, Error> {
        let resumed = Claim::resume(&self.0, token, arguments);
        let (claim, granted) = self.0.context.in_span(Span::Extend, resumed).await?;
        Ok(Guard::new(claim, granted))
    }

    /// Asks the server of the lock with one of its own scripts, and with all of its keys.
    pub(crate) async fn look<T: FromRedisValue>(&self, script: &Script) -> Result<T, Error> {
        let LeaseParts { servers, context, protocol, .. } = &*self.0;
        let Servers::One(connection) = servers else { unreachable!("these locks are on one server") };
        let mut call = script.call();
        call.key(&protocol.keys);
        Ok(context.request(connection, Operation::Look, &call).await?.value)
    }

    /// A lock with these keys and settings, and other scripts.
    pub(crate) fn with_scripts(&self, scripts: &'static Scripts) -> Lease {
        let mut shared = LeaseParts::clone(&self.0);
        shared.protocol.scripts = scripts;
        Lease(Arc::new(shared))
    }

    /// A lock with these settings whose only name is the main key and this one.
    pub(crate) fn below(&self, name: &str) -> Lease {
        let mut shared = LeaseParts::clone(&self.0);
        shared.context.name = format!("{}:{name}", shared.context.name);
        shared.protocol.keys = vec![format!("{}:{name}", self.key())];
        Lease(Arc::new(shared))
    }

    /// The main key.
    pub(crate) fn key(&self) -> &str {
        &self.0.protocol.keys[0]
    }

    /// The arguments of a call make no sense.
    pub(crate) fn invalid(&self, reason: impl Into<String>) -> Error {
        self.0.context.invalid(reason)
    }

    /// Waits until the lock is granted, at most this long.
    pub(crate) async fn acquire_within(
        &self,
        timeout: Option<Duration>,
        more: &[&[u8]],
    ) -> Result<Guard, Error> {
        let mut claim = Claim::new(&self.0, more);
        let granted = self.0.context.acquiring(Span::Acquire, claim.wait(timeout), |_| true).await?;
        Ok(Guard::new(claim, granted))
    }
}
