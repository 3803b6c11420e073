//! `redis`: the table with which scripts call the server.
//! <https://redis.io/docs/latest/develop/programmability/lua-api/#redis_object>

use mlua::{ExternalError as _, Lua, MultiValue, Table, Value};
use smallvec::SmallVec;

use super::args::truncate;
use super::budget::{spend, spend_command, spend_values, unlimited};
use super::convert::{Argument, argument, to_lua};
use super::native::Raised;
use super::sha1_hex;
use super::vm::{Running, running};
use crate::error::Error;
use crate::log::LogLevel;
use crate::reply::Reply;
use crate::resp::Protocol;

/// How many bytes count as one instruction when SHA1 reads them.
const HASHED_BYTES_PER_INSTRUCTION: u64 = 8;
const REPL_FLAGS: std::ops::RangeInclusive<i64> = 0..=3;

const NO_ARGUMENT: Error =
    Error::from_static("ERR Please specify at least one argument for this redis lib call");
const WRONG_ARGUMENT: Error =
    Error::from_static("ERR Lua redis lib command arguments must be strings or integers");

/// The functions of the table. The sandbox defines the constants.
pub(super) fn redis(lua: &Lua) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    let set = |name, function: fn(&Lua, &MultiValue) -> mlua::Result<MultiValue>| {
        redis.raw_set(name, lua.create_function(move |lua, args: MultiValue| function(lua, &args))?)
    };
    let call = |lua: &Lua, args: MultiValue| {
        call_command(lua, &args, |outcome, protocol| match outcome {
            Err(error) | Ok(Reply::Error(error)) => Err(fail(error)),
            Ok(reply) => to_lua(lua, &reply, protocol),
        })
    };
    redis.raw_set("call", lua.create_function(call)?)?;
    let pcall = |lua: &Lua, args: MultiValue| {
        call_command(lua, &args, |outcome, protocol| {
            let reply = match outcome {
                Ok(reply) => reply,
                Err(error) => return to_lua(lua, &Reply::Error(error), protocol),
            };
            let value = to_lua(lua, &reply, protocol)?;
            if let (Reply::Error(_), Value::Table(error)) = (&reply, &value) {
                error.raw_set("ignore_error_stats_update", true)?;
            }
            Ok(value)
        })
    };
    redis.raw_set("pcall", lua.create_function(pcall)?)?;
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
        running(lua).rules.protocol = protocol;
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
    redis.raw_set("acl_check_cmd", lua.create_function(|lua, args| acl_check_cmd(lua, &args))?)?;
    redis.raw_set("breakpoint", lua.create_function(|_, _: MultiValue| Ok(false))?)?;
    set("debug", |_, _| Ok(MultiValue::new()))?;
    redis.raw_set("replicate_commands", lua.create_function(|_, _: MultiValue| Ok(true))?)?;
    Ok(redis)
}

/// Runs a command, and converts its reply with `value_of`.
///
/// If the arguments are not those of a command, `value_of` gets the error. The protocol determines
/// the types that the script gets.
fn call_command(
    lua: &Lua,
    args: &MultiValue,
    value_of: impl FnOnce(Result<Reply, Error>, Protocol) -> mlua::Result<Value>,
) -> mlua::Result<Value> {
    let mut running = running(lua);
    spend_command(lua, &mut running)?;
    let Running { host, rules, budget, .. } = &mut *running;
    let (rules, bytes_max) = (*rules, budget.memory_bytes_max);
    let host = host.as_mut().expect("commands are called while a script runs");
    let outcome = arguments(args).map(|argv| {
        let argv: SmallVec<[&[u8]; 8]> = argv.iter().map(|arg| &**arg).collect();
        host.call(&argv, rules)
    });
    drop(running);
    let n_elements = match &outcome {
        Ok(Reply::Array(elements) | Reply::Set(elements)) => elements.len(),
        Ok(Reply::Map(pairs)) => 2 * pairs.len(),
        _ => 0,
    };
    if n_elements > 0 {
        spend_values(lua, n_elements)?;
    }
    unlimited(lua, bytes_max, || value_of(outcome, rules.protocol))
}

fn arguments(args: &MultiValue) -> Result<SmallVec<[Argument; 8]>, Error> {
    if args.is_empty() {
        return Err(NO_ARGUMENT);
    }
    args.iter().map(|arg| argument(arg).ok_or(WRONG_ARGUMENT)).collect()
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
    let words: Vec<Argument> = args.iter().skip(1).filter_map(argument).collect();
    let words: Vec<&[u8]> = words.iter().map(|word| &**word).collect();
    if let Some(host) = &running(lua).host {
        host.log(level, words.join(&b' '));
    }
    Ok(MultiValue::new())
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

/// `redis.acl_check_cmd(name, …)`: there is one user, who may run every command.
fn acl_check_cmd(lua: &Lua, args: &MultiValue) -> mlua::Result<bool> {
    let argv = arguments(args).map_err(fail)?;
    let argv: SmallVec<[&[u8]; 8]> = argv.iter().map(|arg| &**arg).collect();
    let mut running = running(lua);
    let host = running.host.as_mut().expect("commands are called while a script runs");
    let is_known = host.knows(&argv);
    if is_known { Ok(true) } else { Err(fail_with("ERR Invalid command passed to redis.acl_check_cmd()")) }
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
