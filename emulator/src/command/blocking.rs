//! Commands that wait: how one leaves its client without a reply, and how it comes back.
//!
//! A command that finds nothing registers what it waits for with the engine, which tries it again when there is hope. Inside
//! `MULTI` and scripts, and at doors where nobody can wait, it answers at once what it would answer at its timeout.

use std::sync::Arc;

use bytes::Bytes;

use super::{Argv, Ctx, Flag, Outcome, Row, borrow, monitor, perform, resolve, transactions};
use crate::client::Client;
use crate::clock::Timestamp;
use crate::engine::{Blocked, Engine, PauseMode, Until};
use crate::error::{self, Error};
use crate::keyspace::{Kind, Value};
use crate::long_double::LongDouble;
use crate::reply::Reply;

/// Tries one key, for instance to pop from it; `None` if there is nothing to be had.
pub(super) type Serve = fn(&mut Ctx<'_>, &Argv<'_>, &[u8]) -> Result<Option<Reply>, Error>;

/// How a command waits.
pub(super) struct Wait {
    /// Until when, at most.
    pub deadline: Option<Timestamp>,
    /// What it answers then.
    pub on_timeout: Reply,
}

/// Tries each key in turn, and waits for one of them to appear if there was nothing.
pub(super) fn serve_or_wait<T: Kind>(
    ctx: &mut Ctx<'_>,
    argv: &Argv<'_>,
    keys: &Argv<'_>,
    wait: Wait,
    serve: Serve,
) -> Outcome {
    for key in keys {
        if let Some(reply) = serve(ctx, argv, key)? {
            return Ok(reply);
        }
    }
    let row = ctx.row;
    let argv = own(argv);
    let until =
        Until::Key { db: ctx.client.db, keys: own(keys), is_kind: |value: &Value| T::of(value).is_some() };
    let attempt = move |engine: &mut Box<Engine>, client: &mut Box<Client>, key: &[u8]| {
        let argv = borrow(&argv);
        let served = serve(&mut Ctx { engine, client, row }, &argv, key)?;
        if served.is_some() {
            monitor::log_slow(engine, client, row, &argv);
        }
        Ok(served)
    };
    Ok(self::wait(ctx, until, wait, Arc::new(attempt)))
}

/// The same for the keys before a timeout, which stands last.
pub(super) fn pop_or_wait<T: Kind>(ctx: &mut Ctx<'_>, argv: &Argv<'_>, serve: Serve) -> Outcome {
    let last = argv.len() - 1;
    let wait = Wait { deadline: seconds(ctx, argv[last])?, on_timeout: Reply::NilArray };
    serve_or_wait::<T>(ctx, argv, &argv[1..last], wait, serve)
}

/// Waits for nothing but the time.
pub(super) fn wait_out(ctx: &mut Ctx<'_>, wait: Wait) -> Reply {
    self::wait(
        ctx,
        Until::Deadline,
        wait,
        Arc::new(|_: &mut Box<Engine>, _: &mut Box<Client>, _: &[u8]| Ok(None)),
    )
}

fn wait(ctx: &mut Ctx<'_>, until: Until, wait: Wait, attempt: crate::engine::Attempt) -> Reply {
    let Wait { deadline, on_timeout } = wait;
    if !ctx.client.can_wait() {
        return on_timeout;
    }
    ctx.engine.block(ctx.client, Blocked { until, deadline, on_timeout, attempt });
    Reply::NOTHING
}

/// Whether `CLIENT PAUSE` holds this command back.
pub(super) fn is_paused(engine: &Engine, client: &Client, row: &Row) -> bool {
    let Some((_, mode)) = engine.pause else { return false };
    let ends_writing_transaction = || {
        let queue = client.transaction.iter().flat_map(|transaction| &transaction.queue);
        row.name == "exec" && queue.into_iter().any(|argv| resolve(&borrow(argv)).is_ok_and(may_write))
    };
    let concerns = match mode {
        PauseMode::All => true,
        PauseMode::Write => may_write(row) || ends_writing_transaction(),
    };
    concerns && client.can_wait() && (client.transaction.is_none() || transactions::runs_at_once(row))
}

/// Whether replicas may have to hear of a command.
pub(super) fn may_write(row: &Row) -> bool {
    row.flags.contains(&Flag::Write)
        || matches!(row.name, "eval" | "evalsha" | "fcall" | "publish" | "spublish")
}

/// Keeps a command until it arrives, or until the pause is over.
pub(super) fn hold_back(
    engine: &mut Box<Engine>,
    client: &mut Box<Client>,
    argv: &Argv<'_>,
    arrival: Option<Timestamp>,
) -> Reply {
    let argv = own(argv);
    let attempt = move |engine: &mut Box<Engine>, client: &mut Box<Client>, _: &[u8]| {
        // It may have to wait again, for something else.
        engine.unblock(client.slot);
        client.is_blocked = false;
        let reply = perform(engine, client, &borrow(&argv));
        Ok((!client.is_blocked).then_some(reply))
    };
    let attempt = Arc::new(attempt);
    let until = if arrival.is_some() { Until::Arrival } else { Until::Unpaused };
    let blocked = Blocked { until, deadline: arrival, on_timeout: Reply::Error(error::RESET), attempt };
    engine.block(client, blocked);
    Reply::NOTHING
}

/// A timeout in seconds, which may have a fraction; 0 is for ever.
pub(super) fn seconds(ctx: &mut Ctx<'_>, arg: &[u8]) -> Result<Option<Timestamp>, Error> {
    let seconds = LongDouble::parse(arg).ok_or(error::TIMEOUT_NOT_A_FLOAT)?;
    // Redis rounds up before it looks at the sign, and takes what does not fit for negative.
    let millis = seconds.times(1000).ceil().filter(|&millis| millis >= 0);
    Ok(after(ctx, millis.ok_or(error::TIMEOUT_NEGATIVE)?))
}

/// A timeout in whole milliseconds; 0 is for ever.
pub(super) fn millis(ctx: &mut Ctx<'_>, arg: &[u8]) -> Result<Option<Timestamp>, Error> {
    let millis = crate::parse_integer(arg).ok_or(error::TIMEOUT_NOT_AN_INTEGER)?;
    if millis < 0 {
        return Err(error::TIMEOUT_NEGATIVE);
    }
    Ok(after(ctx, millis))
}

fn after(ctx: &mut Ctx<'_>, millis: i64) -> Option<Timestamp> {
    let now = ctx.engine.keyspace.now();
    (millis > 0).then(|| now + std::time::Duration::from_millis(millis.unsigned_abs()))
}

fn own(argv: &Argv<'_>) -> Vec<Bytes> {
    argv.iter().map(|arg| Bytes::copy_from_slice(arg)).collect()
}
