//! The subscriptions of all clients. <https://redis.io/docs/latest/develop/pubsub/>

use std::collections::BTreeMap;

use bytes::Bytes;
use indexmap::IndexSet;

use crate::client::Slot;
use crate::glob;
use crate::keyspace::Hasher;
use crate::reply::Reply;
use crate::topic::Topic;

/// The subscribers of each name, in the order in which they subscribed.
pub type Subscribers = BTreeMap<Bytes, IndexSet<Slot, Hasher>>;

/// All subscriptions.
#[derive(Debug, Default)]
pub struct PubSub([Subscribers; 3]);

impl PubSub {
    /// The subscribers of each name. The names are sorted, because Redis's order differs from run
    /// to run.
    pub fn subscribers(&self, topic: Topic) -> &Subscribers {
        &self.0[topic as usize]
    }

    /// Adds a subscriber.
    pub fn subscribe(&mut self, topic: Topic, name: &Bytes, slot: Slot) {
        self.0[topic as usize].entry(name.clone()).or_default().insert(slot);
    }

    /// Removes a subscriber.
    pub fn unsubscribe(&mut self, topic: Topic, name: &[u8], slot: Slot) {
        let subscribers = &mut self.0[topic as usize];
        let Some(slots) = subscribers.get_mut(name) else { return };
        slots.shift_remove(&slot);
        if slots.is_empty() {
            subscribers.remove(name);
        }
    }

    /// Returns the messages of a publication, in the order of delivery: first to subscribers of the
    /// channel, then to those of patterns.
    pub fn publish(&self, topic: Topic, channel: &Bytes, payload: &Bytes) -> Vec<(Slot, Reply)> {
        let message = |word: &str, names: &[&Bytes]| {
            let names = names.iter().map(|name| Reply::Bulk(Bytes::clone(name)));
            Reply::Push(std::iter::once(Reply::bulk(word)).chain(names).collect())
        };
        let word = if topic == Topic::ShardChannel { "smessage" } else { "message" };
        let by_name = self.subscribers(topic).get(channel).into_iter().flatten();
        let mut messages: Vec<_> = by_name.map(|&slot| (slot, message(word, &[channel, payload]))).collect();
        if topic == Topic::Channel {
            for (pattern, slots) in self.subscribers(Topic::Pattern) {
                if glob::matches(pattern, channel) {
                    let message = message("pmessage", &[pattern, channel, payload]);
                    messages.extend(slots.iter().map(|&slot| (slot, message.clone())));
                }
            }
        }
        messages
    }
}
