//! What settings do to the server as a whole: who keeps them at hand, when memory is full, which clients are to go.

use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;

use super::Engine;
use crate::client::{Client, Closing, Slot};
use crate::clock::Timestamp;
use crate::config::Id;
use crate::error::{self, Error};
use crate::keyspace::{Classes, Limits, ListPack};
use crate::log::{LogLevel, LogLine};
use crate::reply::Reply;

const ENABLE_DEBUG_COMMAND: Id = Id::of("enable-debug-command");
const LOGLEVEL: Id = Id::of("loglevel");
const MAXCLIENTS: Id = Id::of("maxclients");
const MAXMEMORY: Id = Id::of("maxmemory");
const MAXMEMORY_POLICY: Id = Id::of("maxmemory-policy");
const MIN_REPLICAS_TO_WRITE: Id = Id::of("min-replicas-to-write");
const MIN_REPLICAS_MAX_LAG: Id = Id::of("min-replicas-max-lag");
const TIMEOUT: Id = Id::of("timeout");

/// Unread bytes that no limit counts: Redis keeps so many in a buffer of the client's own, and any more in blocks no smaller.
const OWN_BUFFER_BYTES: usize = 16 * 1024;

/// How much a client of one kind may leave unread: `client-output-buffer-limit`. What is 0 limits nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputLimit {
    hard_bytes: usize,
    soft_bytes: usize,
    /// How long it may have left more than the soft limit unread.
    soft_secs: i64,
}

impl OutputLimit {
    /// Of one class of clients, out of the value of the parameter.
    fn of(class: &str, text: &str) -> OutputLimit {
        let mut words = text.split(' ').skip_while(|word| *word != class).skip(1);
        let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0_u64);
        OutputLimit {
            hard_bytes: number() as usize,
            soft_bytes: number() as usize,
            soft_secs: number() as i64,
        }
    }
}

impl Engine {
    /// Hands settings to those who keep them at hand. All others are looked up where they matter.
    pub(crate) fn apply_settings(&mut self) {
        const CLIENT_OUTPUT_BUFFER_LIMIT: Id = Id::of("client-output-buffer-limit");
        const HASH_ENTRIES: Id = Id::of("hash-max-listpack-entries");
        const HASH_VALUE: Id = Id::of("hash-max-listpack-value");
        const INTSET_ENTRIES: Id = Id::of("set-max-intset-entries");
        const NOTIFY_KEYSPACE_EVENTS: Id = Id::of("notify-keyspace-events");
        const REQUIREPASS: Id = Id::of("requirepass");
        const ZSET_ENTRIES: Id = Id::of("zset-max-listpack-entries");
        const ZSET_VALUE: Id = Id::of("zset-max-listpack-value");
        let config = &self.config;
        self.keyspace.events.wanted = Classes::from_bits(config.number(NOTIFY_KEYSPACE_EVENTS) as u16);
        let listpack = |len_max, item_bytes_max| ListPack {
            len_max: config.size(len_max),
            item_bytes_max: config.size(item_bytes_max),
        };
        self.keyspace.limits = Limits {
            hash: listpack(HASH_ENTRIES, HASH_VALUE),
            zset: listpack(ZSET_ENTRIES, ZSET_VALUE),
            intset_len_max: config.size(INTSET_ENTRIES),
        };
        let limits = String::from_utf8_lossy(config.text(CLIENT_OUTPUT_BUFFER_LIMIT));
        self.output_limits = ["normal", "pubsub"].map(|class| OutputLimit::of(class, &limits));
        self.password = config.text(REQUIREPASS).clone();
        self.check_clients_from_now();
    }

    /// Looks after clients at once, if any can be idle for too long.
    pub(super) fn check_clients_from_now(&mut self) {
        if self.config.number(TIMEOUT) != 0 {
            self.client_check_at = Some(self.keyspace.instant());
        }
    }

    /// Whether a client must give the password first. Without a password nobody must, but who has not given an earlier one must
    /// give the next.
    pub(crate) fn is_stranger(&self, client: &Client) -> bool {
        !client.is_authenticated && !self.password.is_empty()
    }

    /// Whether a client may use `DEBUG`: `enable-debug-command`.
    pub(crate) fn allows_debug(&self, client: &Client) -> bool {
        match &self.config.text(ENABLE_DEBUG_COMMAND)[..] {
            b"yes" => true,
            b"local" => client.is_local(),
            _ => false,
        }
    }

    /// About how many bytes the server takes, and how many of these are data.
    pub(crate) fn memory(&mut self) -> (usize, usize) {
        let data = self.keyspace.stats().iter().map(|stats| stats.bytes).sum();
        let clients = self.clients.len() * size_of::<Client>();
        (size_of::<Engine>() + clients + self.scripts_memory() + data, data)
    }

    /// How many bytes the sources of scripts and of libraries take.
    pub(crate) fn scripts_memory(&self) -> usize {
        let scripts = self.scripts.known().values().map(bytes::Bytes::len);
        let libraries = self.functions.libraries().values().map(|library| library.code.len());
        scripts.chain(libraries).sum()
    }

    /// Whether there is less memory than is used: then what needs more is refused. Nothing is ever evicted, so with another policy
    /// than `noeviction` there is no limit.
    pub(crate) fn lacks_memory(&mut self) -> bool {
        let limit = self.config.size(MAXMEMORY);
        limit != 0 && self.config.text(MAXMEMORY_POLICY) == "noeviction" && self.memory().0 > limit
    }

    /// Whether writes want replicas, of which there are none.
    pub(crate) fn lacks_replicas(&self) -> bool {
        [MIN_REPLICAS_TO_WRITE, MIN_REPLICAS_MAX_LAG].iter().all(|&id| self.config.number(id) != 0)
    }

    /// Logs a line for whoever asked for lines of its level.
    pub(crate) fn log(&self, level: LogLevel, text: Bytes) {
        if let Some(hook) = self.on_log.as_ref().and_then(Weak::upgrade)
            && level >= LogLevel::of_setting(self.config.text(LOGLEVEL))
        {
            hook(&LogLine { at: self.keyspace.instant(), level, text });
        }
    }

    /// Why there is no room for another client, if there is none.
    pub(super) fn crowd(&self) -> Option<Error> {
        (self.clients.len() >= self.config.size(MAXCLIENTS)).then_some(error::MAX_CLIENTS)
    }

    /// Leaves a message to a client, unless that has left too many unread: then it is disconnected.
    pub(crate) fn deliver_to(&mut self, slot: Slot, message: Reply) {
        let Some(client) = self.clients.get(slot) else { return };
        client.send(message);
        self.limit_output(slot);
    }

    /// So much of what was handed to a client's connection is not written yet.
    pub(crate) fn set_unwritten(&mut self, slot: Slot, bytes: usize) {
        let client = self.client(slot);
        client.unwritten_bytes = bytes;
        if client.soft_limit_at.is_some() {
            self.limit_output(slot);
        }
    }

    /// Disconnects a client for which too much waits.
    pub(crate) fn limit_output(&mut self, slot: Slot) {
        let now = self.keyspace.instant();
        let Some(client) = self.clients.get(slot) else { return };
        let spilled = client.output_bytes().saturating_sub(OWN_BUFFER_BYTES);
        if spilled == 0 {
            client.soft_limit_at = None;
            return;
        }
        let OutputLimit { hard_bytes, soft_bytes, soft_secs } =
            self.output_limits[usize::from(client.is_subscriber())];
        let used = spilled.max(OWN_BUFFER_BYTES);
        client.soft_limit_at = match client.soft_limit_at {
            _ if soft_bytes == 0 || used < soft_bytes => None,
            None => Some(start_of_second(now, soft_secs + 1)),
            over => over,
        };
        let overdue_at = client.soft_limit_at;
        if hard_bytes != 0 && used >= hard_bytes || overdue_at.is_some_and(|at| at <= now) {
            self.kill(slot);
        } else if overdue_at.is_some() {
            self.check_clients_by(overdue_at);
        }
    }

    /// A client that has just come is looked after from now on.
    pub(super) fn await_idleness(&mut self, slot: Slot, now: Timestamp) {
        if self.config.number(TIMEOUT) == 0 {
            return;
        }
        let client = self.clients.take(slot);
        let at = self.overdue_at(&client, now);
        self.clients.put_back(client);
        self.check_clients_by(at);
    }

    /// Looks after clients by then, at the latest.
    fn check_clients_by(&mut self, at: Option<Timestamp>) {
        self.client_check_at = self.client_check_at.into_iter().chain(at).min();
        self.set_next_wake_up();
    }

    /// Disconnects clients that have been idle or have left messages unread for too long.
    pub(super) fn check_clients(&mut self, now: Timestamp) {
        let overdue =
            self.clients.others().into_iter().map(|client| (client.slot, self.overdue_at(client, now)));
        let overdue: Vec<(Slot, Option<Timestamp>)> = overdue.collect();
        self.client_check_at = None;
        for (slot, at) in overdue {
            match at {
                Some(at) if at <= now => self.kill(slot),
                at => self.client_check_at = self.client_check_at.into_iter().chain(at).min(),
            }
        }
    }

    /// When a client will have been idle for too long, unless it acts: `timeout`. Not while it waits or listens, but it may cease
    /// to.
    fn overdue_at(&self, client: &Client, now: Timestamp) -> Option<Timestamp> {
        let timeout_secs = self.config.number(TIMEOUT);
        let is_exempt = client.is_blocked || client.is_monitor || client.is_subscriber();
        let since = if is_exempt { now } else { client.active_at };
        let idle = (timeout_secs > 0 && client.closing == Closing::No)
            .then(|| start_of_second(since, timeout_secs + 1));
        idle.into_iter().chain(client.soft_limit_at).min()
    }
}

/// So many seconds after the second in which this instant lies has begun: Redis counts these in whole ones.
fn start_of_second(instant: Timestamp, secs: i64) -> Timestamp {
    let second = Timestamp::from_millis(instant.millis().div_euclid(1000) * 1000);
    second + Duration::from_secs(secs.unsigned_abs())
}
