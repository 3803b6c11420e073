//! Subscriptions, whose messages wait at gates as commands do.

use std::pin::Pin;

use locks::{Messages, Subscribe, Subscription};
use redis::RedisFuture;

use super::GatedConnection;
use crate::live::Request;

/// A subscription is a connection of its own. To subscribe is a step, and so is each message that
/// the client receives: anything may happen between its publication and its arrival. A crashed
/// client receives nothing. If [`Faults::drops`](crate::Faults) allows it, the connection breaks
/// while a message is on its way; the client receives no more, and the subscription ends. When a
/// server restarts, the client first receives the messages that are on their way.
impl Subscribe for GatedConnection {
    fn subscribe<'a>(&'a self, channel: &'a str) -> RedisFuture<'a, Subscription> {
        Box::pin(async move {
            let mut link = self.clone();
            link.step(Request::subscribe(channel)).await??.extract_error()?;
            Ok(Subscription::new(Listening(Some(link))))
        })
    }
}

/// The client's end of a subscription: its connection, until that breaks.
struct Listening(Option<GatedConnection>);

impl Messages for Listening {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send + '_>> {
        Box::pin(async {
            let message = self.0.as_ref()?.receive().await;
            if message.is_none() {
                self.0 = None;
            }
            message
        })
    }
}
