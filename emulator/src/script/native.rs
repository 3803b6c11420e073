//! What Rust provides to the sandbox: Lua's own functions where they need help, and the errors of all.
//!
//! What may fail must stand here: a script that ends with `return redis.call(…)` leaves no frame behind for a Lua function to
//! tell the line of, but it does for one of Rust.

use mlua::{Error as LuaError, Function, Lua, MultiValue, Table, Value};

use super::Host;
use super::args::{raise, raise_bare};
use super::library::{CONTENTS, JsonConfig, NEXT, libraries};
use super::random::{random, randomseed};
use super::redis::redis;
use super::register::register_function;
use super::vm::SANDBOX_NAME;
use crate::error::Error;

/// How far up the stack the line of an error is looked for.
const LEVELS_MAX: usize = 8;

/// Errors that Lua's core raises, which tells no line when a function of C made the mistake.
const WITHOUT_LINE: &[&str] = &["table index is ", "invalid key to "];

/// What the sandbox cannot do itself.
pub(super) fn natives<H: Host>(lua: &Lua, json: &JsonConfig) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    let contents = lua.create_table()?;
    lua.set_named_registry_value(CONTENTS, &contents)?;
    lua.set_named_registry_value(NEXT, lua.globals().get::<Function>("next")?)?;
    native.set("redis", redis::<H>(lua)?)?;
    native.set("register", lua.create_function(|lua, args| register_function::<H>(lua, &args))?)?;
    native.set("libraries", libraries(lua, json)?)?;
    native.set("random", lua.create_function(|lua, bounds: MultiValue| random::<H>(lua, &bounds))?)?;
    native.set("randomseed", lua.create_function(|lua, args: MultiValue| randomseed::<H>(lua, &args))?)?;
    for (name, access) in [
        ("relay", (|_, _| Ok(())) as Access),
        ("relay_read", |contents, args| {
            if let Some(table) = args.front_mut()
                && let seen @ Value::Table(_) = contents.raw_get(&*table)?
            {
                *table = seen;
            }
            Ok(())
        }),
        ("relay_write", |contents, args| match args.front() {
            Some(table @ Value::Table(_)) if contents.contains_key(table)? => {
                Err(raise_bare("Attempt to modify a readonly table"))
            }
            _ => Ok(()),
        }),
    ] {
        let contents = contents.clone();
        let make = move |lua: &Lua, function: Function| {
            let contents = contents.clone();
            lua.create_function(move |lua, args| relay(lua, &function, &contents, access, args))
        };
        native.set(name, lua.create_function(make)?)?;
    }
    native.set("contents", contents)?;
    native.set("unwrap", lua.create_function(unwrap_caught)?)?;
    native.set("is_fatal", lua.create_function(|_, error: Value| Ok(is_fatal(&error)))?)?;
    native.set("locate", lua.create_function(|lua, error: Value| locate(lua, error))?)?;
    Ok(native)
}

/// What becomes of a read-only table that is a function's first argument.
type Access = fn(&Table, &mut MultiValue) -> mlua::Result<()>;

/// Calls a function of Lua or of the sandbox as if it stood in place of this one: its errors tell the line of the script.
fn relay(
    lua: &Lua,
    function: &Function,
    contents: &Table,
    access: Access,
    mut args: MultiValue,
) -> mlua::Result<MultiValue> {
    access(contents, &mut args)?;
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
    Err(raise(lua, message.replacen("'?'", &format!("'{}'", name.as_deref().unwrap_or("?")), 1)))
}

/// An error that a native function raises.
#[derive(Debug)]
pub(super) enum Raised {
    /// `{err = '…'}`
    Table(Error),
    /// The same, but no script can catch it.
    Fatal(Error),
    /// A string, as Lua's own functions raise it.
    Text(Vec<u8>),
}

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Raised::Table(error) | Raised::Fatal(error) => error.fmt(f),
            Raised::Text(text) => f.write_str(&String::from_utf8_lossy(text)),
        }
    }
}

impl std::error::Error for Raised {}

/// What a script sees of an error: of one that was raised in Rust the Lua value that it stands for, of others themselves.
fn unwrap(lua: &Lua, error: Value) -> mlua::Result<Value> {
    let Value::Error(error) = &error else { return Ok(error) };
    match raised(error) {
        Some(Raised::Table(error) | Raised::Fatal(error)) => {
            let err = lua.create_string(error.as_bytes())?;
            Ok(Value::Table(lua.create_table_from([("err", err)])?))
        }
        Some(Raised::Text(text)) => Ok(Value::String(lua.create_string(text)?)),
        None => Ok(Value::String(lua.create_string(error.to_string())?)),
    }
}

/// The same for a script that has caught it: what is fatal is raised again.
fn unwrap_caught(lua: &Lua, error: Value) -> mlua::Result<Value> {
    if is_fatal(&error)
        && let Value::Error(error) = error
    {
        return Err(*error);
    }
    unwrap(lua, error)
}

fn is_fatal(error: &Value) -> bool {
    matches!(error, Value::Error(error) if matches!(raised(error), Some(Raised::Fatal(_))))
}

fn raised(mut error: &LuaError) -> Option<&Raised> {
    while let LuaError::CallbackError { cause, .. } | LuaError::BadArgument { cause, .. } = error {
        error = cause;
    }
    if let LuaError::ExternalError(external) = error { external.downcast_ref() } else { None }
}

/// The message handler of a script: makes the error a table, and notes the line that raised it.
fn locate(lua: &Lua, error: Value) -> mlua::Result<Table> {
    let table = match unwrap(lua, error)? {
        Value::Table(table) => table,
        other => {
            let mut text = b"ERR ".to_vec();
            match &other {
                Value::String(message) => text.extend_from_slice(&message.as_bytes()),
                other => text.extend_from_slice(other.to_string()?.as_bytes()),
            }
            lua.create_table_from([("err", lua.create_string(text)?)])?
        }
    };
    // The first function that is the script's own: what raised may be C, Rust or the sandbox, and these have no line to tell.
    for level in 1..=LEVELS_MAX {
        let place = lua.inspect_stack(level, |frame| {
            let source = frame.source().source.unwrap_or_default().into_owned();
            let is_own = !matches!(frame.source().what, "C" | "tail") && source != SANDBOX_NAME;
            is_own.then(|| (source, frame.current_line()))
        });
        match place {
            None => break,
            Some(None) => {}
            Some(Some((source, line))) => {
                table.raw_set("source", source)?;
                table.raw_set("line", line.map_or(-1, |line| line as i64))?;
                break;
            }
        }
    }
    Ok(table)
}
