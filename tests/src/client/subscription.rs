//! Subscriptions, whose messages wait at gates as commands do.

use std::pin::Pin;

use locks::{Messages, Subscribe, Subscription};
use redis::RedisFuture;

use super::GatedConnection;
use crate::live::{Loss, Request};

/// A subscription is a connection of its own. To subscribe is a step, and so is to unsubscribe, and
/// each message that the client receives: anything may happen between its publication and its
/// arrival. A crashed client receives nothing. If [`Faults::drops`](crate::Faults) allows it, the
/// connection breaks while a message is on its way; the client receives no more, and the
/// subscription ends. When a server restarts, the client first receives the messages that are on
/// their way.
impl Subscribe for GatedConnection {
    fn subscribe<'a>(&'a self, channel: &'a str) -> RedisFuture<'a, Subscription> {
        self.clone().listen(channel)
    }
}

impl GatedConnection {
    /// Subscribes on this connection.
    pub(super) fn listen(mut self, channel: &str) -> RedisFuture<'_, Subscription> {
        Box::pin(async move {
            self.step(Request::subscribe(channel)).await??.extract_error()?;
            Ok(Subscription::new(Listening { link: Some(self), channel: channel.to_owned() }))
        })
    }
}

/// The client's end of a subscription.
struct Listening {
    /// Its connection, until that breaks.
    link: Option<GatedConnection>,
    channel: String,
}

impl Messages for Listening {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send + '_>> {
        Box::pin(async {
            let message = self.link.as_ref()?.receive().await;
            if message.is_none() {
                self.link = None;
            }
            message
        })
    }

    fn end(self: Box<Self>) -> RedisFuture<'static, ()> {
        Box::pin(async move {
            let mut link = self.link.ok_or(Loss::Connection)?;
            link.step(Request::unsubscribe(&self.channel)).await??.extract_error()?;
            Ok(())
        })
    }
}
