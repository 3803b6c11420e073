//! `redis`: the table with which scripts call the server.
//! <https://redis.io/docs/latest/develop/programmability/lua-api/#redis_object>

use mlua::{ExternalError as _, Lua, MultiValue, Table, Value};

use super::args::truncate;
use super::budget::spend;
use super::c_api::commands;
use super::native::Raised;
use super::sha1_hex;
use super::vm::with_running;
use crate::error::Error;
use crate::log::LogLevel;
use crate::reply::format_double;
use crate::resp::Protocol;

/// How many bytes count as one instruction when SHA1 reads them.
const HASHED_BYTES_PER_INSTRUCTION: u64 = 8;
const REPL_FLAGS: std::ops::RangeInclusive<i64> = 0..=3;

/// The functions of the table. The sandbox defines the constants.
pub(super) fn redis(lua: &Lua) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    let set = |name, function: fn(&Lua, &MultiValue) -> mlua::Result<MultiValue>| {
        redis.raw_set(name, lua.create_function(move |lua, args: MultiValue| function(lua, &args))?)
    };
    for (name, function) in commands(lua)? {
        redis.raw_set(name, function)?;
    }
    set("log", log)?;
    set("setresp", |lua, args| {
        if args.len() != 1 {
            return Err(fail_with("ERR redis.setresp() requires one argument."));
        }
        let protocol = match lua.coerce_number(args[0].clone())?.map(truncate) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            _ => return Err(fail_with("ERR RESP version must be 2 or 3.")),
        };
        with_running(lua, |running| running.rules.protocol = protocol);
        Ok(MultiValue::new())
    })?;
    let sha1hex = |lua: &Lua, args: MultiValue| {
        if args.len() != 1 {
            return Err(fail_with("ERR wrong number of arguments"));
        }
        let text = match &args[0] {
            Value::String(_) | Value::Number(_) | Value::Integer(_) => lua.coerce_string(args[0].clone())?,
            _ => None,
        };
        let text = text.as_ref().map(mlua::LuaString::as_bytes);
        let text = text.as_deref().unwrap_or_default();
        spend(lua, text.len() as u64 / HASHED_BYTES_PER_INSTRUCTION)?;
        lua.create_string(sha1_hex(text))
    };
    redis.raw_set("sha1hex", lua.create_function(sha1hex)?)?;
    redis
        .raw_set("error_reply", lua.create_function(|lua, args| one_field(lua, &args, "err", error_text))?)?;
    redis.raw_set(
        "status_reply",
        lua.create_function(|lua, args| one_field(lua, &args, "ok", <[u8]>::to_vec))?,
    )?;
    set("set_repl", set_repl)?;
    redis.raw_set("breakpoint", lua.create_function(|_, _: MultiValue| Ok(false))?)?;
    set("debug", |_, _| Ok(MultiValue::new()))?;
    redis.raw_set("replicate_commands", lua.create_function(|_, _: MultiValue| Ok(true))?)?;
    Ok(redis)
}

/// `redis.log(level, message, …)`: messages other than strings and numbers are left out. A library
/// that is being loaded logs nothing.
fn log(lua: &Lua, args: &MultiValue) -> mlua::Result<MultiValue> {
    if args.len() < 2 {
        return Err(fail_with("ERR redis.log() requires two arguments or more."));
    }
    let level = lua.coerce_number(args[0].clone())?;
    let level = level.ok_or_else(|| fail_with("ERR First argument must be a number (log level)."))?;
    let level = usize::try_from(level as i64).ok().and_then(|level| LogLevel::ALL.get(level).copied());
    let level = level.ok_or_else(|| fail_with("ERR Invalid debug level."))?;
    let words: Vec<Vec<u8>> = args.iter().skip(1).filter_map(word).collect();
    with_running(lua, |running| {
        if let Some(host) = &running.host {
            host.log(level, words.join(&b' '));
        }
    });
    Ok(MultiValue::new())
}

fn word(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(number) => Some(format_double(*number as f64).into()),
        Value::Number(number) => Some(format_double(*number).into()),
        _ => None,
    }
}

/// `redis.set_repl(flags)`: it has no effect, because there are no replicas.
fn set_repl(lua: &Lua, args: &MultiValue) -> mlua::Result<MultiValue> {
    if args.len() != 1 {
        return Err(fail_with("ERR redis.set_repl() requires two arguments."));
    }
    let flags = lua.coerce_number(args[0].clone())?.unwrap_or_default();
    if !REPL_FLAGS.contains(&(flags as i64)) {
        return Err(fail_with(
            "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
        ));
    }
    Ok(MultiValue::new())
}

/// `redis.error_reply(text)` and `redis.status_reply(text)`
fn one_field(
    lua: &Lua,
    args: &MultiValue,
    field: &str,
    text_of: fn(&[u8]) -> Vec<u8>,
) -> mlua::Result<Table> {
    let (field, text) = match (args.len(), args.front()) {
        (1, Some(Value::String(text))) => (field, text_of(&text.as_bytes())),
        _ => ("err", b"ERR wrong number or type of arguments".to_vec()),
    };
    lua.create_table_from([(field, lua.create_string(text)?)])
}

/// The text of an error. Its code ends at the first space; the code is `ERR` if there is no space.
fn error_text(text: &[u8]) -> Vec<u8> {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let text = super::args::c_string(text);
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
