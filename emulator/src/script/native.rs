//! What Rust provides to the sandbox: running commands, random numbers, and the errors of both.

use mlua::{Error as LuaError, ExternalError as _, Lua, MultiValue, Table, Value};
use smallvec::SmallVec;

use super::convert::{Argument, argument, to_lua};
use super::{Host, Running, SANDBOX_NAME, running, sha1_hex};
use crate::error::Error;
use crate::reply::Reply;
use crate::resp::Protocol;

/// How far up the stack the line of an error is looked for.
const LEVELS_MAX: usize = 8;

/// What the sandbox cannot do itself. What may fail must stand here: a script that ends with `return redis.call(…)` leaves
/// no frame behind for a Lua function to tell the line of, but it does for one of Rust.
pub(super) fn natives<H: Host>(lua: &Lua) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    native.set(
        "call",
        lua.create_function(|lua, args: MultiValue| match call_command::<H>(lua, &args) {
            (Reply::Error(error), _) => Err(Raised::Table(error).into_lua_err()),
            (reply, protocol) => to_lua(lua, &reply, protocol),
        })?,
    )?;
    native.set(
        "pcall",
        lua.create_function(|lua, args: MultiValue| {
            let (reply, protocol) = call_command::<H>(lua, &args);
            let value = to_lua(lua, &reply, protocol)?;
            if let (Reply::Error(_), Value::Table(error)) = (&reply, &value) {
                error.raw_set("ignore_error_stats_update", true)?;
            }
            Ok(value)
        })?,
    )?;
    native.set(
        "sha1hex",
        lua.create_function(|lua, args: MultiValue| {
            if args.len() != 1 {
                let error = Error::from_static("ERR wrong number of arguments");
                return Err(Raised::Table(error).into_lua_err());
            }
            lua.create_string(sha1_hex(argument(&args[0]).as_deref().unwrap_or_default()))
        })?,
    )?;
    native.set(
        "setresp",
        lua.create_function(|lua, version: f64| {
            let protocol = if version == 3.0 { Protocol::Resp3 } else { Protocol::Resp2 };
            running::<H>(lua).rules.protocol = protocol;
            Ok(())
        })?,
    )?;
    native.set("random", lua.create_function(|lua, bounds: MultiValue| random::<H>(lua, &bounds))?)?;
    native.set(
        "randomseed",
        lua.create_function(|lua, args: MultiValue| {
            let seed = check_int(lua, "randomseed", &args, 0)?;
            running::<H>(lua).random = Random::from_seed(seed as u32);
            Ok(())
        })?,
    )?;
    native.set("unwrap", lua.create_function(unwrap)?)?;
    native.set("locate", lua.create_function(|lua, error: Value| locate(lua, error))?)?;
    Ok(native)
}

/// Runs a command, and gives its reply with the protocol in whose types the script wants to see it.
fn call_command<H: Host>(lua: &Lua, args: &MultiValue) -> (Reply, Protocol) {
    let argv: Option<SmallVec<[Argument; 8]>> = args.iter().map(argument).collect();
    let argv: Option<SmallVec<[&[u8]; 8]>> =
        argv.as_ref().map(|argv| argv.iter().map(|arg| &**arg).collect());
    let mut running = running::<H>(lua);
    let Running { host, rules, .. } = &mut *running;
    let reply = match argv.as_deref() {
        Some([]) => Reply::Error(Error::from_static(
            "ERR Please specify at least one argument for this redis lib call",
        )),
        None => Reply::Error(Error::from_static(
            "ERR Lua redis lib command arguments must be strings or integers",
        )),
        Some(argv) => host.as_mut().expect("commands are called while a script runs").call(argv, *rules),
    };
    (reply, rules.protocol)
}

/// An error that a native function raises.
#[derive(Debug)]
pub(super) enum Raised {
    /// `{err = '…'}`
    Table(Error),
    /// A string, as Lua's own functions raise it.
    Text(String),
}

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Raised::Table(error) => error.fmt(f),
            Raised::Text(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Raised {}

/// What a script sees of an error: of one that was raised in Rust the Lua value that it stands for, of others themselves.
fn unwrap(lua: &Lua, error: Value) -> mlua::Result<Value> {
    let Value::Error(error) = &error else { return Ok(error) };
    let mut error: &LuaError = error;
    while let LuaError::CallbackError { cause, .. } | LuaError::BadArgument { cause, .. } = error {
        error = cause;
    }
    let raised = match error {
        LuaError::ExternalError(external) => external.downcast_ref::<Raised>(),
        _ => None,
    };
    match raised {
        Some(Raised::Table(error)) => {
            let err = lua.create_string(error.as_bytes())?;
            Ok(Value::Table(lua.create_table_from([("err", err)])?))
        }
        Some(Raised::Text(text)) => Ok(Value::String(lua.create_string(text)?)),
        None => Ok(Value::String(lua.create_string(error.to_string())?)),
    }
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

/// `drand48`'s generator, which Redis puts behind `math.random`. Here every script begins as the first one of a server does,
/// so that no script can tell what ran before it.
pub(super) struct Random(u64);

impl Default for Random {
    fn default() -> Random {
        Random(0x1234_ABCD_330E)
    }
}

impl Random {
    fn from_seed(seed: u32) -> Random {
        Random(u64::from(seed) << 16 | 0x330E)
    }

    /// The next number from 0 up to, but not including, 1.
    fn draw(&mut self) -> f64 {
        const MODULUS: u32 = i32::MAX as u32;
        self.0 = self.0.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & ((1 << 48) - 1);
        f64::from((self.0 >> 17) as u32 % MODULUS) / f64::from(MODULUS)
    }
}

/// `math.random([m [, n]])`
fn random<H: Host>(lua: &Lua, bounds: &MultiValue) -> mlua::Result<f64> {
    let drawn = running::<H>(lua).random.draw();
    let (low, high) = match bounds.len() {
        0 => return Ok(drawn),
        1 => (1, check_int(lua, "random", bounds, 0)?),
        2 => (check_int(lua, "random", bounds, 0)?, check_int(lua, "random", bounds, 1)?),
        _ => return Err(raise_text(lua, "wrong number of arguments")),
    };
    if low > high {
        let text = format!("bad argument #{} to 'random' (interval is empty)", bounds.len());
        return Err(raise_text(lua, &text));
    }
    let (low, high) = (f64::from(low), f64::from(high));
    Ok((drawn * (high - low + 1.0)).floor() + low)
}

/// C's `luaL_checkint`: a number, or text that is one, cut down to 32 bits.
fn check_int(lua: &Lua, function: &str, args: &MultiValue, idx: usize) -> mlua::Result<i32> {
    let value = args.get(idx).cloned();
    let number = lua.coerce_number(value.clone().unwrap_or(Value::Nil))?;
    number.map(|number| number as i64 as i32).ok_or_else(|| {
        let got = value.map_or("no value", |value| value.type_name());
        let place = idx + 1;
        raise_text(lua, &format!("bad argument #{place} to '{function}' (number expected, got {got})"))
    })
}

/// An error with the line of the caller in front, as Lua's own functions raise it.
fn raise_text(lua: &Lua, text: &str) -> LuaError {
    let place = lua.inspect_stack(1, |frame| {
        let source = frame.source().short_src.unwrap_or_default().into_owned();
        frame.current_line().map(|line| format!("{source}:{line}: "))
    });
    Raised::Text(place.flatten().unwrap_or_default() + text).into_lua_err()
}
