//! How a client blocks, and how its command runs again or ends.

use super::{Blocked, Engine, Until};
use crate::client::{Client, Slot};
use crate::clock::Timestamp;
use crate::reply::Reply;

impl Engine {
    /// Blocks the command of a client.
    pub(crate) fn block(&mut self, client: &mut Client, blocked: Blocked) {
        client.is_blocked = true;
        self.use_connection();
        if let Until::Key { db, keys, .. } = &blocked.until {
            let deadline = blocked.deadline.map(Timestamp::millis);
            keys.iter().for_each(|key| self.keyspace.footprint_mut().waiting(*db, key, deadline));
        }
        self.waiting.insert(client.slot, blocked);
        self.keyspace.events.is_awaited = self.waiting.awaits_keys();
    }

    /// Ends the blocked command of a client without a reply, if it has one.
    pub(crate) fn unblock(&mut self, slot: Slot) -> Option<Blocked> {
        let blocked = self.waiting.remove(slot)?;
        self.keyspace.events.is_awaited = self.waiting.awaits_keys();
        let now = self.keyspace.instant();
        if let Some(client) = self.clients.get(slot) {
            client.is_blocked = false;
            client.active_at = now;
        }
        Some(blocked)
    }

    /// Ends `CLIENT PAUSE`: the commands that it held back run now.
    pub(crate) fn unpause(self: &mut Box<Self>) {
        self.pause = None;
        for slot in self.waiting.for_unpause() {
            self.attempt(slot, b"");
        }
    }

    /// Ends the blocked command of a client as its timeout does.
    pub(super) fn give_up(&mut self, slot: Slot) {
        if let Some(blocked) = self.unblock(slot) {
            self.outbox.send(slot, blocked.on_timeout);
        }
    }

    /// Serves the clients that wait for keys which appeared.
    ///
    /// Keys are served in the order of appearance, and the clients of one key in the order of
    /// arrival. A served command may make further keys appear.
    pub(super) fn serve_blocked(self: &mut Box<Self>) {
        while !self.keyspace.events.appeared.is_empty() {
            for (db, key) in std::mem::take(&mut self.keyspace.events.appeared) {
                let mut database = self.keyspace.db(db);
                let Some(value) = database.lookup(&key) else { continue };
                for slot in self.waiting.for_key(db, &key, value) {
                    self.attempt(slot, &key);
                }
            }
        }
    }

    /// Tries the blocked command of a client again.
    pub(super) fn attempt(self: &mut Box<Self>, slot: Slot, key: &[u8]) {
        let Some(attempt) = self.waiting.get(slot).map(|blocked| blocked.attempt.clone()) else { return };
        let mut client = self.clients.take(slot);
        let outer = self.outbox.begin_inner();
        let outcome = attempt(self, &mut client, key);
        self.invalidate(&client);
        self.clients.put_back(client);
        self.publish_events(Some(slot));
        let reply = outcome.unwrap_or_else(|error| Some(Reply::Error(error)));
        if reply.is_some() {
            self.unblock(slot);
        }
        self.outbox.end_inner(slot, reply, outer);
    }
}
