//! Clients with a blocked command: it waits for a key, for a time, or for the end of a pause.

use bytes::Bytes;

use super::state::{Blocked, Until, Waiting};
use crate::client::Slot;
use crate::clock::Timestamp;
use crate::keyspace::Value;

impl Waiting {
    /// Adds a blocked command.
    pub fn insert(&mut self, slot: Slot, blocked: Blocked) {
        if let Until::Key { db, keys, .. } = &blocked.until {
            for key in keys {
                self.by_key.entry((*db, key.clone())).or_default().insert(slot);
            }
        }
        if let Until::OthersBlock { .. } = blocked.until {
            self.observers.push(slot);
        }
        if let Until::Acknowledged { .. } = blocked.until {
            self.for_replicas.push(slot);
        }
        self.deadlines.extend(blocked.deadline.map(|deadline| (deadline, slot)));
        self.blocked.insert(slot, blocked);
    }

    /// Removes the blocked command of a client.
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
        self.observers.retain(|observer| *observer != slot);
        self.for_replicas.retain(|waiting| *waiting != slot);
        if let Some(deadline) = blocked.deadline {
            self.deadlines.remove(&(deadline, slot));
        }
        Some(blocked)
    }

    /// The blocked command of a client.
    pub fn get(&self, slot: Slot) -> Option<&Blocked> {
        self.blocked.get(&slot)
    }

    /// The clients that wait for a key with a value of this kind, in the order of arrival.
    pub fn for_key(&self, db: usize, key: &Bytes, value: &Value) -> Vec<Slot> {
        let slots = self.by_key.get(&(db, key.clone())).into_iter().flatten();
        let waits = |slot: &&Slot| {
            self.blocked
                .get(*slot)
                .is_some_and(|blocked| matches!(blocked.until, Until::Key { is_kind, .. } if is_kind(value)))
        };
        slots.filter(waits).copied().collect()
    }

    /// Whether other clients may unblock a client. They may not if a pause or a fault holds the
    /// command back.
    pub fn can_be_unblocked(&self, slot: Slot) -> bool {
        let is_held_back = |blocked: &Blocked| matches!(blocked.until, Until::Unpaused | Until::Arrival);
        self.blocked.get(&slot).is_some_and(|blocked| !is_held_back(blocked))
    }

    /// Whether any client waits for a key.
    pub fn awaits_keys(&self) -> bool {
        !self.by_key.is_empty()
    }

    /// The keys of a database for which clients wait.
    pub fn keys(&self, db: usize) -> impl Iterator<Item = &Bytes> {
        self.by_key.keys().filter(move |(own, _)| *own == db).map(|(_, key)| key)
    }

    /// The clients that wait for the end of a pause, in the order of arrival.
    pub fn for_unpause(&self) -> Vec<Slot> {
        let paused = self.blocked.iter().filter(|(_, blocked)| matches!(blocked.until, Until::Unpaused));
        paused.map(|(&slot, _)| slot).collect()
    }

    /// The clients that wait for acknowledgements: for how many, and of which offset.
    pub fn for_replicas(&self) -> Vec<(Slot, usize, u64)> {
        let wanted = self.for_replicas.iter().filter_map(|slot| match self.blocked.get(slot)?.until {
            Until::Acknowledged { replicas, offset } => Some((*slot, replicas, offset)),
            _ => None,
        });
        wanted.collect()
    }

    /// The earliest deadline, and its client.
    pub fn first_deadline(&self) -> Option<(Timestamp, Slot)> {
        self.deadlines.first().copied()
    }

    /// All clients with a blocked command.
    pub fn slots(&self) -> Vec<Slot> {
        self.blocked.keys().copied().collect()
    }

    /// How many clients have a blocked command. Observers do not count.
    pub fn blocked_clients(&self) -> usize {
        self.blocked.len() - self.observers.len()
    }

    /// The observers for which enough clients have blocked.
    pub fn satisfied_observers(&self) -> Vec<Slot> {
        let blocked_clients = self.blocked_clients();
        let wanted = self.observed().filter(|(_, clients, _)| *clients <= blocked_clients);
        wanted.map(|(slot, ..)| slot).collect()
    }

    /// The observers whose patience is over.
    pub fn impatient_observers(&self, now: Timestamp) -> Vec<Slot> {
        self.observed().filter(|(.., patience)| *patience <= now).map(|(slot, ..)| slot).collect()
    }

    /// When the patience of the next observer is over.
    pub fn first_patience(&self) -> Option<Timestamp> {
        self.observed().map(|(.., patience)| patience).min()
    }

    fn observed(&self) -> impl Iterator<Item = (Slot, usize, Timestamp)> {
        self.observers.iter().filter_map(|slot| match self.blocked.get(slot)?.until {
            Until::OthersBlock { clients, patience } => Some((*slot, clients, patience)),
            _ => None,
        })
    }
}
