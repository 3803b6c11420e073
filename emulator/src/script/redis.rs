//! `redis`: the table with which scripts call the server.
//! <https://redis.io/docs/latest/develop/programmability/lua-api/#redis_object>

use mlua::{ExternalError as _, Lua, LuaString, Table, Value};

use super::args::{Args, function};
use super::c_api::commands;
use super::c_values::{c_string, truncate};
use super::raised::Raised;
use super::running::with_running;
use super::sha::sha1_hex;
use super::spend::{check_size, spend, spend_bytes};
use crate::error::Error;
use crate::log::LogLevel;
use crate::reply::format_double;
use crate::resp::Protocol;

/// How many bytes count as one instruction when SHA1 reads them.
const HASHED_BYTES_PER_INSTRUCTION: u64 = 8;
const REPL_FLAGS: std::ops::RangeInclusive<i64> = 0..=3;
const REPL_REPLICA: i64 = 2;

/// The functions of the table. The sandbox defines the constants.
pub(super) fn redis(lua: &Lua) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    for (name, function) in commands(lua)? {
        redis.raw_set(name, function)?;
    }
    redis.raw_set("log", function(lua, log)?)?;
    redis.raw_set("setresp", function(lua, setresp)?)?;
    redis.raw_set("sha1hex", function(lua, sha1hex)?)?;
    redis.raw_set("error_reply", function(lua, |args| one_field(args, "err", error_text))?)?;
    redis.raw_set("status_reply", function(lua, |args| one_field(args, "ok", <[u8]>::to_vec))?)?;
    redis.raw_set("set_repl", function(lua, set_repl)?)?;
    redis.raw_set("breakpoint", function(lua, |_| Ok(false))?)?;
    redis.raw_set("debug", function(lua, |_| Ok(()))?)?;
    redis.raw_set("replicate_commands", function(lua, |_| Ok(true))?)?;
    Ok(redis)
}

/// `redis.log(level, message, …)`: messages other than strings and numbers are left out. A library
/// that is being loaded logs nothing.
fn log(args: &Args<'_>) -> mlua::Result<()> {
    if args.len() < 2 {
        return Err(fail_with("ERR redis.log() requires two arguments or more."));
    }
    let level = args.as_number(1)?;
    let level = level.ok_or_else(|| fail_with("ERR First argument must be a number (log level)."))?;
    let level = usize::try_from(truncate(level)).ok().and_then(|level| LogLevel::ALL.get(level).copied());
    let level = level.ok_or_else(|| fail_with("ERR Invalid debug level."))?;
    let mut text = Vec::new();
    for (idx, word) in (2..=args.len()).filter_map(|place| word(args.get(place)?)).enumerate() {
        spend_bytes(args.lua, word.len())?;
        check_size(args.lua, text.len() + word.len())?;
        if idx > 0 {
            text.push(b' ');
        }
        text.extend(word);
    }
    with_running(args.lua, |running| {
        if let Some(host) = &running.host {
            host.log(level, text);
        }
    });
    Ok(())
}

fn word(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(number) => Some(format_double(*number as f64).into()),
        Value::Number(number) => Some(format_double(*number).into()),
        _ => None,
    }
}

/// `redis.setresp(protocol)`
fn setresp(args: &Args<'_>) -> mlua::Result<()> {
    if args.len() != 1 {
        return Err(fail_with("ERR redis.setresp() requires one argument."));
    }
    let protocol = match args.as_number(1)?.map(truncate) {
        Some(2) => Protocol::Resp2,
        Some(3) => Protocol::Resp3,
        _ => return Err(fail_with("ERR RESP version must be 2 or 3.")),
    };
    with_running(args.lua, |running| running.rules.protocol = protocol);
    Ok(())
}

/// `redis.sha1hex(text)`: the hash of the empty text for a value that is no text.
fn sha1hex(args: &Args<'_>) -> mlua::Result<LuaString> {
    if args.len() != 1 {
        return Err(fail_with("ERR wrong number of arguments"));
    }
    let text = match args.get(1) {
        Some(text @ (Value::String(_) | Value::Number(_) | Value::Integer(_))) => {
            args.lua.coerce_string(text.clone())?
        }
        _ => None,
    };
    let text = text.as_ref().map(LuaString::as_bytes);
    let text = text.as_deref().unwrap_or_default();
    spend(args.lua, text.len() as u64 / HASHED_BYTES_PER_INSTRUCTION)?;
    args.lua.create_string(sha1_hex(text))
}

/// `redis.set_repl(flags)`: whether the effects of the next commands are sent to replicas.
fn set_repl(args: &Args<'_>) -> mlua::Result<()> {
    if args.len() != 1 {
        return Err(fail_with("ERR redis.set_repl() requires two arguments."));
    }
    let flags = truncate(args.as_number(1)?.unwrap_or_default());
    if !REPL_FLAGS.contains(&flags) {
        return Err(fail_with(
            "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
        ));
    }
    with_running(args.lua, |running| running.rules.spares_replicas = flags & REPL_REPLICA == 0);
    Ok(())
}

/// `redis.error_reply(text)` and `redis.status_reply(text)`
fn one_field(args: &Args<'_>, field: &str, text_of: fn(&[u8]) -> Vec<u8>) -> mlua::Result<Table> {
    let (field, text) = match (args.len(), args.get(1)) {
        (1, Some(Value::String(text))) => {
            spend_bytes(args.lua, text.as_bytes().len())?;
            (field, text_of(&text.as_bytes()))
        }
        _ => ("err", b"ERR wrong number or type of arguments".to_vec()),
    };
    args.lua.create_table_from([(field, args.lua.create_string(text)?)])
}

/// The text of an error. Its code ends at the first space; the code is `ERR` if there is no space.
fn error_text(text: &[u8]) -> Vec<u8> {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let text = c_string(text);
    let (code, message) = match text.iter().position(|&byte| byte == b' ') {
        Some(space) => (&text[..space], &text[space + 1..]),
        None => (&b"ERR"[..], text),
    };
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let start = message.iter().take_while(|byte| is_break(byte)).count();
    let end = message.len() - message[start..].iter().rev().take_while(|byte| is_break(byte)).count();
    [code, b" ", &message[start..end]].concat()
}

pub(super) fn fail(error: Error) -> mlua::Error {
    Raised::Table(error).into_lua_err()
}

pub(super) fn fail_with(text: &'static str) -> mlua::Error {
    fail(Error::from_static(text))
}
