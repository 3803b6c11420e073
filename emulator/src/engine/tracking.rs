//! Sends messages about changed keys to the clients that track them.

use bytes::Bytes;

use super::state::Engine;
use crate::client::{Client, Slot};
use crate::footprint::{Access, Footprint, Resource};
use crate::reply::Reply;
use crate::resp::Protocol;

/// The channel on which a RESP2 client receives the invalidations of another client.
const CHANNEL: &str = "__redis__:invalidate";

impl Engine {
    /// Sends invalidations to the clients that have read a key which the last command changed.
    ///
    /// It also records the change for [`Engine::broadcast`]. `current` is the client that called
    /// the command; it receives invalidations of its own changes after its reply.
    pub(crate) fn invalidate(&mut self, current: &Client) {
        let is_flushed = std::mem::take(&mut self.keyspace.events.is_flushed);
        if self.tracker.is_idle() {
            return;
        }
        let expired = std::mem::take(&mut self.keyspace.events.expired).into_iter();
        let mut keys: Vec<(Bytes, Slot)> = expired.map(|key| (key, Client::nobody().slot)).collect();
        let mut changed: Vec<(usize, Bytes)> = Vec::new();
        for (resource, access, _) in self.keyspace.footprint().iter().skip(self.tracker.seen) {
            if let (Resource::Key { db, key, .. }, Access::Write) = (resource, access) {
                changed.push((db, Bytes::copy_from_slice(key)));
            }
        }
        // The first change of a key causes the message, whichever part it changes. So the footprint
        // records a write of the whole key.
        for (db, key) in changed {
            self.keyspace.footprint_mut().key(Access::Write, db, &key, None);
            keys.push((key, current.slot));
        }
        self.tracker.seen = self.keyspace.footprint().len();
        if is_flushed {
            for slot in self.tracker.take_all() {
                self.tell(current, slot, None);
            }
        }
        for (key, changer) in keys {
            for slot in self.tracker.take_readers(&key) {
                self.tell(current, slot, Some(&[(&key, changer)]));
            }
            self.tracker.note(&key, changer);
        }
    }

    /// Sends the keys that the execution changed to the clients that track prefixes.
    ///
    /// Each prefix gives one message, which is sent after all replies.
    pub(crate) fn broadcast(&mut self) {
        if self.tracker.has_changes() {
            self.broadcast_changes();
        }
    }

    fn broadcast_changes(&mut self) {
        while let Some((prefix, keys)) = self.tracker.pop_changed() {
            let nobody = Client::nobody();
            let keys: Vec<_> = keys.iter().map(|(key, changer)| (key, *changer)).collect();
            for slot in self.tracker.by_prefix(&prefix) {
                self.tell(&nobody, slot, Some(&keys));
            }
        }
    }

    /// Records in the footprint which changes cause a message to this client.
    pub(crate) fn note_tracked(&self, slot: Slot, footprint: &mut Footprint) {
        if self.tracker.is_idle() {
            return;
        }
        let has_prefixes = self.tracker.has_prefixes(slot);
        for db in 0..self.keyspace.databases() {
            if has_prefixes {
                footprint.database(Access::Read, db);
            }
            self.tracker.read_by(slot).for_each(|key| footprint.key(Access::Read, db, key, None));
        }
    }

    /// Sends one invalidation to a client, or to the client to which it redirects its messages.
    ///
    /// It contains these keys, each with the client that changed it. `None` means all keys.
    fn tell(&mut self, current: &Client, slot: Slot, keys: Option<&[(&Bytes, Slot)]>) {
        let is_current = slot == current.slot;
        let tracking = match self.clients.get(slot) {
            _ if is_current => current.tracking.as_ref(),
            Some(client) => client.tracking.as_ref(),
            None => None,
        };
        let Some(tracking) = tracking else { return };
        let is_unwanted = |changer| tracking.no_loop && changer == slot;
        let keys = match keys {
            None => Reply::NilArray,
            Some(keys) => {
                let wanted = keys.iter().filter(|(_, changer)| !is_unwanted(*changer));
                let wanted: Vec<_> = wanted.map(|(key, _)| Reply::Bulk(Bytes::clone(key))).collect();
                if wanted.is_empty() {
                    return;
                }
                Reply::Array(wanted)
            }
        };
        let redirect = tracking.redirect;
        let target = match redirect {
            None => Some(slot),
            Some(id) if id == current.id => Some(current.slot),
            Some(id) => self.clients.by_id(id),
        };
        let Some(target) = target else {
            let broken = Reply::Push(vec![
                Reply::bulk("tracking-redir-broken"),
                Reply::Integer(redirect.unwrap_or_default() as i64),
            ]);
            self.send(current, slot, Protocol::Resp3, broken);
            return;
        };
        let push = Reply::Push(vec![Reply::bulk("invalidate"), keys.clone()]);
        if self.protocol(current, target) == Protocol::Resp3 {
            self.send(current, target, Protocol::Resp3, push);
        } else if redirect.is_some() {
            let message = vec![Reply::bulk("message"), Reply::bulk(CHANNEL), keys];
            self.send(current, target, Protocol::Resp2, Reply::Push(message));
        }
    }

    fn protocol(&mut self, current: &Client, slot: Slot) -> Protocol {
        if slot == current.slot {
            current.speaks()
        } else {
            self.clients.get(slot).map_or(Protocol::Resp2, |client| client.protocol)
        }
    }

    /// Sends a message if the client uses `protocol`. On RESP2 the client must also be a
    /// subscriber.
    fn send(&mut self, current: &Client, slot: Slot, protocol: Protocol, message: Reply) {
        let (speaks, listens) = match self.clients.get(slot) {
            _ if slot == current.slot => (current.speaks(), current.is_subscriber()),
            Some(client) => (client.protocol, client.is_subscriber()),
            None => return,
        };
        if speaks != protocol || speaks == Protocol::Resp2 && !listens {
            return;
        }
        if speaks == Protocol::Resp2 {
            self.keyspace.footprint_mut().channel(Access::Write, CHANNEL.as_bytes());
        }
        if slot == current.slot {
            self.outbox.send_after_reply(message);
        } else {
            self.outbox.send(slot, message);
        }
    }
}
