//! What a server in trouble refuses: what needs memory when that is full, and writes when it has fewer replicas than it should.

use super::{Argv, Flag, Row, borrow, resolve, scripting};
use crate::client::Client;
use crate::engine::Engine;
use crate::error::{self, Error};

/// Commands that take no memory, and that a transaction must be able to end with.
const ENDS_OF_TRANSACTIONS: &[&str] = &["exec", "discard", "quit", "reset"];

/// Whether a command may be called now.
///
/// # Errors
/// It may not.
pub(super) fn check(engine: &mut Engine, client: &Client, row: &Row, argv: &Argv<'_>) -> Result<(), Error> {
    if engine.is_amid_script {
        // Nothing is allowed that takes memory, and what was found holds for the script.
        return Ok(());
    }
    engine.lacked_memory = engine.lacks_memory();
    let lacks_replicas = engine.lacks_replicas();
    if !engine.lacked_memory && !lacks_replicas {
        return Ok(());
    }
    let script_flags = scripting::flags(engine, row, argv);
    let queue = client.transaction.iter().flat_map(|transaction| &transaction.queue);
    let queue: Vec<&Row> = match row.name {
        "exec" => queue.filter_map(|argv| resolve(&borrow(argv)).ok()).collect(),
        _ => Vec::new(),
    };
    let has = |flag: Flag| match &script_flags {
        Some(flags) => {
            !(flags.contains(&"no-writes") || flag == Flag::DenyOom && flags.contains(&"allow-oom"))
        }
        None => row.flags.contains(&flag) || queue.iter().any(|row| row.flags.contains(&flag)),
    };
    // Whatever is queued takes memory.
    let is_queued = client.transaction.is_some() && !ENDS_OF_TRANSACTIONS.contains(&row.name);
    if engine.lacked_memory && (is_queued || has(Flag::DenyOom)) {
        return Err(error::OOM);
    }
    if lacks_replicas && has(Flag::Write) {
        return Err(error::NOREPLICAS);
    }
    // A script that says what it does may do it.
    engine.lacked_memory &= script_flags.is_none();
    Ok(())
}

/// Whether a script may call a command now. Once it has written anything, it may go on.
///
/// # Errors
/// It may not.
pub(super) fn check_in_script(engine: &mut Engine, row: &Row) -> Result<(), Error> {
    let is_write = row.flags.contains(&Flag::Write);
    if is_write && engine.lacks_replicas() {
        return Err(error::NOREPLICAS);
    }
    if engine.lacked_memory && row.flags.contains(&Flag::DenyOom) {
        return Err(error::OOM);
    }
    engine.lacked_memory &= !is_write;
    Ok(())
}
