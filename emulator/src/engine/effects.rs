//! Collects the effects of executions, and sends them to the replicas.

use std::sync::Arc;

use bytes::Bytes;

use super::state::Engine;
use crate::replication::Unit;

/// After so many units that a replica has not taken, it has to look at its link.
const WAITING_UNITS_MAX: usize = 1_024;

impl Engine {
    /// Keeps the effects of each execution from now on.
    pub(crate) fn keep_effects(&mut self) {
        self.outgoing.is_wanted = true;
        self.update_outgoing();
    }

    /// The effects of the last execution, if they are kept.
    pub(crate) fn units(&self) -> &[Arc<Unit>] {
        &self.units
    }

    /// Adds an effect that the running command has in place of itself. A command without an effect
    /// of its own calls this with itself.
    pub(crate) fn name_effect(&mut self, db: usize, argv: impl FnOnce() -> Vec<Bytes>) {
        if self.outgoing.is_kept {
            self.note_removals();
            self.outgoing.name(db, argv());
        }
    }

    /// Adds the effect of a command that has run: for a write, the command itself.
    ///
    /// It has none if it has named others, or if data has not been changed more than `changes`
    /// times by now.
    pub(crate) fn note_effect(&mut self, db: usize, argv: &[&[u8]], changes: Option<usize>) {
        if self.outgoing.is_kept {
            self.note_removals();
            let has_changed = changes.is_some_and(|before| self.footprint().changes() > before);
            if has_changed && !self.outgoing.is_named() {
                self.outgoing.add(db, argv.iter().map(|arg| Bytes::copy_from_slice(arg)).collect());
            }
        }
    }

    /// Ends a unit: replicas apply the effects since the last one together.
    pub(crate) fn end_unit(&mut self) {
        if self.outgoing.is_kept {
            self.note_removals();
            if let Some(unit) = self.outgoing.end_unit() {
                self.forward(Arc::new(unit));
            }
        }
    }

    /// Ends a unit after each key that was removed at its deadline, because no command removed
    /// them.
    pub(super) fn end_unit_after_each_removal(&mut self) {
        for (db, key) in std::mem::take(&mut self.keyspace.events.removed) {
            self.outgoing.remove(db, key);
            self.end_unit();
        }
    }

    /// Adds the keys that were removed at their deadlines. A replica removes none by itself.
    fn note_removals(&mut self) {
        for (db, key) in std::mem::take(&mut self.keyspace.events.removed) {
            self.outgoing.remove(db, key);
        }
    }

    /// Sends a unit to the replicas.
    pub(super) fn forward(&mut self, unit: Arc<Unit>) {
        if self.has_stream() {
            self.replication.offset += unit.stream_bytes();
        }
        self.note_in_journal(&unit);
        let mut waiting_max = 0;
        for follower in &self.replication.followers {
            waiting_max = waiting_max.max(follower.link.send(unit.clone(), self.replication.offset));
        }
        if waiting_max > 0 && waiting_max.is_multiple_of(WAITING_UNITS_MAX) {
            // Nobody has looked at a replica for long.
            self.note_change();
        }
        self.units.push(unit);
    }

    /// Keeps effects only if something needs them. A replica has none of its own.
    pub(super) fn update_outgoing(&mut self) {
        let is_needed = self.has_stream() || self.replication.journal.is_some();
        self.outgoing.is_kept = self.replication.upstream.is_none() && is_needed;
        self.keyspace.events.is_replicated = self.outgoing.is_kept;
    }

    /// Whether effects count in the offset of the stream. Those that only the journal needs do not.
    fn has_stream(&self) -> bool {
        self.outgoing.is_wanted
            || self.replication.upstream.is_some()
            || !self.replication.followers.is_empty()
    }
}
