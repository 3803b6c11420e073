//! The settings of a lock with a lease.

use std::time::Duration;

use crate::bell::{self, look_every};
use crate::script::SPAN_MAX;

/// The lease of a lock whose settings name none.
pub(super) const LEASE: Duration = Duration::from_secs(30);
/// The part of the lease for which a client waits for the reply of one of several servers, and the
/// most of that.
const SERVER_TIMEOUT_PART: u32 = 20;
const SERVER_TIMEOUT: Duration = Duration::from_millis(200);
/// How late the look of a waiting client may be before the client loses its place in the queue.
const SLACK: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) lease: Duration,
    /// How often a grant is renewed. `None` if it is not.
    pub(super) renew_every: Option<Duration>,
    pub(super) max_hold: Option<Duration>,
    pub(super) wait: Option<Duration>,
    pub(super) retry: Option<Duration>,
    pub(super) is_fair: bool,
    /// How long a client waits for the reply of one of several servers.
    pub(super) server_timeout: Option<Duration>,
}

impl Options {
    /// Why these settings make no sense, if so.
    pub(super) fn problem(&self) -> Option<String> {
        let lease = self.lease;
        if lease.is_zero() {
            return Some("a lease is at least one millisecond".into());
        }
        if lease > SPAN_MAX {
            return Some(format!("a lease is at most {SPAN_MAX:?}, and not {lease:?}"));
        }
        if self.usable_lease().is_zero() {
            return Some(format!(
                "a lease of {lease:?} is not longer than what clocks may drift apart, {:?}",
                drift(lease)
            ));
        }
        if self.max_hold.is_some_and(|max_hold| max_hold < lease) {
            return Some(format!("`max_hold` is shorter than the lease of {lease:?}"));
        }
        if self.server_timeout().is_zero() || self.server_timeout() > lease / 2 {
            return Some(format!("`server_timeout` is not zero, and at most half of the lease of {lease:?}"));
        }
        bell::problem(self.retry)
    }

    /// How long a client waits for the reply of one of several servers.
    pub(super) fn server_timeout(&self) -> Duration {
        self.server_timeout.unwrap_or_else(|| (self.lease / SERVER_TIMEOUT_PART).min(SERVER_TIMEOUT))
    }

    /// The part of the lease on which a client relies.
    pub(super) fn usable_lease(&self) -> Duration {
        self.lease.saturating_sub(drift(self.lease))
    }

    /// How long a client that waits counts as alive after a look.
    pub(super) fn patience(&self, listens: bool) -> Duration {
        look_every(self.retry, listens) + SLACK
    }
}

/// How far the clocks of client and server may drift apart during a lease: 1 % and 2 ms, as in
/// Redlock. <https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>
fn drift(lease: Duration) -> Duration {
    lease / 100 + Duration::from_millis(2)
}
