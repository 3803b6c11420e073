//! Puts data and faults into a server for tests.
//!
//! A change has the effects of a command of Redis: it serves blocked clients, notifies subscribers
//! and leaves a footprint. But no password, fault or pause holds it back, and no counter shows it.

use std::time::Duration;

use crate::client::Client;
use crate::command;
use crate::emulator::Emulator;
use crate::fault::Fault;
use crate::keyspace::{Class, Expiry, Hash, Keyspace, List, Set, Text, ValueType, ZSet};
use crate::reply::Reply;

impl Emulator {
    /// Places a fault that strikes later commands. Faults placed earlier come first.
    ///
    /// A test that places a fault which never strikes tests nothing. So a warning on standard error
    /// names such faults when the server ends, or at a [`reset`](Emulator::reset).
    ///
    /// # Panics
    /// The fault names a command that the emulator does not have, so it would never strike.
    pub fn place(&self, fault: Fault) {
        if let Some(name) = fault.named() {
            let known = command::expect_known(name);
            known.unwrap_or_else(|error| panic!("the fault {fault} would never strike: {error}"));
        }
        self.shared.engine().faults.place(fault);
    }

    /// Returns the placed faults that have never struck. A test asks for them at its end: it has
    /// not tested what they do.
    ///
    /// ```
    /// use emulator::{Effect, Emulator, Fault};
    ///
    /// let emulator = Emulator::new();
    /// emulator.place(Fault::new(Effect::Twice).command("INCR"));
    /// emulator.connection().execute(&[b"INCRBY", b"counter", b"2"]);
    /// assert_eq!(emulator.unstruck(), [Fault::new(Effect::Twice).command("INCR")]);
    /// # emulator.clear_faults();
    /// ```
    pub fn unstruck(&self) -> Vec<Fault> {
        self.shared.engine().faults.unstruck().cloned().collect()
    }

    /// Removes the faults that can still strike.
    pub fn clear_faults(&self) {
        self.shared.engine().faults.clear();
    }

    /// Sets a key of database 0 to a string, whatever it held, and removes its deadline (`SET`).
    ///
    /// ```
    /// use std::time::Duration;
    /// use emulator::{Clock, Emulator};
    ///
    /// let clock = Clock::manual();
    /// let emulator = Emulator::with_clock(clock.clone());
    /// emulator.set("lock", "me");
    /// emulator.set_ttl("lock", Some(Duration::from_secs(10)));
    /// emulator.set_elements("queue", ["first", "second"]);
    /// emulator.set_scores("waiting", [("me", 1.0)]);
    ///
    /// clock.advance(Duration::from_millis(10_001));
    /// assert_eq!(emulator.get("lock"), None);
    /// assert_eq!(emulator.elements("queue"), ["first", "second"]);
    /// ```
    pub fn set(&self, key: &str, value: impl AsRef<[u8]>) {
        let (key, value) = (key.as_bytes(), Text::from(value.as_ref()));
        self.change(|keyspace| {
            let mut db = keyspace.db(0);
            db.insert(key, value.into(), Expiry::Never);
            db.notify(Class::String, "set", key);
        });
    }

    /// Sets a key of database 0 to a list, whatever it held, and removes its deadline (`DEL`,
    /// `RPUSH`). No elements remove the key.
    pub fn set_elements<T: AsRef<[u8]>>(&self, key: &str, elements: impl IntoIterator<Item = T>) {
        self.replace(key, (Class::List, "rpush"), elements, |list: &mut List, element| {
            list.push_back(element.as_ref());
        });
    }

    /// Sets a key of database 0 to a set, whatever it held, and removes its deadline (`DEL`,
    /// `SADD`). No members remove the key.
    pub fn set_members<T: AsRef<[u8]>>(&self, key: &str, members: impl IntoIterator<Item = T>) {
        self.replace(key, (Class::Set, "sadd"), members, |set: &mut Set, member| {
            set.insert(member.as_ref());
        });
    }

    /// Sets a key of database 0 to a hash, whatever it held, and removes its deadline (`DEL`,
    /// `HSET`). No fields remove the key.
    pub fn set_fields<T: AsRef<[u8]>, U: AsRef<[u8]>>(
        &self,
        key: &str,
        fields: impl IntoIterator<Item = (T, U)>,
    ) {
        self.replace(key, (Class::Hash, "hset"), fields, |hash: &mut Hash, (field, value)| {
            hash.insert(field.as_ref(), value.as_ref());
        });
    }

    /// Sets a key of database 0 to a sorted set, whatever it held, and removes its deadline (`DEL`,
    /// `ZADD`). No members remove the key.
    ///
    /// # Panics
    /// If a score is not a number.
    pub fn set_scores<T: AsRef<[u8]>>(&self, key: &str, scores: impl IntoIterator<Item = (T, f64)>) {
        let scores = scores.into_iter().inspect(|(_, score)| assert!(!score.is_nan(), "a score is a number"));
        self.replace(key, (Class::ZSet, "zadd"), scores, |zset: &mut ZSet, (member, score)| {
            zset.insert(member.as_ref(), score);
        });
    }

    /// Sets the time that is left to a key of database 0 (`PEXPIRE`), or removes its deadline
    /// (`PERSIST`). Returns whether the key exists. With no time left, the key is removed.
    pub fn set_ttl(&self, key: &str, ttl: Option<Duration>) -> bool {
        let key = key.as_bytes();
        self.change(|keyspace| {
            let ttl_ms = ttl.map(|ttl| i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX));
            let deadline = ttl_ms.map(|ttl_ms| keyspace.now().millis().saturating_add(ttl_ms));
            let mut db = keyspace.db(0);
            let Some(before) = db.deadline(key) else { return false };
            if before.is_some() || deadline.is_some() {
                db.set_deadline(key, deadline);
            }
            true
        })
    }

    /// Removes a key of database 0, and returns whether it existed (`DEL`).
    pub fn remove(&self, key: &str) -> bool {
        self.change(|keyspace| remove(keyspace, key.as_bytes()))
    }

    fn replace<T: ValueType, I>(
        &self,
        key: &str,
        (class, event): (Class, &'static str),
        items: impl IntoIterator<Item = I>,
        add: impl Fn(&mut T, I),
    ) {
        // The caller's iterator may read the emulator, so it ends before the change begins.
        let items: Vec<I> = items.into_iter().collect();
        self.change(|keyspace| {
            remove(keyspace, key.as_bytes());
            if items.is_empty() {
                return;
            }
            let edit = keyspace.db(0).edit_or_create::<T>(key.as_bytes());
            let mut edit = edit.expect("a key that was removed has no other type");
            let value = edit.write();
            items.into_iter().for_each(|item| add(value, item));
            edit.notify(class, event);
        });
    }

    /// Runs a change as one execution.
    fn change<R>(&self, change: impl FnOnce(&mut Keyspace) -> R) -> R {
        let (mut engine, mut changed) = (self.shared.engine(), None);
        engine.execution(None, |engine| {
            changed = Some(change(&mut engine.keyspace));
            engine.invalidate(&Client::nobody());
            engine.copy_anew();
            Reply::NOTHING
        });
        changed.expect("an execution runs what it is given")
    }
}

fn remove(keyspace: &mut Keyspace, key: &[u8]) -> bool {
    let mut db = keyspace.db(0);
    let existed = db.remove(key);
    if existed {
        db.notify(Class::Generic, "del", key);
    }
    existed
}
