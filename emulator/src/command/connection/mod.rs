//! Connection commands: PING, HELLO, AUTH, SELECT, RESET, …. The subcommands of CLIENT are in other
//! files.

mod name;
mod tracking;
mod client;

use bytes::Bytes;
use sha1_smol::Sha1;
use subtle::ConstantTimeEq as _;

use super::Flag::{AllowBusy, Fast, Loading, NoAuth, NoScript, Stale};
use super::{Argv, Ctx, Outcome, Row, integer, is_word};
use crate::client::{Asking, Closing};
use crate::error::{self, Error};
use crate::reply::Reply;
use crate::resp::Protocol;
use name::valid_name;

pub(super) const ROWS: &[Row] = &[
    Row::new("ping", -1, &[Fast], ping)
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .on_sentinels_too(),
    Row::new("echo", 2, &[Loading, Stale, Fast], echo),
    Row::new("select", 2, &[Loading, Stale, Fast], select),
    Row::new("hello", -1, &[NoScript, Loading, Stale, Fast, NoAuth, AllowBusy], hello).on_sentinels_too(),
    Row::new("quit", -1, &[NoScript, Loading, Stale, Fast, NoAuth, AllowBusy], quit),
    Row::new("auth", -2, &[NoScript, Loading, Stale, Fast, NoAuth, AllowBusy], auth).on_sentinels_too(),
    Row::new("reset", 1, &[NoScript, Loading, Stale, Fast, NoAuth, AllowBusy], reset),
    Row::container("client", client::ROWS).on_sentinels_too(),
];

/// `PING [message]`
///
/// If a RESP2 client has subscriptions, the reply has the form of a message.
fn ping(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    match argv {
        [_] | [_, _] if ctx.client.protocol == Protocol::Resp2 && ctx.client.is_subscriber() => {
            let message = argv.get(1).copied().unwrap_or_default();
            Ok(Reply::Array(vec![Reply::bulk("pong"), Reply::bulk(message)]))
        }
        [_] => Ok(Reply::status("PONG")),
        [_, message] => Ok(Reply::bulk(message)),
        _ => Err(error::wrong_arity("ping")),
    }
}

/// `ECHO message`
fn echo(_: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Ok(Reply::bulk(argv[1]))
}

/// `SELECT index`
fn select(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    if ctx.engine.cluster.is_some() && integer(argv[1])? != 0 {
        return Err(Error::from_static("ERR SELECT is not allowed in cluster mode"));
    }
    ctx.client.db = ctx.database(argv[1])?;
    Ok(Reply::OK)
}

/// `HELLO [protover [AUTH username password] [SETNAME clientname]]`
fn hello(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut protocol = ctx.client.protocol;
    if let Some(version) = argv.get(1) {
        let version = crate::parse::parse_integer(version)
            .ok_or(Error::from_static("ERR Protocol version is not an integer or out of range"))?;
        protocol = match version {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err(error::NO_PROTO),
        };
    }
    let mut options = argv.get(2..).unwrap_or_default();
    while let Some((option, rest)) = options.split_first() {
        options = match rest {
            [user, password, rest @ ..] if is_word(option, "auth") => {
                authenticate(ctx, user, password)?;
                rest
            }
            [value, rest @ ..] if is_word(option, "setname") => {
                ctx.client.name = valid_name(value)?;
                rest
            }
            _ => return Err(error::hello_option(option)),
        };
    }
    if !ctx.client.is_authenticated {
        return Err(error::NO_AUTH_HELLO);
    }
    ctx.client.protocol = protocol;
    let field = |name: &str, value: Reply| (Reply::bulk(name), value);
    let mut fields = vec![
        field("server", Reply::bulk("redis")),
        field("version", Reply::bulk("7.0.15")),
        field("proto", Reply::Integer(protocol.version())),
        field("id", Reply::Integer(ctx.read_id() as i64)),
        field("mode", Reply::bulk(ctx.engine.mode())),
    ];
    if ctx.engine.sentinel.is_none() {
        let role = if ctx.engine.replication.upstream.is_some() { "replica" } else { "master" };
        fields.push(field("role", Reply::bulk(role)));
    }
    fields.push(field("modules", Reply::Array(Vec::new())));
    Ok(Reply::Map(fields))
}

/// `QUIT`
fn quit(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    ctx.client.closing = Closing::WhenWritten;
    Ok(Reply::OK)
}

/// `AUTH [username] password`
///
/// The only user is `default`. It needs a password if `CONFIG SET requirepass` has set one.
/// Otherwise any password is accepted.
fn auth(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    match argv {
        [_, _] if ctx.engine.password.is_empty() => Err(error::AUTH_WITHOUT_PASSWORD),
        [_, password] => authenticate(ctx, b"default", password),
        [_, user, password] => authenticate(ctx, user, password),
        _ => Err(error::SYNTAX),
    }?;
    Ok(Reply::OK)
}

fn authenticate(ctx: &mut Ctx<'_>, user: &[u8], password: &[u8]) -> Result<(), Error> {
    let expected = &ctx.engine.password;
    if user != b"default" || !expected.is_empty() && !is_same_secret(password, expected) {
        return Err(error::WRONG_PASSWORD);
    }
    ctx.client.is_authenticated = true;
    Ok(())
}

/// Compares in the same time for every guess. It compares digests, so the time does not depend on
/// the length either.
fn is_same_secret(given: &[u8], expected: &[u8]) -> bool {
    let [given, expected] = [given, expected].map(|secret| Sha1::from(secret).digest().bytes());
    given.ct_eq(&expected).into()
}

/// `RESET`: restores the initial state of the connection
fn reset(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    ctx.engine.forget(ctx.client);
    let client = &mut *ctx.client;
    client.transaction = None;
    client.db = 0;
    client.protocol = Protocol::Resp2;
    client.name = Bytes::new();
    client.replies.is_off = false;
    client.asking = Asking::default();
    client.reads_replicas = false;
    client.is_no_evict = false;
    client.is_authenticated = ctx.engine.password.is_empty();
    Ok(Reply::status("RESET"))
}

pub(super) use tracking::remember;
