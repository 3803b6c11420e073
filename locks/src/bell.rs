//! The notification of a client that waits.

use std::time::Duration;

use tokio::time::timeout;

use crate::connection::Connection;
use crate::env::Env;
use crate::error::is_transient;
use crate::subscribe::{Subscribe as _, Subscription};

/// The longest time to the next look of a client that waits and listens. A message may be lost.
const LOOK: Duration = Duration::from_secs(1);
/// That of a client that waits and cannot listen.
const POLL: Duration = Duration::from_millis(100);
/// How often a client that waits begins to listen. After that, it only looks.
const TRIES_MAX: u32 = 3;

/// The longest time to the next look of a client that waits. Its settings may name one.
pub(crate) fn look_every(retry: Option<Duration>, listens: bool) -> Duration {
    retry.unwrap_or(if listens { LOOK } else { POLL })
}

/// Why this setting makes no sense, if so.
pub(crate) fn problem(retry: Option<Duration>) -> Option<String> {
    let is_short = retry.is_some_and(|retry| retry < Duration::from_millis(1));
    is_short.then(|| "`retry` is at least one millisecond".into())
}

/// A subscription to the channel of a lock, as far as the connection can subscribe.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    subscription: Option<Subscription>,
    /// How often it has tried to subscribe.
    tries: u32,
}

impl Bell {
    pub(crate) fn listens(&self) -> bool {
        self.subscription.is_some()
    }

    /// The time to the next look. Clients that cannot hear look one after another.
    pub(crate) fn next_look(&self, retry: Option<Duration>, env: &Env) -> Duration {
        let every = look_every(retry, self.listens());
        if self.listens() { every } else { env.jittered(every) }
    }

    /// Begins to listen, if it does not. Returns whether messages may have been missed: it listens
    /// only from now on, or an error of the connection kept it from that.
    pub(crate) async fn begin(&mut self, connection: &Connection, channel: &str) -> bool {
        if self.listens() || self.tries >= TRIES_MAX {
            return false;
        }
        self.tries += 1;
        match connection.subscribe(channel).await {
            Ok(subscription) => self.subscription = Some(subscription),
            Err(error) if is_transient(&error) => {}
            Err(_) => self.tries = TRIES_MAX,
        }
        self.tries < TRIES_MAX || self.listens()
    }

    /// Waits up to `at_most` for a message that `is_awaited` accepts.
    pub(crate) async fn wait(&mut self, at_most: Duration, is_awaited: impl Fn(&[u8]) -> bool) {
        _ = timeout(at_most, self.ring(is_awaited)).await;
    }

    /// Returns when such a message has come, or no more messages will come. In the latter case, it
    /// no longer listens.
    async fn ring(&mut self, is_awaited: impl Fn(&[u8]) -> bool) {
        let Some(subscription) = &mut self.subscription else { return std::future::pending().await };
        loop {
            match subscription.message().await {
                Ok(message) if is_awaited(&message) => return,
                Ok(_) => {}
                Err(_) => return self.subscription = None,
            }
        }
    }
}
