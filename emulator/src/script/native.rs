//! The Rust functions of the sandbox: Lua's own functions that need help, and the handling of
//! errors.
//!
//! Functions that may fail must be Rust functions. If a script ends with `return redis.call(…)`, a
//! Lua function would replace the frame of the script, and the error could not have its line. A
//! Rust function keeps that frame.

use mlua::{Error as LuaError, ExternalError as _, Function, Lua, MultiValue, Table, Value};

use super::args::{function, raise, raise_bare};
use super::budget::{NO_MEMORY, Place};
use super::builtins::meter;
use super::c_api::{catchers, coroutines, place};
use super::c_values::c_string;
use super::library::{CONTENTS, JsonConfig, NEXT, libraries, string_functions, table_functions};
use super::raised::Raised;
use super::random::{random, randomseed};
use super::redis::redis;
use super::register::register_function;
use super::running::with_running;
use super::spend::{is_over, spend};

/// Errors of Lua's core that get no line if a C function caused them.
const WITHOUT_LINE: &[&str] = &["table index is ", "invalid key to "];

/// How many instructions count for the collection of a script's garbage.
const INSTRUCTIONS_PER_COLLECTION: u64 = 10_000_000;

/// The functions that the sandbox cannot implement itself.
pub(super) fn natives(lua: &Lua, json: &JsonConfig) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    let contents = lua.create_table()?;
    lua.set_named_registry_value(CONTENTS, &contents)?;
    lua.set_named_registry_value(NEXT, lua.globals().get::<Function>("next")?)?;
    let load: Function = lua.globals().get("load")?;
    native.set("compile", lua.globals().get::<Function>("loadstring")?)?;
    let unwrap = lua.create_function(unwrap_caught)?;
    native.set("catchers", lua.create_table_from(catchers(lua, &unwrap, &load)?)?)?;
    native.set("coroutine", lua.create_table_from(coroutines(lua, &unwrap)?)?)?;
    meter(lua, &contents)?;
    native.set("redis", redis(lua)?)?;
    native.set("register", lua.create_function(|lua, args| register_function(lua, &args))?)?;
    native.set("libraries", libraries(lua, json)?)?;
    native.set("string", string_functions(lua)?)?;
    native.set("table", table_functions(lua)?)?;
    native.set("random", function(lua, random)?)?;
    native.set("randomseed", function(lua, randomseed)?)?;
    let relay_of = |lua: &Lua, function: Function| {
        lua.create_function(move |lua, args: MultiValue| relay(lua, &function, args))
    };
    native.set("relay", lua.create_function(relay_of)?)?;
    native.set("contents", contents)?;
    native.set("locate", lua.create_function(|lua, error: Value| locate(lua, error))?)?;
    Ok(native)
}

/// Calls a function of the sandbox as if the script had called it directly. Its errors contain the
/// line of the script.
fn relay(lua: &Lua, function: &Function, mut args: MultiValue) -> mlua::Result<MultiValue> {
    /// No relayed function reads more arguments. All that a call can have would not fit twice.
    const ARGS_MAX: usize = 3;
    spend(lua, 1 + args.len() as u64)?;
    args.truncate(ARGS_MAX);
    let message = match function.call::<MultiValue>(args) {
        Err(LuaError::RuntimeError(message)) => message,
        other => return other,
    };
    let message = message.split("\nstack traceback:").next().unwrap_or_default();
    let message = match message.strip_prefix("sandbox:").and_then(|rest| rest.split_once(": ")) {
        Some((_, rest)) => rest,
        None => message,
    };
    if WITHOUT_LINE.iter().any(|begin| message.starts_with(begin)) {
        return Err(raise_bare(message));
    }
    let name = lua.inspect_stack(0, |frame| frame.names().name.map(std::borrow::Cow::into_owned)).flatten();
    let name = name.as_deref().unwrap_or("?");
    // The sandbox may have another name for the function than the script.
    let renamed = message.strip_prefix("bad argument #").and_then(|rest| {
        let (place, rest) = rest.split_once(" to '")?;
        let (_, why) = rest.split_once('\'')?;
        Some(format!("bad argument #{place} to '{name}'{why}"))
    });
    Err(raise(lua, renamed.as_deref().unwrap_or(message)))
}

/// The error that a script sees. An error of Rust becomes the Lua value for which it stands; other
/// values stay as they are.
fn unwrap(lua: &Lua, error: Value) -> mlua::Result<Value> {
    let Value::Error(error) = &error else { return Ok(error) };
    match raised(error) {
        Raised::Table(error) => {
            let err = lua.create_string(error.as_bytes())?;
            Ok(Value::Table(lua.create_table_from([("err", err)])?))
        }
        Raised::Text(text) => Ok(Value::String(lua.create_string(text)?)),
        fatal @ Raised::Fatal => Ok(Value::String(lua.create_string(fatal.to_string())?)),
    }
}

/// The error that a script sees when it catches one. If the script must end, the function raises
/// again.
fn unwrap_caught(lua: &Lua, error: Value) -> mlua::Result<Value> {
    if is_over(lua) {
        return Err(Raised::Fatal.into_lua_err());
    }
    with_running(lua, |running| running.is_disturbed = true);
    let error = unwrap(lua, error)?;
    if matches!(&error, Value::String(text) if text.as_bytes() == NO_MEMORY.as_bytes()) {
        // Lua 5.1 does not collect garbage when an allocation fails, so it is done here. The script
        // pays for the time, because a loop of failures must not be free.
        lua.gc_collect()?;
        spend(lua, INSTRUCTIONS_PER_COLLECTION)?;
    }
    Ok(error)
}

fn raised(mut error: &LuaError) -> Raised {
    while let LuaError::CallbackError { cause, .. } | LuaError::BadArgument { cause, .. } = error {
        error = cause;
    }
    let known = match error {
        LuaError::ExternalError(external) => external.downcast_ref().cloned(),
        LuaError::MemoryError(_) => Some(Raised::Text(NO_MEMORY.into())),
        _ => None,
    };
    known.unwrap_or_else(|| Raised::Text(error.to_string().into()))
}

/// The message handler of a script: converts the error to a table, and records the line that raised
/// it.
fn locate(lua: &Lua, error: Value) -> mlua::Result<Table> {
    let table = match unwrap(lua, error)? {
        Value::Table(table) => {
            // A number is text, too.
            let err: Value = table.raw_get("err")?;
            if matches!(err, Value::String(_) | Value::Integer(_) | Value::Number(_))
                && let Some(text) = lua.coerce_string(err)?
            {
                table.raw_set("err", lua.create_string(c_string(&text.as_bytes()))?)?;
            }
            table
        }
        other => {
            let mut text = b"ERR ".to_vec();
            match &other {
                Value::String(message) => text.extend_from_slice(c_string(&message.as_bytes())),
                other => text.extend_from_slice(other.to_string()?.as_bytes()),
            }
            lua.create_table_from([("err", lua.create_string(text)?)])?
        }
    };
    if let Some(Place { source, line }) = place(lua) {
        table.raw_set("source", source)?;
        table.raw_set("line", line)?;
    }
    Ok(table)
}
