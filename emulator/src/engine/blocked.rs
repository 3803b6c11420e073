//! How a client blocks, and how its command runs again or ends.

use std::sync::Arc;

use tokio::sync::Notify;

use super::state::{Blocked, Engine, Until};
use crate::client::{Client, Slot};
use crate::clock::{Clock, Timestamp};
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
        self.client_blocked.notify_waiters();
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

    /// The blocked command of a client.
    pub(crate) fn blocked(&self, slot: Slot) -> Option<&Blocked> {
        self.waiting.get(slot)
    }

    /// The next end of a `CLIENT PAUSE` or a `DEBUG SLEEP`.
    pub(crate) fn pause_ends_at(&self) -> Option<Timestamp> {
        self.pause.map(|(until, _)| until).into_iter().chain(self.asleep_until).min()
    }

    /// Ends `CLIENT PAUSE`: the commands that it held back run now.
    pub(crate) fn unpause(self: &mut Box<Self>) {
        self.pause = None;
        self.run_held_back();
    }

    /// Runs the commands that `CLIENT PAUSE` or `DEBUG SLEEP` held back. They wait again if the
    /// other one still holds them back.
    pub(super) fn run_held_back(self: &mut Box<Self>) {
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
        self.end_unit();
        self.publish_events(Some(slot));
        let reply = outcome.unwrap_or_else(|error| Some(Reply::Error(error)));
        if reply.is_some() {
            self.unblock(slot);
        }
        self.outbox.end_inner(slot, reply, outer);
    }

    /// The notification that a client has blocked.
    pub(crate) fn client_blocked(&self) -> Arc<Notify> {
        self.client_blocked.clone()
    }

    /// Sends the number of blocked clients to the observers for which it is large enough.
    pub(super) fn answer_observers(&mut self) {
        for slot in self.waiting.satisfied_observers() {
            let blocked_clients = Reply::count(self.waiting.blocked_clients());
            self.unblock(slot);
            self.outbox.send(slot, blocked_clients);
        }
    }

    /// Ends the waits of the observers whose patience is over.
    pub(super) fn dismiss_observers(&mut self) {
        if let Some((clock, patience)) = self.first_patience()
            && let now = clock.now()
            && patience <= now
        {
            self.waiting.impatient_observers(now).into_iter().for_each(|slot| self.give_up(slot));
        }
    }

    /// When the patience of the next observer is over, with the clock that shows this time.
    pub(crate) fn first_patience(&self) -> Option<(Clock, Timestamp)> {
        let patience = self.waiting.first_patience()?;
        Some((self.control.clone()?, patience))
    }

    /// Notifies those that wait for the next wake-up to find out again when it is.
    pub(crate) fn move_wake_up(&self) {
        self.wake_up_moved.notify_waiters();
    }
}
