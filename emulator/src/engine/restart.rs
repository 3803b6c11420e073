//! A crash of the server, and what it has afterwards: what a test causes by `EMULATOR RESTART`.

use std::sync::Arc;

use super::state::Engine;
use crate::client::Client;
use crate::config::Id;
use crate::keyspace::DueKeys;
use crate::replication::{Journal, Unit};
use crate::script::Libraries;
use crate::stats::Stats;

const APPENDFSYNC: Id = Id::of("appendfsync");
const APPENDONLY: Id = Id::of("appendonly");

/// The writes that a crash may lose, by the settings of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// None.
    Nothing,
    /// Those of the last so many milliseconds.
    Millis(i64),
    /// All: nothing is on the disk.
    All,
}

/// With `appendfsync everysec`, a crash of the machine may lose the writes of a second. With `no`,
/// Linux writes after 30 seconds.
const EVERYSEC_MS: i64 = 1000;
const LINUX_MS: i64 = 30_000;

impl Engine {
    /// What a crash loses by `appendonly` and `appendfsync`.
    pub(crate) fn loss(&self) -> Loss {
        match &self.config.text(APPENDFSYNC)[..] {
            _ if !self.config.is_on(APPENDONLY) => Loss::All,
            b"always" => Loss::Nothing,
            b"everysec" => Loss::Millis(EVERYSEC_MS),
            _ => Loss::Millis(LINUX_MS),
        }
    }

    /// Keeps what a restart can restore, from now on.
    pub(crate) fn keep_journal(&mut self) {
        if self.sentinel.is_none() && self.replication.journal.is_none() {
            self.replication.journal = Some(self.new_journal());
            self.update_outgoing();
        }
    }

    fn new_journal(&self) -> Journal {
        Journal::new(self.keyspace.clone(), self.functions.libraries().clone(), self.clock().now())
    }

    /// Begins the journal anew, after a change of the data that is no write of a client.
    pub(super) fn begin_journal_anew(&mut self) {
        if self.replication.journal.is_some() {
            self.replication.journal = Some(self.new_journal());
        }
    }

    /// Adds a write to the journal.
    pub(super) fn note_in_journal(&mut self, unit: &Arc<Unit>) {
        let now = self.now();
        let Some(journal) = &mut self.replication.journal else { return };
        if journal.add(unit.clone(), now) {
            journal.copy(self.keyspace.clone(), self.functions.libraries().clone(), now);
        }
    }

    /// Loads libraries from the disk.
    pub(crate) fn load_libraries(&mut self, libraries: &Libraries) {
        self.functions.set_libraries(libraries);
    }

    /// Ends what ends with a process: connections, but for that of this client, scripts, functions,
    /// data and settings. Links end, and begin anew. `load` loads the data that are left.
    pub(crate) fn crash(self: &mut Box<Self>, client: &mut Client, load: impl FnOnce(&mut Box<Self>)) {
        self.kill_all();
        if self.sentinel.is_some() {
            // It has everything in its file.
            return;
        }
        self.forget(client);
        let (faults, clock) = (std::mem::take(&mut self.faults), self.clock().clone());
        self.reset(clock.clone());
        self.faults = faults;
        self.restarts += 1;
        self.outgoing.is_kept = false;
        self.keyspace.events.is_replicated = false;
        self.keyspace.due_keys = DueKeys::Alive;
        load(self);
        self.stats = Stats::new(clock.now());
        self.restart_replication();
        self.begin_journal_anew();
        self.concern_all();
        self.note_change();
    }
}
