//! Commands that a server in trouble refuses.
//!
//! If memory is full, it refuses commands that need memory. If it has fewer replicas than it
//! should, it refuses writes.

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
    let lacks_replicas = engine.lacks_replicas();
    if !engine.lacked_memory && !lacks_replicas {
        return Ok(());
    }
    let script_flags = script_flags(engine, row, argv);
    let queue = client.transaction.iter().flat_map(|transaction| &transaction.queue);
    let queue: Vec<&Row> = match row.name {
        "exec" => queue.filter_map(|argv| table.resolve(&borrow(argv)).ok()).collect(),
        _ => Vec::new(),
    };
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
    // A script that declares its flags may do what they allow.
    engine.lacked_memory &= script_flags.is_none();
    Ok(())
}

/// Checks whether a script may call a command now. After its first write, a script is not refused
/// for lack of memory.
///
/// # Errors
/// Redis's text, if it may not.
pub(super) fn check_in_script(engine: &mut Engine, row: &Row) -> Result<(), Error> {
    let is_write = row.has(Flag::Write);
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
fn script_flags(engine: &Engine, row: &Row, argv: &Argv<'_>) -> Option<Vec<&'static str>> {
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
