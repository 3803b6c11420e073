//! Decides what becomes of a command: it is refused, delayed, queued, or run.

use std::sync::Arc;

use super::argv::{Argv, borrow, is_word, own};
use super::flag::Flag;
use super::row::{Row, Table};
use super::run::{note_rejected, run};
use super::table::resolve_under;
use super::transactions::Refusal;
use super::{admission, emulator, pubsub, redirection, transactions};
use crate::client::{Client, Closing};
use crate::clock::Timestamp;
use crate::engine::{Blocked, Engine, PauseMode, Until};
use crate::error;
use crate::reply::Reply;
use crate::resp::Protocol;

/// Refuses, delays, queues or runs one command.
pub(super) fn perform(
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
        Err(refusal) => {
            let error = transactions::refuse(engine, client, argv, refusal);
            note_rejected(table, engine, argv, &error);
            return Reply::Error(error);
        }
    };
    if is_paused(table, engine, client, row, argv) && !is_control(engine, argv) {
        return hold_back(table, engine, client, argv, None);
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
    client: &mut Client,
    argv: &Argv<'_>,
) -> Result<&'static Row, Refusal> {
    let is_control = is_control(engine, argv);
    let row = if is_control { resolve_under(&emulator::ROW, argv) } else { table.resolve(argv) }?;
    if row.is_protected && !engine.allows_debug(client) {
        return Err(error::DEBUG_NOT_ALLOWED.into());
    }
    if engine.must_authenticate(client) && !row.has(Flag::NoAuth) {
        return Err(error::NO_AUTH.into());
    }
    if client.transaction.is_some() && row.has(Flag::NoMulti) {
        return Err(error::NOT_IN_MULTI.into());
    }
    redirection::check(table, engine, client, row, argv).map_err(Refusal::Redirection)?;
    admission::check(table, engine, client, row, argv)?;
    if client.protocol == Protocol::Resp2 && client.is_subscriber() && !pubsub::is_allowed(row) {
        return Err(error::only_pubsub(row.name).into());
    }
    admission::check_age_of_data(table, engine, client, row, argv)?;
    if client.is_monitor && (row.has(Flag::ReadOnly) || may_write(engine, row, argv)) {
        return Err(error::REPLICA.into());
    }
    if engine.is_amid_script
        && !row.has(Flag::AllowBusy)
        && let Some(refusal) = engine.busy.refusal()
    {
        return Err(refusal.into());
    }
    Ok(row)
}

/// Whether the command is `EMULATOR`, and that is allowed.
pub(super) fn is_control(engine: &Engine, argv: &Argv<'_>) -> bool {
    engine.control.is_some() && is_word(argv[0], emulator::ROW.name)
}

/// Whether `CLIENT PAUSE`, `DEBUG SLEEP` or `FAILOVER` delays this command.
fn is_paused(table: &Table, engine: &Engine, client: &Client, row: &Row, argv: &Argv<'_>) -> bool {
    let writes = |argv: &Argv<'_>| table.resolve(argv).is_ok_and(|row| may_write(engine, row, argv));
    let writes_anything = || {
        let mut queue = client.transaction.iter().flat_map(|transaction| &transaction.queue);
        may_write(engine, row, argv) || row.name == "exec" && queue.any(|argv| writes(&borrow(argv)))
    };
    let concerns = match engine.pause {
        _ if engine.asleep_until.is_some() => true,
        Some((_, PauseMode::All)) => true,
        Some((_, PauseMode::Write)) => writes_anything(),
        None => engine.fails_over() && writes_anything(),
    };
    concerns && client.can_wait() && (client.transaction.is_none() || transactions::runs_at_once(row))
}

/// Whether a command may have to be sent to replicas. A script that declares its flags says so.
fn may_write(engine: &Engine, row: &Row, argv: &Argv<'_>) -> bool {
    match admission::script_flags(engine, row, argv) {
        Some(flags) => !flags.contains(&"no-writes"),
        None => {
            row.has(Flag::Write) || matches!(row.name, "eval" | "evalsha" | "fcall" | "publish" | "spublish")
        }
    }
}

/// Keeps a command until it arrives, or until the pause is over.
pub(super) fn hold_back(
    table: &'static Table,
    engine: &mut Box<Engine>,
    client: &mut Box<Client>,
    argv: &Argv<'_>,
    arrival: Option<Timestamp>,
) -> Reply {
    let argv = own(argv);
    let attempt = move |engine: &mut Box<Engine>, client: &mut Box<Client>, _: &[u8]| {
        // The command may have to wait again, for something else.
        engine.unblock(client.slot);
        client.is_blocked = false;
        let reply = perform(table, engine, client, &borrow(&argv));
        Ok((!client.is_blocked).then_some(reply))
    };
    let attempt = Arc::new(attempt);
    let until = if arrival.is_some() { Until::Arrival } else { Until::Unpaused };
    let blocked = Blocked { until, deadline: arrival, on_timeout: Reply::Error(error::RESET), attempt };
    engine.block(client, blocked);
    Reply::NOTHING
}
