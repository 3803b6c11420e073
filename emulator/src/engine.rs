//! Everything that commands share: data, scripts, the clock, the watched keys.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::client::{Client, ClientId};
use crate::clock::{Clock, Timestamp};
use crate::footprint::{Access, Footprint, Resource};
use crate::keyspace::Keyspace;
use crate::reply::Reply;
use crate::script::{Host, Known, Rules, Scripts};

/// One server's state. Whoever holds it runs commands; that is what makes them atomic.
#[derive(Default)]
pub struct Engine {
    /// The databases.
    pub keyspace: Keyspace,
    /// The script cache.
    pub scripts: Scripts<ScriptHost>,
    clock: Option<Clock>,
    clients_opened: ClientId,
    /// By whom each key is watched, and the deadline it had when that began.
    watched: BTreeMap<(usize, Bytes), BTreeMap<ClientId, Option<i64>>>,
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
        self.keyspace.reset();
        self.scripts.flush();
        self.clock = Some(clock);
        self.clients_opened = 0;
        self.watched.clear();
        self.dirty.clear();
    }

    /// A copy of the data and of the known scripts.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { keyspace: self.keyspace.clone(), scripts: self.scripts.known().clone() }
    }

    /// Back to a copy. For clients that watch keys, every key has changed.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        self.keyspace.clone_from(&snapshot.keyspace);
        self.scripts.set_known(&snapshot.scripts);
        self.dirty.extend(self.watched.values().flat_map(BTreeMap::keys));
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
                        self.dirty.extend(watchers.keys());
                    }
                }
                Resource::Database(db) => {
                    let of_db = self.watched.iter().filter(|((watched_db, _), _)| *watched_db == db);
                    self.dirty.extend(of_db.flat_map(|(_, watchers)| watchers.keys()));
                }
                Resource::Clock | Resource::Scripts | Resource::Random => {}
            }
        }
    }

    /// What the last execution touched.
    pub fn footprint(&self) -> &Footprint {
        self.keyspace.footprint()
    }

    pub(crate) fn watch(&mut self, client: ClientId, db: usize, key: &[u8]) {
        let deadline = self.keyspace.db(db).deadline(key).flatten();
        let watchers = self.watched.entry((db, Bytes::copy_from_slice(key))).or_default();
        watchers.entry(client).or_insert(deadline);
    }

    /// Looks at what a client watches, because what EXEC does depends on it, and says whether a key has expired since it was
    /// watched. Nobody need have noticed that; a key that had expired before does not count.
    pub(crate) fn look_at_watched(&mut self, client: ClientId) -> bool {
        let mut has_expired = false;
        for ((db, key), watchers) in &self.watched {
            let Some(deadline) = watchers.get(&client) else { continue };
            let mut db = self.keyspace.db(*db);
            db.contains(key);
            has_expired |= deadline.is_some_and(|deadline| db.now().millis() > deadline);
        }
        has_expired
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

/// What a server holds: its data, with absolute deadlines, and the scripts that it knows.
#[derive(Clone, Debug)]
pub struct Snapshot {
    keyspace: Keyspace,
    scripts: Known,
}

/// The engine on loan to a running script, with the client that the script calls commands as and the way to call them.
pub struct ScriptHost {
    pub(crate) engine: Engine,
    pub(crate) client: Client,
    pub(crate) call: fn(&mut Engine, &mut Client, &[&[u8]], Rules) -> Reply,
    /// Whether there is such a command.
    pub(crate) knows: fn(&[&[u8]]) -> bool,
}

impl Host for ScriptHost {
    fn call(&mut self, argv: &[&[u8]], rules: Rules) -> Reply {
        self.client.protocol = rules.protocol;
        (self.call)(&mut self.engine, &mut self.client, argv, rules)
    }

    fn knows(&self, argv: &[&[u8]]) -> bool {
        (self.knows)(argv)
    }
}
