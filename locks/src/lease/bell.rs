//! The notification of a client that waits.

use std::time::Duration;

use tokio::time::timeout;

use super::holder::Token;
use crate::connection::Connection;
use crate::error::is_transient;
use crate::subscribe::{Subscribe as _, Subscription};

/// How often a client that waits begins to listen. After that, it only looks.
const TRIES_MAX: u32 = 3;

/// A subscription to the channel of a lock, as far as the connection can subscribe.
#[derive(Debug, Default)]
pub(super) struct Bell {
    subscription: Option<Subscription>,
    /// How often it has tried to subscribe.
    tries: u32,
}

impl Bell {
    pub(super) fn listens(&self) -> bool {
        self.subscription.is_some()
    }

    /// Begins to listen, if it does not. Returns whether messages may have been missed: it listens
    /// only from now on, or an error of the connection kept it from that.
    pub(super) async fn begin(&mut self, connection: &Connection, channel: &str) -> bool {
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

    /// Waits until a message names this token, at most so long.
    pub(super) async fn wait(&mut self, token: &Token, at_most: Duration) {
        _ = timeout(at_most, self.ring(token)).await;
    }

    /// Returns when a message names this token, or no more messages will come. In the latter case,
    /// it no longer listens.
    async fn ring(&mut self, token: &Token) {
        let Some(subscription) = &mut self.subscription else { return std::future::pending().await };
        loop {
            match subscription.message().await {
                Ok(message) if message == token.0.as_bytes() => return,
                Ok(_) => {}
                Err(_) => return self.subscription = None,
            }
        }
    }
}
