//! The command table, and the one path that every command takes.
//!
//! A command is a row and a function, next to each other in the file of its group.
//!
//! Everything that follows from the row is derived from it. Examples are arity errors, queueing
//! under `MULTI`, refusal in scripts, keys, `COMMAND`'s output and the list in the README. A
//! function finds its arguments counted, and checks only what the row cannot express.

mod key_spec;
mod row;
mod table;
mod scan;
mod pick;

mod docs;
mod blocking;
mod multi_pop;
mod busy;
mod cluster;
mod connection;
mod emulator;
mod fault;
mod admission;
mod monitor;
mod generic;
mod hash;
mod list;
mod pubsub;
mod scripting;
mod server;
mod set;
mod sorted_set;
mod string;
mod transactions;

pub use key_spec::{FindKeys, KeySpec};
pub use row::{Flag, Row};
pub use table::Group;
use table::{Table, resolve_under, subcommand};

use std::ops::{Range, RangeInclusive};
use std::sync::LazyLock;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::client::{CallContext, Client, ClientId, Closing, Slot};
use crate::engine::{Commands, Engine};
use crate::error::{self, Error};
use crate::keyspace::Db;
use crate::reply::Reply;
use crate::resp::Protocol;
use crate::script::{Rules, ScriptCall};

/// The arguments of a command, its name first.
pub type Argv<'a> = [&'a [u8]];

/// The result of a command function. Most errors are returned by `?`.
pub(crate) type Outcome = Result<Reply, Error>;

/// The context in which a command runs.
pub(crate) struct Ctx<'a> {
    /// The server.
    pub engine: &'a mut Box<Engine>,
    /// The client that called.
    pub client: &'a mut Box<Client>,
    /// The row of this command.
    pub row: &'static Row,
    /// The table, for commands that find or run others.
    pub table: &'static Table,
}

impl Ctx<'_> {
    /// The client's selected database.
    pub fn db(&mut self) -> Db<'_> {
        let db = self.engine.keyspace.db(self.client.db);
        if self.row.has(Flag::ReadOnly) { db.reading() } else { db }
    }

    /// The number of the client's connection. No snapshot has it.
    pub(crate) fn read_id(&mut self) -> ClientId {
        self.engine.stats.were_read = true;
        self.client.id
    }

    /// The client's selected database, for a command that reads more than single keys.
    pub fn whole_db(&mut self) -> Db<'_> {
        self.engine.keyspace.expire_rest();
        self.db()
    }

    /// Parses an argument that is the index of a database.
    pub(crate) fn database(&self, arg: &[u8]) -> Result<usize, Error> {
        let index = i32::try_from(integer(arg)?).map_err(|_| error::DB_NOT_AN_INT)?;
        let index = usize::try_from(index).ok().filter(|&index| index < self.engine.keyspace.databases());
        index.ok_or(error::DB_OUT_OF_RANGE)
    }
}

/// Every command, by group.
pub const GROUPS: &[Group] = &[
    Group { name: "cluster", category: None, rows: cluster::ROWS },
    Group { name: "connection", category: Some("connection"), rows: connection::ROWS },
    Group { name: "generic", category: Some("keyspace"), rows: generic::ROWS },
    Group { name: "hash", category: Some("hash"), rows: hash::ROWS },
    Group { name: "list", category: Some("list"), rows: list::ROWS },
    Group { name: "pubsub", category: Some("pubsub"), rows: pubsub::ROWS },
    Group { name: "scripting", category: Some("scripting"), rows: scripting::ROWS },
    Group { name: "server", category: None, rows: server::ROWS },
    Group { name: "set", category: Some("set"), rows: set::ROWS },
    Group { name: "sorted-set", category: Some("sortedset"), rows: sorted_set::ROWS },
    Group { name: "string", category: Some("string"), rows: string::ROWS },
    Group { name: "transactions", category: Some("transaction"), rows: transactions::ROWS },
];

/// Commands that write nothing but are sent to replicas. In a read-only script they count as
/// writes.
const REPLICATED_READS: &[&str] = &["publish", "spublish"];

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::new(GROUPS));

/// Returns the row of a command by its name, in any case.
pub fn lookup(name: &[u8]) -> Option<(&'static Row, &'static Group)> {
    TABLE.lookup(name)
}

/// Checks the name of a command or of a subcommand such as `client|id`.
///
/// # Errors
/// There is no such command.
pub(crate) fn expect_known(name: &str) -> Result<(), Error> {
    TABLE.expect_known(name)
}

/// Runs one command of a client and returns the reply. No other path runs one.
///
/// The caller holds the engine, so no other command can come between. If the client now waits for
/// its reply, this returns [`Reply::NOTHING`], and the reply comes later as a message. Messages
/// that come before the reply are in the client's queue.
pub(crate) fn call(engine: &mut Box<Engine>, slot: Slot, argv: &Argv<'_>) -> Reply {
    if engine.is_amid_script {
        return busy::call(&TABLE, engine, slot, argv);
    }
    engine.execution(Some(slot), |engine| {
        let mut client = engine.clients.take(slot);
        if client.closing == Closing::Now {
            // It was disconnected because it was idle for too long.
            engine.clients.put_back(client);
            return Reply::NOTHING;
        }
        client.active_at = engine.keyspace.instant();
        if client.is_subscriber() {
            engine.use_connection();
        }
        let reply = match engine.faults.is_empty() {
            true => perform(&TABLE, engine, &mut client, argv),
            false => fault::perform_under_faults(&TABLE, engine, &mut client, argv),
        };
        let reply = engine.post(&mut client, reply);
        engine.clients.put_back(client);
        reply
    })
}

/// Refuses, delays, queues or runs one command.
fn perform(
    table: &'static Table,
    engine: &mut Box<Engine>,
    client: &mut Box<Client>,
    argv: &Argv<'_>,
) -> Reply {
    let row = match admit(table, engine, client, argv) {
        Ok(row) => row,
        Err(_) if HTTP_WORDS.iter().any(|word| is_word(argv[0], word)) => {
            client.close(Closing::Now);
            return Reply::NOTHING;
        }
        Err(error) => {
            let error = transactions::refuse(engine, client, argv, error);
            engine.stats.rejected(table.named(argv), &error);
            return Reply::Error(error);
        }
    };
    if blocking::is_paused(table, engine, client, row) && !is_control(engine, argv) {
        return blocking::hold_back(table, engine, client, argv, None);
    }
    if client.transaction.is_some() && !transactions::runs_at_once(row) {
        return transactions::queue(client, row, argv);
    }
    run(table, engine, client, row, argv)
}

/// Words at the beginning of lines of an HTTP request, which are no commands.
///
/// Redis closes such a connection without a reply, so that no web page can send it commands.
const HTTP_WORDS: [&str; 2] = ["post", "host:"];

/// Checks whether a command may be called at all, in Redis's order.
fn admit(
    table: &Table,
    engine: &mut Engine,
    client: &Client,
    argv: &Argv<'_>,
) -> Result<&'static Row, Error> {
    let is_control = is_control(engine, argv);
    let row = if is_control { resolve_under(&emulator::ROW, argv) } else { table.resolve(argv) }?;
    if row.is_protected && !engine.allows_debug(client) {
        return Err(error::DEBUG_NOT_ALLOWED);
    }
    if engine.must_authenticate(client) && !row.has(Flag::NoAuth) {
        return Err(error::NO_AUTH);
    }
    if client.transaction.is_some() && row.has(Flag::NoMulti) {
        return Err(error::NOT_IN_MULTI);
    }
    admission::check(table, engine, client, row, argv)?;
    if client.protocol == Protocol::Resp2 && client.is_subscriber() && !pubsub::is_allowed(row) {
        return Err(error::only_pubsub(row.name));
    }
    if client.is_monitor && (row.has(Flag::ReadOnly) || blocking::may_write(row)) {
        return Err(error::REPLICA);
    }
    if engine.is_amid_script
        && !row.has(Flag::AllowBusy)
        && let Some(refusal) = engine.busy.refusal()
    {
        return Err(refusal);
    }
    Ok(row)
}

/// Whether the command is `EMULATOR`, and that is allowed.
fn is_control(engine: &Engine, argv: &Argv<'_>) -> bool {
    engine.control.is_some() && is_word(argv[0], emulator::ROW.name)
}

impl Commands for Table {
    fn call(
        &'static self,
        engine: &mut Box<Engine>,
        client: &mut Box<Client>,
        argv: &[&[u8]],
        rules: Rules,
    ) -> Reply {
        call_from_script(self, engine, client, argv, rules)
    }

    fn knows(&self, argv: &[&[u8]]) -> bool {
        self.is_known(argv)
    }
}

/// Runs one command that a script calls, inside the execution of the script.
fn call_from_script(
    table: &'static Table,
    engine: &mut Box<Engine>,
    client: &mut Box<Client>,
    argv: &Argv<'_>,
    rules: Rules,
) -> Reply {
    let reply = match admit_in_script(table, engine, client, argv, rules) {
        Ok(row) => run(table, engine, client, row, argv),
        Err(error) => {
            engine.stats.rejected(table.named(argv), &error);
            Reply::Error(error)
        }
    };
    if let Some(calls) = &mut engine.script_calls {
        let argv = argv.iter().map(|arg| Bytes::copy_from_slice(arg)).collect();
        calls.push(ScriptCall { argv, reply: reply.clone() });
    }
    reply
}

/// Checks whether a script may call a command, in Redis's order.
fn admit_in_script(
    table: &Table,
    engine: &mut Engine,
    client: &Client,
    argv: &Argv<'_>,
    rules: Rules,
) -> Result<&'static Row, Error> {
    let row = table.resolve(argv).map_err(|_| {
        Error::from_static(if table.is_known(argv) {
            "ERR Wrong number of args calling Redis command from script"
        } else {
            "ERR Unknown Redis command called from script"
        })
    })?;
    if row.has(Flag::NoScript) {
        return Err(Error::from_static("ERR This Redis command is not allowed from script"));
    }
    let is_write = row.has(Flag::Write) || REPLICATED_READS.contains(&row.name);
    if rules.is_read_only && is_write {
        return Err(error::READ_ONLY_SCRIPT);
    }
    admission::check_in_script(engine, row)?;
    if client.may_be_busy && row.has(Flag::Write) {
        engine.busy.write()?;
    }
    Ok(row)
}

pub(crate) fn run(
    table: &'static Table,
    engine: &mut Box<Engine>,
    client: &mut Box<Client>,
    row: &'static Row,
    argv: &Argv<'_>,
) -> Reply {
    client.last_command = row.name;
    engine.stats.were_read |= row.reads_counters;
    // Every command changes the counters, and `DEBUG` may read or change anything.
    if row.reads_counters || row.is_protected {
        engine.concern_all();
    }
    let failures = engine.stats.own_failures();
    let is_script = row.has(Flag::SkipMonitor);
    if is_script {
        // A script is shown before the commands that it calls.
        monitor::feed_monitors(engine, client, row, argv);
    }
    let reply = (row.run)(&mut Ctx { engine, client, row, table }, argv).into();
    if may_take_long(row) {
        engine.end_requests();
    }
    engine.invalidate(client);
    engine.trim_footprint();
    connection::remember(engine, client, row, argv);
    // The events of a script are published before its reply is sent.
    engine.publish_events((client.context != CallContext::InScript).then_some(client.slot));
    let error = if let Reply::Error(error) = &reply { Some(error) } else { None };
    engine.stats.called(row.name, error, failures);
    if !client.is_blocked {
        monitor::log_slow(engine, client, row, argv);
    }
    if !is_script {
        monitor::feed_monitors(engine, client, row, argv);
    }
    reply
}

/// Whether a command may take so long that the next one needs a new reading of the clock.
///
/// `SET` has no flag `Fast`, because the old value may be large. A script has the flag
/// `SkipMonitor`. Its slow commands end the use of the reading, and so do many steps in Lua.
fn may_take_long(row: &Row) -> bool {
    !row.has(Flag::Fast) && !row.has(Flag::SkipMonitor) && row.name != "set"
}

/// Borrows owned arguments as [`Argv`].
pub(crate) fn borrow(argv: &[Bytes]) -> SmallVec<[&[u8]; 8]> {
    argv.iter().map(AsRef::as_ref).collect()
}

/// Parses an argument that is a 64-bit integer.
pub(crate) fn integer(arg: &[u8]) -> Result<i64, Error> {
    crate::parse::parse_integer(arg).ok_or(error::NOT_AN_INTEGER)
}

/// Parses an argument that is an integer within these bounds. Otherwise it returns this error.
pub(crate) fn integer_within(arg: &[u8], bounds: RangeInclusive<i64>, error: Error) -> Result<i64, Error> {
    crate::parse::parse_integer(arg).filter(|integer| bounds.contains(integer)).ok_or(error)
}

/// Parses an argument that is a count: 0 or more.
pub(crate) fn count(arg: &[u8]) -> Result<usize, Error> {
    integer_within(arg, 0..=i64::MAX, error::NOT_POSITIVE).map(|count| count as usize)
}

/// Returns the part of the places from `first` to `last`, both included, that exists in a value of
/// this length. A negative place counts from the end.
pub(crate) fn index_range(first: i64, last: i64, len: usize) -> Range<usize> {
    let len = len as i64;
    let from_front = |index: i64| if index < 0 { index + len } else { index };
    let (first, last) = (from_front(first).max(0), from_front(last).min(len - 1));
    if first > last { 0..0 } else { first as usize..last as usize + 1 }
}

/// A reply of pairs: a flat array in RESP2, an array of arrays in RESP3.
pub(crate) fn pairs(protocol: Protocol, pairs: impl Iterator<Item = (Reply, Reply)>) -> Reply {
    Reply::Array(match protocol {
        Protocol::Resp2 => pairs.flat_map(<[Reply; 2]>::from).collect(),
        Protocol::Resp3 => pairs.map(|(first, second)| Reply::Array(vec![first, second])).collect(),
    })
}

/// Whether an argument is this word, in any case.
pub(crate) fn is_word(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_lower_case_and_short() {
        let mut seen = std::collections::BTreeSet::new();
        for row in GROUPS.iter().flat_map(|group| group.rows) {
            assert!(seen.insert(row.name), "{} stands twice in the table", row.name);
            assert!(row.name.len() <= table::NAME_BYTES_MAX, "{} is longer than NAME_BYTES_MAX", row.name);
            for sub in row.subcommands {
                assert!(
                    sub.name.starts_with(&format!("{}|", row.name)),
                    "{} is under {}",
                    sub.name,
                    row.name
                );
            }
        }
        assert!(seen.iter().all(|name| *name == name.to_lowercase()));
    }
}
