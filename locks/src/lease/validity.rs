//! The validity of a grant: until when the client may rely on it.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::env::Env;

/// Until when a client may rely on a grant, by its own monotonic clock. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Validity {
    env: Env,
    state: watch::Sender<State>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    until: Duration,
    /// The server said that it no longer has the grant.
    is_denied: bool,
    /// Somebody was told that the validity is over.
    is_known: bool,
}

impl Validity {
    pub(super) fn new(env: Env, until: Duration) -> Validity {
        Validity { env, state: watch::Sender::new(State { until, is_denied: false, is_known: false }) }
    }

    /// The time that is left.
    pub(super) fn remaining(&self) -> Duration {
        let State { until, is_denied, .. } = *self.state.borrow();
        if is_denied { Duration::ZERO } else { until.saturating_sub(self.env.elapsed()) }
    }

    pub(super) fn is_over(&self) -> bool {
        self.remaining().is_zero()
    }

    /// The grant lasts until then. A validity that is over stays over.
    pub(super) fn extend(&self, until: Duration) {
        let is_over = self.is_over();
        self.state.send_modify(|state| match is_over {
            true => state.is_denied = true,
            false => state.until = until,
        });
    }

    /// The server no longer has the grant.
    pub(super) fn deny(&self) {
        self.state.send_modify(|state| state.is_denied = true);
    }

    /// Whether the validity is over, and nobody has asked that since.
    pub(super) fn is_newly_over(&self) -> bool {
        self.is_over() && self.state.send_if_modified(|state| !std::mem::replace(&mut state.is_known, true))
    }

    /// Waits until the validity is over.
    pub(super) async fn over(&self) {
        let mut state = self.state.subscribe();
        while let left = self.remaining()
            && !left.is_zero()
        {
            _ = timeout(left, state.changed()).await;
        }
    }
}
