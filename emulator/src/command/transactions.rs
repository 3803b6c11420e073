//! Transactions: MULTI queues commands, EXEC runs them as one execution, WATCH makes EXEC
//! conditional. <https://redis.io/docs/latest/develop/using-commands/transactions/>

use bytes::Bytes;

use super::Flag::{AllowBusy, Fast, Loading, NoScript, SkipSlowlog, Stale};
use super::run::run;
use super::{Argv, Ctx, KeySpec, Outcome, Row, borrow, is_word};
use crate::client::{CallContext, Client, Closing, Transaction};
use crate::engine::Engine;
use crate::error::{self, Error};
use crate::reply::{Protocol, Reply};

pub(super) const ROWS: &[Row] = &[
    Row::new("multi", 1, &[NoScript, Loading, Stale, Fast, AllowBusy], multi),
    Row::new("exec", 1, &[NoScript, Loading, Stale, SkipSlowlog], exec),
    Row::new("discard", 1, &[NoScript, Loading, Stale, Fast, AllowBusy], discard),
    Row::new("watch", -2, &[NoScript, Loading, Stale, Fast, AllowBusy], watch)
        .keys(&[KeySpec::every(1, &["RO"])]),
    Row::new("unwatch", 1, &[NoScript, Loading, Stale, Fast, AllowBusy], unwatch),
];

/// Whether MULTI does not queue this command.
pub(super) fn runs_at_once(row: &Row) -> bool {
    matches!(row.name, "multi" | "exec" | "discard" | "watch" | "quit" | "reset")
}

/// Queues a command for EXEC.
pub(super) fn queue(client: &mut Box<Client>, row: &Row, argv: &Argv<'_>) -> Reply {
    debug_assert!(!runs_at_once(row));
    let transaction = client.transaction.get_or_insert_default();
    transaction.queue.push(argv.iter().map(|arg| Bytes::copy_from_slice(arg)).collect());
    Reply::status("QUEUED")
}

/// Why a command cannot run.
pub(super) enum Refusal {
    /// An error.
    Error(Error),
    /// Another server of the cluster may be able to run it, or none.
    Redirection(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Error(error)
    }
}

/// Returns the error for a command that cannot run. Under MULTI, it also makes EXEC abort.
///
/// EXEC ends the transaction, even if EXEC itself is called in a wrong way. Clients of a cluster
/// need the error of a redirection as it is.
pub(super) fn refuse(
    engine: &mut Box<Engine>,
    client: &mut Box<Client>,
    argv: &Argv<'_>,
    refusal: Refusal,
) -> Error {
    let is_redirection = matches!(refusal, Refusal::Redirection(_));
    let (Refusal::Error(error) | Refusal::Redirection(error)) = refusal;
    if is_word(argv[0], "exec") {
        client.transaction = None;
        engine.watches.unwatch(client.slot);
        return if is_redirection { error } else { error::exec_abort(&error) };
    }
    if let Some(transaction) = &mut client.transaction {
        transaction.is_refused = true;
    }
    error
}

/// `MULTI`
fn multi(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    if ctx.client.transaction.is_some() {
        return Err(error::NESTED_MULTI);
    }
    ctx.client.transaction = Some(Transaction::default());
    Ok(Reply::OK)
}

/// `EXEC`
fn exec(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    let transaction = ctx.client.transaction.take().ok_or(error::EXEC_WITHOUT_MULTI)?;
    let has_expired = ctx.engine.watches.look(ctx.client.slot, &mut ctx.engine.keyspace);
    let is_dirty = ctx.engine.watches.unwatch(ctx.client.slot) || has_expired;
    if transaction.is_refused {
        return Err(error::EXEC_ABORT);
    }
    if is_dirty {
        return Ok(Reply::NilArray);
    }
    let runs = std::mem::replace(&mut ctx.client.context, CallContext::InTransaction);
    let moment = |client: &Client| (client.protocol, client.replies.are_wanted());
    let first = moment(ctx.client);
    let mut has_changed = false;
    let replies = transaction.queue.iter().map(|argv| {
        let argv = borrow(argv);
        // Commands run after one that closes the connection, too, but the client gets no reply.
        let is_closing = ctx.client.closing != Closing::No;
        let reply = match ctx.table.resolve(&argv) {
            Ok(row) => {
                let mark = ctx.engine.outbox.mark();
                let reply = run(ctx.table, ctx.engine, ctx.client, row, &argv);
                // Messages to the client itself stand in the middle of the array, where they arise.
                // The length of the array does not count them.
                ctx.engine.outbox.surround(ctx.client.slot, mark, reply)
            }
            Err(error) => Reply::Error(error),
        };
        let (protocol, is_wanted) = moment(ctx.client);
        let now = (protocol, is_wanted && !is_closing);
        has_changed |= now != first;
        (now, reply)
    });
    let replies: Vec<_> = replies.collect();
    ctx.client.context = runs;
    if !has_changed {
        return Ok(Reply::Array(replies.into_iter().map(|(_, reply)| reply).collect()));
    }
    // Redis writes each reply at once, and the length of the array before all of them.
    let settle = |((protocol, is_wanted), reply): ((Protocol, bool), Reply)| {
        let reply = if is_wanted { reply } else { reply.only_pushes() };
        Reply::Settled(protocol, Box::new(reply))
    };
    let replies = replies.into_iter().map(settle).collect();
    let (protocol, is_counted) = first;
    let all = if is_counted { Reply::Array(replies) } else { Reply::Several(replies) };
    Ok(Reply::Settled(protocol, Box::new(all)))
}

/// `DISCARD`
fn discard(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    ctx.client.transaction.take().ok_or(error::DISCARD_WITHOUT_MULTI)?;
    ctx.engine.watches.unwatch(ctx.client.slot);
    Ok(Reply::OK)
}

/// `WATCH key [key ...]`
fn watch(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    if ctx.client.transaction.is_some() {
        return Err(error::WATCH_IN_MULTI);
    }
    for key in &argv[1..] {
        ctx.engine.watches.watch(ctx.client.slot, &mut ctx.engine.keyspace, ctx.client.db, key);
    }
    Ok(Reply::OK)
}

/// `UNWATCH`
fn unwatch(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    ctx.engine.watches.unwatch(ctx.client.slot);
    Ok(Reply::OK)
}
