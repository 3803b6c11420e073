//! The effects of the running execution, on their way to the replicas.

use bytes::Bytes;

use super::effect::{Effect, Unit};

/// The effects of one execution. It is kept only if something needs it.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// Whether effects are kept.
    pub is_kept: bool,
    /// Whether they are kept even if there is no replica.
    pub is_wanted: bool,
    /// The script has asked that its commands leave the replicas alone: `redis.set_repl`.
    pub is_muted: bool,
    /// The effects since the end of the last unit.
    unit: Vec<Effect>,
    /// The running command has named its effects.
    is_named: bool,
    /// The database that the stream has selected.
    pub selected: Option<usize>,
}

impl Outgoing {
    /// A command begins.
    pub(crate) fn begin_command(&mut self) {
        self.is_named = false;
    }

    /// Adds an effect that the running command names in place of itself.
    pub(crate) fn name(&mut self, db: usize, argv: Vec<Bytes>) {
        self.is_named = true;
        self.add(db, argv);
    }

    /// The running command has no effect.
    pub(crate) fn name_none(&mut self) {
        self.is_named = true;
    }

    /// Whether the running command has named its effects.
    pub(crate) fn is_named(&self) -> bool {
        self.is_named
    }

    /// Adds an effect.
    pub(crate) fn add(&mut self, db: usize, argv: Vec<Bytes>) {
        if self.is_kept && !self.is_muted {
            self.unit.push(Effect { db, argv });
        }
    }

    /// Adds the removal of a key at its deadline, which no script can keep from the replicas.
    pub(crate) fn remove(&mut self, db: usize, key: Bytes) {
        self.unit.push(Effect { db, argv: vec!["DEL".into(), key] });
    }

    /// Ends a unit, and returns it. `None` if nothing has had an effect.
    pub(crate) fn end_unit(&mut self) -> Option<Unit> {
        if self.unit.is_empty() {
            return None;
        }
        let unit = Unit::new(std::mem::take(&mut self.unit), self.selected);
        self.selected = unit.selects();
        Some(unit)
    }
}
