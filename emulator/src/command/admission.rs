//! Commands that a server in trouble refuses.
//!
//! If memory is full, it refuses commands that need memory. If it has fewer replicas than it
//! should, or if it is a replica itself, it refuses writes. A replica without a link to its primary
//! may refuse everything.

use super::{Argv, Flag, Row, Table, borrow};
use crate::client::Client;
use crate::engine::Engine;
use crate::error::{self, Error};
use crate::script;

/// Commands that take no memory, and with which a transaction must be able to end.
const ENDS_OF_TRANSACTIONS: &[&str] = &["exec", "discard", "quit", "reset"];

/// Checks whether a command may run now.
///
/// # Errors
/// Redis's text, if it may not.
pub(super) fn check(
    table: &Table,
    engine: &mut Engine,
    client: &Client,
    row: &Row,
    argv: &Argv<'_>,
) -> Result<(), Error> {
    if engine.is_amid_script {
        // Commands allowed during a script take no memory, and `lacked_memory` still belongs to the
        // script.
        return Ok(());
    }
    engine.lacked_memory = engine.lacks_memory();
    let (lacks_replicas, is_read_only) = (engine.lacks_replicas(), engine.is_read_only());
    if !engine.lacked_memory && !lacks_replicas && !is_read_only {
        return Ok(());
    }
    let script_flags = script_flags(engine, row, argv);
    let queue = queue_to_run(table, client, row);
    let has = |flag: Flag| match &script_flags {
        Some(flags) => {
            !(flags.contains(&"no-writes") || flag == Flag::DenyOom && flags.contains(&"allow-oom"))
        }
        None => row.has(flag) || queue.iter().any(|row| row.has(flag)),
    };
    // Every queued command takes memory.
    let is_queued = client.transaction.is_some() && !ENDS_OF_TRANSACTIONS.contains(&row.name);
    if engine.lacked_memory && (is_queued || has(Flag::DenyOom)) {
        return Err(error::OOM);
    }
    if lacks_replicas && has(Flag::Write) {
        return Err(error::NOREPLICAS);
    }
    if is_read_only && has(Flag::Write) {
        return Err(error::READONLY);
    }
    // A script that declares its flags may do what they allow.
    engine.lacked_memory &= script_flags.is_none();
    Ok(())
}

/// Checks whether a command may show data that may be old.
///
/// # Errors
/// Redis's text, if it may not.
pub(super) fn check_age_of_data(
    table: &Table,
    engine: &Engine,
    client: &Client,
    row: &Row,
    argv: &Argv<'_>,
) -> Result<(), Error> {
    if !engine.hides_stale_data() {
        return Ok(());
    }
    let is_allowed = match script_flags(engine, row, argv) {
        Some(flags) => flags.contains(&"allow-stale"),
        // Redis takes a script without flags for one that needs data.
        None if matches!(row.name, "eval" | "eval_ro") => false,
        None if matches!(row.name, "evalsha" | "evalsha_ro") => {
            engine.peek_programs().0.lookup(argv[1]).is_none()
        }
        None => {
            row.has(Flag::Stale) && queue_to_run(table, client, row).iter().all(|row| row.has(Flag::Stale))
        }
    };
    if is_allowed { Ok(()) } else { Err(error::MASTERDOWN) }
}

/// The commands that `EXEC` will run.
fn queue_to_run(table: &Table, client: &Client, row: &Row) -> Vec<&'static Row> {
    let queue = client.transaction.iter().flat_map(|transaction| &transaction.queue);
    match row.name {
        "exec" => queue.filter_map(|argv| table.resolve(&borrow(argv)).ok()).collect(),
        _ => Vec::new(),
    }
}

/// Checks whether a script may call a command now. After its first write, a script is not refused
/// for lack of memory.
///
/// # Errors
/// Redis's text, if it may not.
pub(super) fn check_in_script(engine: &mut Engine, row: &Row) -> Result<(), Error> {
    let is_write = row.has(Flag::Write);
    if !row.has(Flag::Stale) && engine.hides_stale_data() {
        return Err(error::STALE_IN_SCRIPT);
    }
    if is_write && engine.is_read_only() {
        return Err(error::READONLY);
    }
    if is_write && engine.lacks_replicas() {
        return Err(error::NOREPLICAS);
    }
    if engine.lacked_memory && row.has(Flag::DenyOom) {
        return Err(error::OOM);
    }
    engine.lacked_memory &= !is_write;
    Ok(())
}

/// The flags that the called script or function declares. `None` if it declares none.
pub(super) fn script_flags(engine: &Engine, row: &Row, argv: &Argv<'_>) -> Option<Vec<&'static str>> {
    let (scripts, functions) = engine.peek_programs();
    match row.name {
        "eval" | "eval_ro" => script::flags(argv[1]),
        "evalsha" | "evalsha_ro" => script::flags(scripts.known().get(&scripts.lookup(argv[1])?)?),
        "fcall" | "fcall_ro" => {
            let (library, name) = functions.lookup(argv[1])?;
            Some(functions.libraries().get(library)?.functions.get(name)?.flags.clone())
        }
        _ => None,
    }
}
