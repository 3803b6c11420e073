//! Commands that wait: how a command leaves its client without a reply, and how it gets its reply
//! later.
//!
//! A command that finds nothing registers what it waits for. The engine retries it when it may
//! succeed.
//!
//! Inside `MULTI` and scripts, and at front ends that cannot wait, it replies at once, as it would
//! at its timeout.

use std::sync::Arc;

use super::{Argv, Ctx, Outcome, borrow, monitor, own};
use crate::client::Client;
use crate::clock::Timestamp;
use crate::engine::{Blocked, Engine, Until};
use crate::error::{self, Error};
use crate::keyspace::{Value, ValueType};
use crate::long_double::LongDouble;
use crate::reply::Reply;

/// Tries one key, for instance pops from it. `None` if the key has nothing.
pub(super) type Serve = fn(&mut Ctx<'_>, &Argv<'_>, &[u8]) -> Result<Option<Reply>, Error>;

/// The limits of a wait.
pub(super) struct Wait {
    /// The end of the wait. `None` waits for ever.
    pub deadline: Option<Timestamp>,
    /// The reply at the deadline.
    pub on_timeout: Reply,
}

/// Tries each key in turn. If no key has anything, waits until one does.
pub(super) fn serve_or_wait<T: ValueType>(
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
    let (row, table) = (ctx.row, ctx.table);
    let argv = own(argv);
    let until =
        Until::Key { db: ctx.client.db, keys: own(keys), is_kind: |value: &Value| T::of(value).is_some() };
    let attempt = move |engine: &mut Box<Engine>, client: &mut Box<Client>, key: &[u8]| {
        let argv = borrow(&argv);
        let served = serve(&mut Ctx { engine, client, row, table }, &argv, key)?;
        if served.is_some() {
            monitor::log_slow(engine, client, row, &argv);
        }
        Ok(served)
    };
    Ok(self::wait(ctx, until, wait, Arc::new(attempt)))
}

/// Like [`serve_or_wait`], for the keys between the command's name and its last argument, the
/// timeout.
pub(super) fn pop_or_wait<T: ValueType>(ctx: &mut Ctx<'_>, argv: &Argv<'_>, serve: Serve) -> Outcome {
    let last = argv.len() - 1;
    let wait = Wait { deadline: seconds(ctx, argv[last])?, on_timeout: Reply::NilArray };
    serve_or_wait::<T>(ctx, argv, &argv[1..last], wait, serve)
}

/// Waits until the deadline, and for nothing else.
pub(super) fn wait_out(ctx: &mut Ctx<'_>, wait: Wait) -> Reply {
    wait_for(ctx, Until::Deadline, wait)
}

/// Waits for an event at which the engine replies, not the command.
pub(super) fn wait_for(ctx: &mut Ctx<'_>, until: Until, wait: Wait) -> Reply {
    self::wait(ctx, until, wait, Arc::new(|_: &mut Box<Engine>, _: &mut Box<Client>, _: &[u8]| Ok(None)))
}

fn wait(ctx: &mut Ctx<'_>, until: Until, wait: Wait, attempt: crate::engine::Attempt) -> Reply {
    let Wait { deadline, on_timeout } = wait;
    if !ctx.client.can_wait() {
        return on_timeout;
    }
    ctx.engine.block(ctx.client, Blocked { until, deadline, on_timeout, attempt });
    Reply::NOTHING
}

/// Parses a timeout in seconds, which may have a fraction. 0 is for ever.
pub(super) fn seconds(ctx: &mut Ctx<'_>, arg: &[u8]) -> Result<Option<Timestamp>, Error> {
    let seconds = LongDouble::parse(arg).ok_or(error::TIMEOUT_NOT_A_FLOAT)?;
    // Redis rounds up before it checks the sign, and treats a number that does not fit as negative.
    let millis = seconds.times(1000).ceil().filter(|&millis| millis >= 0);
    Ok(after(ctx, millis.ok_or(error::TIMEOUT_NEGATIVE)?))
}

/// Parses a timeout in whole milliseconds. 0 is for ever.
pub(super) fn millis(ctx: &mut Ctx<'_>, arg: &[u8]) -> Result<Option<Timestamp>, Error> {
    let millis = crate::parse::parse_integer(arg).ok_or(error::TIMEOUT_NOT_AN_INTEGER)?;
    if millis < 0 {
        return Err(error::TIMEOUT_NEGATIVE);
    }
    Ok(after(ctx, millis))
}

fn after(ctx: &mut Ctx<'_>, millis: i64) -> Option<Timestamp> {
    let now = ctx.engine.keyspace.now();
    (millis > 0).then(|| now + std::time::Duration::from_millis(millis.unsigned_abs()))
}
