//! The effects of settings on the whole server: stored copies of settings, the limit of memory, and
//! the clients to be disconnected.

use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;

use super::output_limit::OutputLimit;
use super::state::Engine;
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
const TIMEOUT: Id = Id::of("timeout");

/// The unread bytes that no limit counts. Redis keeps them in a buffer of the client. It puts
/// further bytes into blocks of at least this size.
const OWN_BUFFER_BYTES: usize = 16 * 1024;

impl Engine {
    /// Copies settings to the places that keep their own copies. All other settings are read when
    /// they are needed.
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

    /// Checks clients at once, if `timeout` is set.
    pub(super) fn check_clients_from_now(&mut self) {
        if self.config.number(TIMEOUT) != 0 {
            self.client_check_at = Some(self.keyspace.instant());
        }
    }

    /// Whether a client must send the password first.
    ///
    /// If the server has no password, no client must. If a client did not give an earlier password,
    /// it must give the next one.
    pub(crate) fn must_authenticate(&self, client: &Client) -> bool {
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
        let data = self.keyspace.bytes();
        let clients = self.clients.len() * size_of::<Client>();
        (size_of::<Engine>() + clients + self.scripts_memory() + data, data)
    }

    /// How many bytes the sources of scripts and libraries take.
    pub(crate) fn scripts_memory(&self) -> usize {
        self.scripts.source_bytes() + self.functions.code_bytes()
    }

    /// Whether the server uses more memory than `maxmemory`. If so, commands that may need more are
    /// refused.
    ///
    /// The emulator never evicts keys. With a policy other than `noeviction` there is no limit.
    pub(crate) fn lacks_memory(&mut self) -> bool {
        let limit = self.config.size(MAXMEMORY);
        // A replica takes what its primary has (`replica-ignore-maxmemory`).
        if self.replication.upstream.is_some() {
            return false;
        }
        if limit == 0 || self.config.text(MAXMEMORY_POLICY) != "noeviction" || self.memory().0 <= limit {
            return false;
        }
        // Keys that are already due take no memory that a command could lack.
        self.keyspace.expire_rest();
        self.memory().0 > limit
    }

    /// Sends a line to the hook of the log, if `loglevel` includes its level.
    pub(crate) fn log(&self, level: LogLevel, text: Bytes) {
        if let Some(hook) = self.on_log.as_ref().and_then(Weak::upgrade)
            && level >= LogLevel::of_setting(self.config.text(LOGLEVEL))
        {
            hook(&LogLine { at: self.keyspace.instant(), level, text });
        }
    }

    /// The error for a new client if the limit of clients is reached.
    pub(super) fn crowd(&self) -> Option<Error> {
        (self.clients.len() >= self.config.size(MAXCLIENTS)).then_some(error::MAX_CLIENTS)
    }

    /// Sends a message to a client. If the client has left too much unread, it is disconnected.
    pub(crate) fn deliver_to(&mut self, slot: Slot, message: Reply) {
        let Some(client) = self.clients.get(slot) else { return };
        client.send(message);
        self.limit_output(slot);
    }

    /// Records how many bytes the connection of a client has not written yet.
    pub(crate) fn set_unwritten(&mut self, slot: Slot, bytes: usize) {
        let client = self.client(slot);
        client.unwritten_bytes = bytes;
        if client.soft_limit_at.is_some() {
            self.limit_output(slot);
        }
    }

    /// Disconnects a client that has too much unread output.
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

    /// Includes a new client in the check of the clients, if `timeout` is set.
    pub(super) fn await_idleness(&mut self, slot: Slot, now: Timestamp) {
        if self.config.number(TIMEOUT) == 0 {
            return;
        }
        let client = self.clients.take(slot);
        let at = self.overdue_at(&client, now);
        self.clients.put_back(client);
        self.check_clients_by(at);
    }

    /// Checks the clients at this time or earlier.
    fn check_clients_by(&mut self, at: Option<Timestamp>) {
        self.client_check_at = self.client_check_at.into_iter().chain(at).min();
        self.set_next_wake_up();
    }

    /// Disconnects clients that have been idle, or have left messages unread, for too long.
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

    /// When a client is to be disconnected unless it acts before: after `timeout`, or after too
    /// long above the soft limit of unread output.
    ///
    /// Blocked clients, subscribers and monitors are not idle. They are checked again later,
    /// because their state may change.
    fn overdue_at(&self, client: &Client, now: Timestamp) -> Option<Timestamp> {
        let timeout_secs = self.config.number(TIMEOUT);
        let is_exempt = client.is_blocked || client.is_monitor || client.is_subscriber();
        let since = if is_exempt { now } else { client.active_at };
        let idle = (timeout_secs > 0 && client.closing == Closing::No)
            .then(|| start_of_second(since, timeout_secs + 1));
        idle.into_iter().chain(client.soft_limit_at).min()
    }
}

/// The start of the second of this instant, plus so many seconds. Redis counts these limits in
/// whole seconds.
fn start_of_second(instant: Timestamp, secs: i64) -> Timestamp {
    let second = Timestamp::from_millis(instant.millis().div_euclid(1000) * 1000);
    second + Duration::from_secs(secs.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use crate::Emulator;

    #[test]
    fn the_bytes_of_scripts_are_the_sums_over_all() {
        const LIBRARY: &[u8] = b"#!lua name=a\nredis.register_function('f', function() end)";
        const LONGER: &[u8] = b"#!lua name=a\nredis.register_function('longer', function() end)";
        const BROKEN: &[u8] = b"#!lua name=b\nredis.register_function('longer', function() end)";
        let emulator = Emulator::default();
        let mut connection = emulator.connection();
        let mut check = |argv: &[&[u8]]| {
            connection.execute(argv);
            let engine = emulator.shared.engine();
            let scripts = engine.scripts.known().values().map(bytes::Bytes::len);
            let libraries = engine.functions.libraries().values().map(|library| library.code.len());
            assert_eq!(engine.scripts_memory(), scripts.chain(libraries).sum::<usize>());
            engine.scripts_memory()
        };
        let two = check(&[b"SCRIPT", b"LOAD", b"return 1"]) + LIBRARY.len();
        assert_eq!(check(&[b"FUNCTION", b"LOAD", LIBRARY]), two);
        assert_eq!(check(&[b"EVAL", b"return 1", b"0"]), two);
        check(&[b"FUNCTION", b"LOAD", b"REPLACE", LONGER]);
        check(&[b"FUNCTION", b"LOAD", BROKEN]);
        check(&[b"EVAL", b"return 2", b"0"]);
        let snapshot = emulator.snapshot();
        assert_eq!(check(&[b"FUNCTION", b"DELETE", b"a"]), 2 * b"return 1".len());
        assert_eq!(check(&[b"SCRIPT", b"FLUSH"]), 0);
        emulator.restore(&snapshot);
        assert_eq!(check(&[b"PING"]), LONGER.len() + 2 * b"return 1".len());
    }
}
