//! Subscriptions, whose messages wait at gates as commands do.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use emulator::Reply;
use locks::{Messages, Subscribe, Subscription};
use redis::RedisFuture;

use super::GatedConnection;
use crate::render::{brief, printable};
use crate::sim::{Recording, Session, Traffic};
use crate::trace::EventKind;

/// A subscription is a connection of its own. To subscribe is a step, and so is each message that
/// the client receives: anything may happen between its publication and its arrival. A crashed
/// client receives nothing. If [`Faults::drops`](crate::Faults) allows it, the connection breaks
/// while a message is on its way; the client receives no more, and the subscription ends. When a
/// server restarts, the client first receives the messages that are on their way.
impl Subscribe for GatedConnection {
    fn subscribe<'a>(&'a self, channel: &'a str) -> RedisFuture<'a, Subscription> {
        Box::pin(async move {
            let mut link = self.clone();
            let mut subscribe = redis::cmd("SUBSCRIBE");
            link.step((&*subscribe.arg(channel)).into()).await??.extract_error()?;
            let link = Some(link.with_traffic(Traffic::Messages));
            Ok(Subscription::new(Listening { link, channel: channel.to_owned(), unheard: VecDeque::new() }))
        })
    }
}

/// The client's end of a subscription.
struct Listening {
    /// The connection, until it breaks.
    link: Option<GatedConnection>,
    channel: String,
    /// Messages that have arrived and that the client has not received, the oldest first.
    unheard: VecDeque<Vec<u8>>,
}

impl Messages for Listening {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send + '_>> {
        Box::pin(async {
            let link = self.link.as_mut()?;
            if self.unheard.is_empty() {
                self.unheard = link.messages().await;
            }
            let Some(message) = self.unheard.front() else {
                if link.session().is_hung_up() {
                    link.sim.state().lose_connection(link.actor);
                }
                link.sim.observes(link.actor, || "the end");
                link.sim.record(EventKind::SubscriptionEnded {
                    actor: link.actor,
                    channel: self.channel.clone(),
                });
                self.link = None;
                return None;
            };
            let text = || format!("{}: \"{}\"", self.channel, message.escape_ascii());
            if let Some(fault) = link.receive().await {
                link.sim.observes(link.actor, || fault.kind.word());
                link.sim.record_request_fault(link.actor, fault, text);
                self.link = None;
                return None;
            }
            let (sim, actor) = (&link.sim, link.actor);
            sim.observes(actor, text);
            if sim.recording == Recording::Full {
                let brief = brief("message", Some(self.channel.clone().into_bytes()));
                sim.record(EventKind::Message { actor, text: text(), brief });
            }
            self.unheard.pop_front()
        })
    }
}

impl GatedConnection {
    /// Waits for messages. Returns none if the connection is closed.
    async fn messages(&mut self) -> VecDeque<Vec<u8>> {
        let look = Look(self);
        let messages = poll_fn(|cx| look.poll(cx)).await;
        std::mem::forget(look);
        messages
    }
}

/// A poll for messages. If it is dropped before one arrives, it ends at a place where one could
/// have arrived.
struct Look<'a>(&'a GatedConnection);

impl Look<'_> {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<VecDeque<Vec<u8>>> {
        self.note();
        let session = self.0.session();
        match &session {
            Session::Emulator(connection) => {
                connection.open().poll_message(cx).map(|message| payload(message).into_iter().collect())
            }
            Session::Redis(_) => {
                let news = session.news("PING").unwrap_or_else(|error| {
                    panic!("a real server does not answer: {}", printable(&error.to_string()))
                });
                if news.is_empty() {
                    self.0.sim.state().listeners.push(cx.waker().clone());
                    return Poll::Pending;
                }
                Poll::Ready(news)
            }
        }
    }

    fn note(&self) {
        let GatedConnection { sim, actor, server, .. } = self.0;
        if let Session::Emulator(connection) = self.0.session() {
            sim.record_poll(*actor, *server, connection.open().looking());
        }
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        self.note();
    }
}

fn payload(message: Reply) -> Option<Vec<u8>> {
    let Reply::Push(words) = message else { return None };
    words
        .into_iter()
        .next_back()
        .and_then(|word| if let Reply::Bulk(bytes) = word { Some(bytes.into()) } else { None })
}
