//! Opens and closes connections.

use super::state::Engine;
use crate::client::{Client, Closing, Slot};
use crate::footprint::Access;
use crate::reply::Reply;

impl Engine {
    /// Opens a connection.
    ///
    /// If too many connections are open, the client is sent an error and the connection is to be
    /// closed.
    pub fn open_client(&mut self) -> &mut Client {
        let now = self.now();
        if let Some(error) = self.crowd() {
            self.stats.rejected_connections += 1;
            return self.clients.refuse(now, error);
        }
        self.stats.connections += 1;
        let client = self.clients.open(now);
        client.is_authenticated = self.password.is_empty();
        let slot = client.slot;
        self.await_idleness(slot, now);
        self.client(slot)
    }

    /// The client of an open connection. Its command must not run at the moment.
    pub fn client(&mut self, slot: Slot) -> &mut Client {
        self.clients.get(slot).expect("a connection keeps its client until it is closed")
    }

    /// Drops the state that is kept for a closed connection.
    pub fn close_client(&mut self, slot: Slot) {
        self.end_service(slot, |_| {});
        self.clients.close(slot);
    }

    /// Closes the clients whose connections closed in the meantime.
    pub fn close_departed(&mut self) {
        self.departed.take().into_iter().for_each(|slot| self.close_client(slot));
    }

    /// Ends the subscriptions, watches, tracking and monitoring of a client. Its connection is
    /// closed, or the client sent `RESET`.
    pub fn forget(&mut self, client: &mut Client) {
        self.watches.unwatch(client.slot);
        if std::mem::take(&mut client.is_monitor) {
            self.monitors.retain(|slot| *slot != client.slot);
        }
        if client.tracking.take().is_some() {
            self.tracker.forget(client.slot);
        }
        self.unsubscribe_all(client);
    }

    /// Closes the connection of another client.
    pub(crate) fn kill(&mut self, slot: Slot) {
        self.end_service(slot, |client| client.close(Closing::Now));
    }

    /// Closes the connections of all clients but the one whose command runs.
    pub(crate) fn kill_all(&mut self) {
        let slots: Vec<Slot> = self.clients.others().into_iter().map(|client| client.slot).collect();
        slots.into_iter().for_each(|slot| self.kill(slot));
    }

    /// Drops the state that is kept for a client, and closes its connection with `close`.
    fn end_service(&mut self, slot: Slot, close: fn(&mut Client)) {
        self.unblock(slot);
        let mut client = self.clients.take(slot);
        self.forget(&mut client);
        close(&mut client);
        self.clients.put_back(client);
    }

    /// Closes the connections of all clients that are subscribed or blocked, as one execution.
    pub fn hang_up(self: &mut Box<Self>) {
        self.execution(None, |engine| {
            engine.invalidate(&Client::nobody());
            engine.keyspace.footprint_mut().connections(Access::Write);
            let mut others = engine.clients.others();
            others.retain(|client| client.is_blocked || client.hears());
            let slots: Vec<Slot> = others.into_iter().map(|client| client.slot).collect();
            slots.into_iter().for_each(|slot| engine.end_service(slot, Client::hang_up));
            Reply::NOTHING
        });
    }
}
