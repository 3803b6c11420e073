//! What the server counts, for `INFO`, `LATENCY HISTOGRAM` and `SLOWLOG`. Knows no command but by its name.

use std::collections::VecDeque;

use bytes::Bytes;
use indexmap::IndexMap;

use crate::clock::Timestamp;
use crate::error::Error;
use crate::keyspace::Hasher;

/// Most kinds of errors that are told apart. Scripts can make up as many as they like.
const ERRORS_LEN_MAX: usize = 128;

/// What has been counted since the server began, or since `CONFIG RESETSTAT`.
#[derive(Debug, Default)]
pub struct Stats {
    /// When the server began.
    pub began: Timestamp,
    /// Connections opened.
    pub connections: u64,
    /// Connections refused: there were as many as there may be.
    pub rejected_connections: u64,
    /// Somebody was told something of this, or of what clients do.
    pub were_told: bool,
    /// What came from connections and went to them, where it was bytes.
    pub net: Traffic,
    /// Commands that ran, those of scripts and transactions included.
    pub calls: u64,
    /// Errors answered.
    pub failures: u64,
    /// Those among them that others had while a script ran.
    failures_of_others: u64,
    /// The last commands that took long, the latest first.
    pub slow_log: VecDeque<Slow>,
    slow_logged: i64,
    /// By the address of the name, which is quicker to find than the name: that of a row of the command table is always the same.
    commands: IndexMap<usize, (&'static str, Calls), Hasher>,
    errors: IndexMap<Bytes, u64, Hasher>,
}

/// Bytes, and in how many pieces.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Bytes that came.
    pub input_bytes: u64,
    /// Bytes that went.
    pub output_bytes: u64,
    /// How often some came.
    pub reads: u64,
    /// How often some went.
    pub writes: u64,
}

/// What became of the calls of one command.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calls {
    /// It ran.
    pub calls: u64,
    /// It was refused before it ran.
    pub rejected: u64,
    /// It ran, and answered with an error.
    pub failed: u64,
}

/// A command that took long.
#[derive(Clone, Debug)]
pub struct Slow {
    /// Counted from 0.
    pub id: i64,
    /// When it began.
    pub began: Timestamp,
    /// How long it took, in microseconds.
    pub micros: i64,
    /// Its arguments, cut where they are long.
    pub argv: Vec<Bytes>,
    /// Of the client.
    pub address: String,
    /// Of the client.
    pub client_name: Bytes,
}

impl Stats {
    /// Of a server that begins now.
    pub fn new(began: Timestamp) -> Stats {
        Stats { began, ..Stats::default() }
    }

    /// Counts anew. The slow log stays.
    pub fn reset(&mut self) {
        (self.connections, self.rejected_connections, self.calls) = (0, 0, 0);
        (self.failures, self.failures_of_others) = (0, 0);
        self.net = Traffic::default();
        self.commands.clear();
        self.errors.clear();
    }

    /// A connection has taken and given so many bytes.
    pub fn count_traffic(&mut self, input_bytes: usize, output_bytes: usize) {
        self.net.input_bytes += input_bytes as u64;
        self.net.output_bytes += output_bytes as u64;
        self.net.reads += u64::from(input_bytes > 0);
        self.net.writes += u64::from(output_bytes > 0);
    }

    /// How many errors there have been, without those of others while a script ran.
    pub fn own_failures(&self) -> u64 {
        self.failures - self.failures_of_others
    }

    /// Something ran for another client while a script did, since when there have been more errors than these.
    pub fn served_another(&mut self, failures_before: u64) {
        self.failures_of_others += self.failures.saturating_sub(failures_before);
    }

    /// A command ran. An error of a command that it called itself is counted already, so the number of its own errors before is
    /// asked for.
    pub fn called(&mut self, name: &'static str, error: Option<&Error>, failures_before: u64) {
        self.calls += 1;
        let calls = self.calls_of(name);
        calls.calls += 1;
        calls.failed += u64::from(error.is_some());
        if let Some(error) = error.filter(|_| self.own_failures() == failures_before) {
            self.failed(error);
        }
    }

    /// A command was refused; without a name if there is no such command.
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

    /// Every command that was called, in the order of the first calls.
    pub fn commands(&self) -> impl Iterator<Item = (&'static str, &Calls)> {
        self.commands.values().map(|(name, calls)| (*name, calls))
    }

    /// One command, if it was called.
    pub fn command(&self, name: &str) -> Option<&Calls> {
        self.commands().find(|(own, _)| *own == name).map(|(_, calls)| calls)
    }

    /// Every error by its code, in order.
    pub fn errors(&self) -> Vec<(&Bytes, u64)> {
        let mut errors: Vec<_> = self.errors.iter().map(|(code, &count)| (code, count)).collect();
        errors.sort_unstable();
        errors
    }

    /// Adds to the slow log, which keeps so many.
    pub fn log_slow(&mut self, slow: Slow, len_max: usize) {
        let id = self.slow_logged;
        self.slow_logged += 1;
        self.slow_log.push_front(Slow { id, ..slow });
        self.slow_log.truncate(len_max);
    }
}

impl Slow {
    /// A command that took no time, as the log keeps it.
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
