//! The command table, and the one path that every command takes.
//!
//! A command is a row and a function, next to each other in the file of its group.
//!
//! Everything that follows from the row is derived from it. Examples are arity errors, queueing
//! under `MULTI`, refusal in scripts, keys, `COMMAND`'s output and the list in the README. A
//! function finds its arguments counted, and checks only what the row cannot express.

mod argv;
mod key_spec;
mod flag;
mod row;
mod missing;
mod table;
mod docs;
mod scan;
mod pick;
mod monitor;
mod blocking;
mod multi_pop;
mod apply;

mod cluster;
mod connection;
mod emulator;
mod hash;
mod list;
mod pubsub;
mod server;
mod set;
mod sorted_set;
mod generic;
mod string;

mod admission;
mod redirection;
mod run;
mod transactions;
mod scripting;
mod sentinel;
mod perform;
mod fault;
mod busy;
mod replicate;

use std::sync::LazyLock;

use crate::client::{Closing, Slot};
use crate::engine::Engine;
use crate::error::Error;
use crate::reply::Reply;

pub use argv::Argv;
pub(crate) use argv::borrow;
use argv::{count, index_range, integer, integer_within, is_word, own};
pub use flag::Flag;
pub use key_spec::{FindKeys, KeySpec};
use perform::perform;
pub(crate) use replicate::{catch_up, receive, take_over};
use row::{Ctx, Outcome, Table};
pub use row::{Group, Row, Servers};
use table::subcommand;

/// Every command, by group.
pub const GROUPS: &[Group] = &[
    Group { name: "cluster", category: None, rows: cluster::ROWS },
    Group { name: "connection", category: Some("connection"), rows: connection::ROWS },
    Group { name: "generic", category: Some("keyspace"), rows: generic::ROWS },
    Group { name: "hash", category: Some("hash"), rows: hash::ROWS },
    Group { name: "list", category: Some("list"), rows: list::ROWS },
    Group { name: "pubsub", category: Some("pubsub"), rows: pubsub::ROWS },
    Group { name: "scripting", category: Some("scripting"), rows: scripting::ROWS },
    Group { name: "sentinel", category: None, rows: sentinel::ROWS },
    Group { name: "server", category: None, rows: server::ROWS },
    Group { name: "set", category: Some("set"), rows: set::ROWS },
    Group { name: "sorted-set", category: Some("sortedset"), rows: sorted_set::ROWS },
    Group { name: "string", category: Some("string"), rows: string::ROWS },
    Group { name: "transactions", category: Some("transaction"), rows: transactions::ROWS },
];

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::new(GROUPS, false));
static TABLE_OF_SENTINELS: LazyLock<Table> = LazyLock::new(|| Table::new(GROUPS, true));

/// Returns the row of a command of a server with data, by its name in any case.
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
        let table = if engine.sentinel.is_some() { &TABLE_OF_SENTINELS } else { &TABLE };
        let reply = match engine.faults.is_empty() {
            true => perform(table, engine, &mut client, argv),
            false => fault::perform_under_faults(table, engine, &mut client, argv),
        };
        client.asking = client.asking.next(client.transaction.is_some());
        engine.end_unit();
        engine.note_offset(&mut client);
        let reply = engine.post(&mut client, reply);
        engine.clients.put_back(client);
        reply
    })
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
