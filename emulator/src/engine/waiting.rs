//! Clients whose command waits: for a key to appear, for a time to come, for a pause to end.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use indexmap::{IndexMap, IndexSet};

use super::Engine;
use crate::client::{Client, Slot};
use crate::clock::Timestamp;
use crate::error::Error;
use crate::keyspace::{Hasher, Value};
use crate::reply::Reply;

/// Tries again what a client waits for: with a key that appeared, or once a pause has ended. `None` if it must wait on.
pub type Attempt =
    Arc<dyn Fn(&mut Box<Engine>, &mut Box<Client>, &[u8]) -> Result<Option<Reply>, Error> + Send + Sync>;

/// A command that waits.
pub struct Blocked {
    /// Until when.
    pub until: Until,
    /// Gives up then.
    pub deadline: Option<Timestamp>,
    /// What giving up answers.
    pub on_timeout: Reply,
    /// What is tried when there is hope.
    pub attempt: Attempt,
}

/// What a command waits for.
pub enum Until {
    /// One of these keys of a database appears, and holds what the command works on.
    Key {
        /// The database.
        db: usize,
        /// The keys.
        keys: Vec<Bytes>,
        /// Whether a value is of the kind that is waited for.
        is_kind: fn(&Value) -> bool,
    },
    /// `CLIENT PAUSE` ends.
    Unpaused,
    /// The deadline, at which the command arrives: a fault made it late.
    Arrival,
    /// Nothing but the deadline.
    Deadline,
}

/// All commands that wait.
#[derive(Default)]
pub struct Waiting {
    blocked: IndexMap<Slot, Blocked, Hasher>,
    /// Who waits for a key, first come first.
    by_key: IndexMap<(usize, Bytes), IndexSet<Slot, Hasher>, Hasher>,
    deadlines: BTreeSet<(Timestamp, Slot)>,
}

impl Waiting {
    /// Adds one.
    pub fn insert(&mut self, slot: Slot, blocked: Blocked) {
        if let Until::Key { db, keys, .. } = &blocked.until {
            for key in keys {
                self.by_key.entry((*db, key.clone())).or_default().insert(slot);
            }
        }
        self.deadlines.extend(blocked.deadline.map(|deadline| (deadline, slot)));
        self.blocked.insert(slot, blocked);
    }

    /// Takes one out.
    pub fn remove(&mut self, slot: Slot) -> Option<Blocked> {
        let blocked = self.blocked.shift_remove(&slot)?;
        if let Until::Key { db, keys, .. } = &blocked.until {
            for key in keys {
                let entry = (*db, key.clone());
                let Some(slots) = self.by_key.get_mut(&entry) else { continue };
                slots.shift_remove(&slot);
                if slots.is_empty() {
                    self.by_key.swap_remove(&entry);
                }
            }
        }
        if let Some(deadline) = blocked.deadline {
            self.deadlines.remove(&(deadline, slot));
        }
        Some(blocked)
    }

    /// The command that a client waits with.
    pub fn get(&self, slot: Slot) -> Option<&Blocked> {
        self.blocked.get(&slot)
    }

    /// Who waits for a key of this kind, first come first.
    pub fn for_key(&self, db: usize, key: &Bytes, value: &Value) -> Vec<Slot> {
        let slots = self.by_key.get(&(db, key.clone())).into_iter().flatten();
        let waits = |slot: &&Slot| {
            self.blocked
                .get(*slot)
                .is_some_and(|blocked| matches!(blocked.until, Until::Key { is_kind, .. } if is_kind(value)))
        };
        slots.filter(waits).copied().collect()
    }

    /// Whether a client waits for something that others may end: its command was not held back.
    pub fn can_be_unblocked(&self, slot: Slot) -> bool {
        let is_held_back = |blocked: &Blocked| matches!(blocked.until, Until::Unpaused | Until::Arrival);
        self.blocked.get(&slot).is_some_and(|blocked| !is_held_back(blocked))
    }

    /// Whether anybody waits for a key.
    pub fn awaits_keys(&self) -> bool {
        !self.by_key.is_empty()
    }

    /// The keys of a database that somebody waits for.
    pub fn keys(&self, db: usize) -> impl Iterator<Item = &Bytes> {
        self.by_key.keys().filter(move |(own, _)| *own == db).map(|(_, key)| key)
    }

    /// Those who wait for the end of a pause, first come first.
    pub fn for_unpause(&self) -> Vec<Slot> {
        let paused = self.blocked.iter().filter(|(_, blocked)| matches!(blocked.until, Until::Unpaused));
        paused.map(|(&slot, _)| slot).collect()
    }

    /// The first deadline, and whose it is.
    pub fn first_deadline(&self) -> Option<(Timestamp, Slot)> {
        self.deadlines.first().copied()
    }

    /// Everybody who waits.
    pub fn slots(&self) -> Vec<Slot> {
        self.blocked.keys().copied().collect()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.blocked.len()
    }
}
