//! The counters of the server, for `INFO`, `LATENCY HISTOGRAM` and `SLOWLOG`. Commands are known
//! only by their names.

use std::collections::VecDeque;

use bytes::Bytes;
use indexmap::IndexMap;

use crate::clock::Timestamp;
use crate::error::Error;
use crate::keyspace::Hasher;

/// The number of error codes that are counted separately. It is limited because scripts can make
/// any number of codes.
const ERRORS_LEN_MAX: usize = 128;

/// The counters since the server began, or since `CONFIG RESETSTAT`.
#[derive(Debug, Default)]
pub struct Stats {
    /// When the server began.
    pub began: Timestamp,
    /// Connections opened.
    pub connections: u64,
    /// Connections refused because of `maxclients`.
    pub rejected_connections: u64,
    /// A client has read these counters, the state of other clients, or the number of its
    /// connection.
    pub were_read: bool,
    /// The bytes received from connections and sent to them, if a connection has bytes.
    pub net: Traffic,
    /// Commands that ran, including those of scripts and transactions.
    pub calls: u64,
    /// Errors returned.
    pub failures: u64,
    /// Errors that other clients got while a script ran. They are part of `failures`.
    failures_of_others: u64,
    /// The last slow commands, the latest first.
    pub slow_log: VecDeque<Slow>,
    slow_logged: i64,
    /// The key is the address of the name, which is faster to find than the name. The name of a row
    /// always has the same address.
    commands: IndexMap<usize, (&'static str, Calls), Hasher>,
    errors: IndexMap<Bytes, u64, Hasher>,
}

/// Bytes, and the number of reads and writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Bytes received.
    pub input_bytes: u64,
    /// Bytes sent.
    pub output_bytes: u64,
    /// How often bytes were received.
    pub reads: u64,
    /// How often bytes were sent.
    pub writes: u64,
}

/// The calls of one command, by their result.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calls {
    /// Calls that ran.
    pub calls: u64,
    /// Calls that were refused before they ran.
    pub rejected: u64,
    /// Calls that ran and returned an error.
    pub failed: u64,
}

/// A command that ran for long.
#[derive(Clone, Debug)]
pub struct Slow {
    /// The number of the entry, from 0.
    pub id: i64,
    /// When it began.
    pub began: Timestamp,
    /// How long it took, in microseconds.
    pub micros: i64,
    /// Its arguments. Long ones are cut.
    pub argv: Vec<Bytes>,
    /// The address of the client.
    pub address: String,
    /// The name of the client.
    pub client_name: Bytes,
}

impl Stats {
    /// Creates the counters of a server that begins now.
    pub fn new(began: Timestamp) -> Stats {
        Stats { began, ..Stats::default() }
    }

    /// Sets the counters to zero. The slow log stays.
    pub fn reset(&mut self) {
        (self.connections, self.rejected_connections, self.calls) = (0, 0, 0);
        (self.failures, self.failures_of_others) = (0, 0);
        self.net = Traffic::default();
        self.commands.clear();
        self.errors.clear();
    }

    /// Counts the bytes that a connection has received and sent.
    pub fn count_traffic(&mut self, input_bytes: usize, output_bytes: usize) {
        self.net.input_bytes += input_bytes as u64;
        self.net.output_bytes += output_bytes as u64;
        self.net.reads += u64::from(input_bytes > 0);
        self.net.writes += u64::from(output_bytes > 0);
    }

    /// The number of errors, without those of other clients while a script ran.
    pub fn own_failures(&self) -> u64 {
        self.failures - self.failures_of_others
    }

    /// Notes that a job of another client has run during a script. `failures_before` is the number
    /// of errors before the job.
    pub fn served_another(&mut self, failures_before: u64) {
        self.failures_of_others += self.failures.saturating_sub(failures_before);
    }

    /// Counts a call that ran.
    ///
    /// If the command called others, their errors are counted already. So it takes
    /// `failures_before`, the value of `own_failures` before the call.
    pub fn called(&mut self, name: &'static str, error: Option<&Error>, failures_before: u64) {
        self.calls += 1;
        let calls = self.calls_of(name);
        calls.calls += 1;
        calls.failed += u64::from(error.is_some());
        if let Some(error) = error.filter(|_| self.own_failures() == failures_before) {
            self.failed(error);
        }
    }

    /// Counts a refused call. The name is `None` if there is no such command.
    pub fn rejected(&mut self, name: Option<&'static str>, error: &Error) {
        if let Some(name) = name {
            self.calls_of(name).rejected += 1;
        }
        self.failed(error);
    }

    fn calls_of(&mut self, name: &'static str) -> &mut Calls {
        &mut self.commands.entry(name.as_ptr().addr()).or_insert((name, Calls::default())).1
    }

    fn failed(&mut self, error: &Error) {
        self.failures += 1;
        let code = error.code();
        if let Some(count) = self.errors.get_mut(code) {
            *count += 1;
        } else if self.errors.len() < ERRORS_LEN_MAX {
            self.errors.insert(Bytes::copy_from_slice(code), 1);
        }
    }

    /// Iterates over every called command, sorted by name. The order of the calls must not be seen:
    /// calls of two clients do not depend on each other.
    pub fn commands(&self) -> impl Iterator<Item = (&'static str, &Calls)> {
        let mut commands: Vec<_> = self.commands.values().map(|(name, calls)| (*name, calls)).collect();
        commands.sort_unstable_by_key(|(name, _)| *name);
        commands.into_iter()
    }

    /// Returns the calls of one command, if it was called.
    pub fn command(&self, name: &str) -> Option<&Calls> {
        self.commands.values().find(|(own, _)| *own == name).map(|(_, calls)| calls)
    }

    /// Returns the number of each error code, sorted by code.
    pub fn errors(&self) -> Vec<(&Bytes, u64)> {
        let mut errors: Vec<_> = self.errors.iter().map(|(code, &count)| (code, count)).collect();
        errors.sort_unstable();
        errors
    }

    /// Adds an entry to the slow log, which keeps at most `len_max`.
    pub fn log_slow(&mut self, slow: Slow, len_max: usize) {
        let id = self.slow_logged;
        self.slow_logged += 1;
        self.slow_log.push_front(Slow { id, ..slow });
        self.slow_log.truncate(len_max);
    }
}

impl Slow {
    /// An entry for a command that took no time.
    pub fn new(began: Timestamp, argv: &[&[u8]], address: String, client_name: Bytes) -> Slow {
        const ARGS_LEN_MAX: usize = 32;
        const ARG_BYTES_MAX: usize = 128;
        let shown = if argv.len() > ARGS_LEN_MAX { ARGS_LEN_MAX - 1 } else { argv.len() };
        let mut args: Vec<Bytes> = argv[..shown]
            .iter()
            .map(|arg| match arg.len().checked_sub(ARG_BYTES_MAX) {
                Some(more) if more > 0 => {
                    [&arg[..ARG_BYTES_MAX], format!("... ({more} more bytes)").as_bytes()].concat().into()
                }
                _ => Bytes::copy_from_slice(arg),
            })
            .collect();
        if shown < argv.len() {
            args.push(format!("... ({} more arguments)", argv.len() - shown).into());
        }
        Slow { id: 0, began, micros: 0, argv: args, address, client_name }
    }
}
