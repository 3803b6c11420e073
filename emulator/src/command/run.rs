//! Runs the function of a row, for a client or for a script, and does what follows each command.

use bytes::Bytes;

use super::argv::Argv;
use super::flag::Flag;
use super::row::{Ctx, Row, Table};
use super::{admission, connection, missing, monitor, redirection};
use crate::client::{CallContext, Client};
use crate::engine::{Commands, Engine};
use crate::error::{self, Error};
use crate::reply::Reply;
use crate::script::{Rules, ScriptCall};

/// Runs one command that may run.
pub(super) fn run(
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
    let changes = engine.footprint().changes();
    engine.outgoing.begin_command();
    let reply = (row.run)(&mut Ctx { engine, client, row, table }, argv).into();
    engine.note_effect(client.db, argv, row.has(Flag::Write).then_some(changes));
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

/// Notes that a command was refused before it ran.
pub(super) fn note_rejected(table: &Table, engine: &mut Engine, argv: &Argv<'_>, error: &Error) {
    missing::log(engine, argv[0], error);
    engine.stats.rejected(table.named(argv), error);
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
        Ok(row) => {
            engine.outgoing.is_muted = rules.spares_replicas;
            let reply = run(table, engine, client, row, argv);
            engine.outgoing.is_muted = false;
            reply
        }
        Err(error) => {
            note_rejected(table, engine, argv, &error);
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
    client: &mut Client,
    argv: &Argv<'_>,
    rules: Rules,
) -> Result<&'static Row, Error> {
    let row = table.resolve(argv).map_err(|error| match table.is_known(argv) {
        true => Error::from_static("ERR Wrong number of args calling Redis command from script"),
        false if missing::group_of(argv[0], false).is_some() => error,
        false => Error::from_static("ERR Unknown Redis command called from script"),
    })?;
    if row.has(Flag::NoScript) {
        return Err(Error::from_static("ERR This Redis command is not allowed from script"));
    }
    let is_write = row.has(Flag::Write) || REPLICATED_READS.contains(&row.name);
    if rules.is_read_only && is_write {
        return Err(error::READ_ONLY_SCRIPT);
    }
    admission::check_in_script(engine, row)?;
    redirection::check_in_script(engine, client, row, argv)?;
    if client.may_be_busy && row.has(Flag::Write) {
        engine.busy.write()?;
    }
    Ok(row)
}

/// Commands that write nothing but are sent to replicas. In a read-only script they count as
/// writes.
const REPLICATED_READS: &[&str] = &["publish", "spublish"];
