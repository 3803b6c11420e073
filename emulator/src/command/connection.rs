//! Connection commands: PING, HELLO, SELECT, CLIENT, …

use bytes::Bytes;

use super::Flag::{AllowBusy, Fast, Loading, NoAuth, NoScript, Stale};
use super::{Argv, Ctx, Outcome, Row, is_word};
use crate::error::{self, Error};
use crate::reply::Reply;
use crate::resp::Protocol;

pub(super) const ROWS: &[Row] = &[
    Row::new("ping", -1, &[Fast], ping).tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    Row::new("echo", 2, &[Loading, Stale, Fast], echo),
    Row::new("select", 2, &[Loading, Stale, Fast], select),
    Row::new("hello", -1, &[NoScript, Loading, Stale, Fast, NoAuth, AllowBusy], hello),
    Row::new("quit", -1, &[NoScript, Loading, Stale, Fast, NoAuth, AllowBusy], quit),
    Row::container(
        "client",
        &[
            Row::new("client|getname", 2, &[NoScript, Loading, Stale], client_getname),
            Row::new("client|id", 2, &[NoScript, Loading, Stale], client_id),
            Row::new("client|setinfo", 4, &[NoScript, Loading, Stale], client_setinfo),
            Row::new("client|setname", 3, &[NoScript, Loading, Stale], client_setname),
        ],
    ),
];

/// `PING [message]`
fn ping(_: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    match argv {
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
    ctx.client.db = ctx.database(argv[1])?;
    Ok(Reply::OK)
}

/// `HELLO [protover [AUTH username password] [SETNAME clientname]]`
///
/// There are no users here but `default`, which has no password: AUTH for it succeeds with any.
fn hello(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut protocol = ctx.client.protocol;
    if let Some(version) = argv.get(1) {
        let version = crate::parse_integer(version)
            .ok_or(Error::from_static("ERR Protocol version is not an integer or out of range"))?;
        protocol = match version {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err(error::NO_PROTO),
        };
    }
    let mut name = None;
    let mut options = argv.get(2..).unwrap_or_default();
    while let Some((option, rest)) = options.split_first() {
        options = match rest {
            [user, _, rest @ ..] if is_word(option, "auth") => {
                if *user != b"default" {
                    return Err(Error::from_static(
                        "WRONGPASS invalid username-password pair or user is disabled.",
                    ));
                }
                rest
            }
            [value, rest @ ..] if is_word(option, "setname") => {
                name = Some(valid_name(value)?);
                rest
            }
            _ => {
                let option = String::from_utf8_lossy(option);
                return Err(Error::new(format!("ERR Syntax error in HELLO option '{option}'")));
            }
        };
    }
    ctx.client.protocol = protocol;
    if let Some(name) = name {
        ctx.client.name = name;
    }
    let field = |name: &str, value: Reply| (Reply::bulk(name), value);
    Ok(Reply::Map(vec![
        field("server", Reply::bulk("redis")),
        field("version", Reply::bulk("7.0.15")),
        field("proto", Reply::Integer(if protocol == Protocol::Resp3 { 3 } else { 2 })),
        field("id", Reply::Integer(ctx.client.id as i64)),
        field("mode", Reply::bulk("standalone")),
        field("role", Reply::bulk("master")),
        field("modules", Reply::Array(Vec::new())),
    ]))
}

/// `QUIT`
fn quit(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    ctx.client.closing = true;
    Ok(Reply::OK)
}

/// `CLIENT GETNAME`
fn client_getname(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    let name = ctx.client.name.clone();
    Ok(if name.is_empty() { Reply::Nil } else { Reply::Bulk(name) })
}

/// `CLIENT ID`
fn client_id(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Ok(Reply::Integer(ctx.client.id as i64))
}

/// `CLIENT SETINFO <LIB-NAME libname | LIB-VER libver>`
///
/// Came with Redis 7.2, and is accepted because clients send it when they connect; nothing here reads it back.
fn client_setinfo(_: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    if !is_word(argv[2], "lib-name") && !is_word(argv[2], "lib-ver") {
        let option = String::from_utf8_lossy(argv[2]);
        return Err(Error::new(format!("ERR Unrecognized option '{option}'")));
    }
    if !is_printable(argv[3]) {
        let option = String::from_utf8_lossy(argv[2]).to_lowercase();
        return Err(Error::new(format!(
            "ERR {option} cannot contain spaces, newlines or special characters."
        )));
    }
    Ok(Reply::OK)
}

/// `CLIENT SETNAME connection-name`
fn client_setname(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    ctx.client.name = valid_name(argv[2])?;
    Ok(Reply::OK)
}

fn valid_name(name: &[u8]) -> Result<Bytes, Error> {
    if is_printable(name) { Ok(Bytes::copy_from_slice(name)) } else { Err(error::CLIENT_NAME) }
}

fn is_printable(text: &[u8]) -> bool {
    text.iter().all(|byte| (b'!'..=b'~').contains(byte))
}
