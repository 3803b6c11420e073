//! Everything that commands share: data, scripts, the clock, the watched keys.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::client::{Client, ClientId};
use crate::clock::{Clock, Timestamp};
use crate::command;
use crate::footprint::{Access, Footprint, Resource};
use crate::keyspace::Keyspace;
use crate::reply::Reply;
use crate::script::{Host, Scripts};

/// One server's state. Whoever holds it runs commands; that is what makes them atomic.
#[derive(Default)]
pub struct Engine {
    /// The databases.
    pub keyspace: Keyspace,
    /// The script cache.
    pub scripts: Scripts<ScriptHost>,
    clock: Option<Clock>,
    clients_opened: ClientId,
    watched: BTreeMap<(usize, Bytes), BTreeSet<ClientId>>,
    /// Clients that watch a key which has changed since.
    dirty: BTreeSet<ClientId>,
}

impl Engine {
    /// An empty server.
    pub fn new(clock: Clock, databases: usize) -> Engine {
        Engine { keyspace: Keyspace::new(databases), clock: Some(clock), ..Engine::default() }
    }

    /// A new connection's state.
    pub fn open_client(&mut self) -> Client {
        self.clients_opened += 1;
        Client::new(self.clients_opened)
    }

    /// Forgets what is kept for a connection that is gone.
    pub fn close_client(&mut self, client: &Client) {
        self.unwatch(client.id);
    }

    /// Back to an empty server whose next client is number 1. Compiled scripts stay compiled, unknown to clients.
    pub fn reset(&mut self, clock: Clock) {
        self.keyspace.flush_all();
        self.scripts.flush();
        self.clock = Some(clock);
        self.clients_opened = 0;
        self.watched.clear();
        self.dirty.clear();
    }

    /// Starts one execution: reads the clock once, and forgets the footprint of the one before.
    pub(crate) fn begin(&mut self) {
        self.keyspace.begin(self.now());
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.as_ref().expect("an engine in use was made with a clock").now()
    }

    /// Ends one execution: whoever watches a key that it changed is told at `EXEC`.
    pub(crate) fn end(&mut self) {
        if self.watched.is_empty() {
            return;
        }
        for (resource, access, _) in self.keyspace.footprint().iter() {
            if access == Access::Read {
                continue;
            }
            match resource {
                Resource::Key { db, key } => {
                    if let Some(watchers) = self.watched.get(&(db, Bytes::copy_from_slice(key))) {
                        self.dirty.extend(watchers);
                    }
                }
                Resource::Database(db) => {
                    let of_db = self.watched.iter().filter(|((watched_db, _), _)| *watched_db == db);
                    self.dirty.extend(of_db.flat_map(|(_, watchers)| watchers));
                }
                Resource::Clock | Resource::Scripts => {}
            }
        }
    }

    /// What the last execution touched.
    pub fn footprint(&self) -> &Footprint {
        self.keyspace.footprint()
    }

    pub(crate) fn watch(&mut self, client: ClientId, db: usize, key: &[u8]) {
        self.watched.entry((db, Bytes::copy_from_slice(key))).or_default().insert(client);
    }

    /// Stops watching, and says whether a watched key had changed.
    pub(crate) fn unwatch(&mut self, client: ClientId) -> bool {
        self.watched.retain(|_, watchers| {
            watchers.remove(&client);
            !watchers.is_empty()
        });
        self.dirty.remove(&client)
    }
}

/// The engine on loan to a running script, with the client that the script calls commands as.
pub struct ScriptHost {
    pub(crate) engine: Engine,
    pub(crate) client: Client,
}

impl Host for ScriptHost {
    fn call(&mut self, argv: &[&[u8]]) -> Reply {
        command::call_from_script(&mut self.engine, &mut self.client, argv)
    }
}
