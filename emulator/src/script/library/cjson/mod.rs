//! `cjson`: JSON. <https://github.com/mpx/lua-cjson>
//!
//! Numbers, nesting, errors and the order of keys differ from those of common JSON libraries, and
//! scripts can observe each of them. So the emulator has its own reader and writer.

mod config;
mod decode;
mod encode;

use mlua::{IntoLuaMulti, Lua, Table, Value};

pub use config::Config;
use config::{PRECISION_MAX, Settings};

use crate::script::args::{Args, function};
use crate::script::spend::spend;

/// How many instructions count for an instance of the library.
const INSTRUCTIONS_PER_INSTANCE: u64 = 1000;
const OFF_ON: &[&str] = &["off", "on"];
const OFF_ON_NULL: &[&str] = &["off", "on", "null"];

/// The library. Its functions are in Redis's order, because `pairs` shows the order.
pub(super) fn library(lua: &Lua, config: &Config) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let set = |name, convert: fn(&Args<'_>, &Settings) -> mlua::Result<Value>| {
        let config = config.clone();
        let convert_one = move |args: &Args<'_>| {
            if args.len() == 1 {
                convert(args, &config.get())
            } else {
                Err(args.error(1, "expected 1 argument"))
            }
        };
        table.raw_set(name, function(lua, convert_one)?)
    };
    set("encode", encode::encode)?;
    set("decode", decode::decode)?;
    setting(lua, &table, config, "encode_sparse_array", 3, |args, settings| {
        Ok((
            choice(args, 1, &mut settings.sparse_convert, OFF_ON)?,
            integer(args, 2, &mut settings.sparse_ratio, 0, i32::MAX)?,
            integer(args, 3, &mut settings.sparse_safe, 0, i32::MAX)?,
        ))
    })?;
    setting(lua, &table, config, "encode_max_depth", 1, |args, settings| {
        integer(args, 1, &mut settings.encode_depth_max, 1, i32::MAX)
    })?;
    setting(lua, &table, config, "decode_max_depth", 1, |args, settings| {
        integer(args, 1, &mut settings.decode_depth_max, 1, i32::MAX)
    })?;
    setting(lua, &table, config, "encode_number_precision", 1, |args, settings| {
        integer(args, 1, &mut settings.precision, 1, PRECISION_MAX)
    })?;
    setting(lua, &table, config, "encode_keep_buffer", 1, |args, settings| {
        choice(args, 1, &mut settings.keep_buffer, OFF_ON)
    })?;
    setting(lua, &table, config, "encode_invalid_numbers", 1, |args, settings| {
        choice(args, 1, &mut settings.encode_invalid, OFF_ON_NULL)
    })?;
    setting(lua, &table, config, "decode_invalid_numbers", 1, |args, settings| {
        choice(args, 1, &mut settings.decode_invalid, OFF_ON)
    })?;
    let new = |args: &Args<'_>| {
        spend(args.lua, INSTRUCTIONS_PER_INSTANCE)?;
        library(args.lua, &Config::default())
    };
    table.raw_set("new", function(lua, new)?)?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}

/// Registers a function that changes settings if it has arguments, and returns the current
/// settings.
fn setting<R: IntoLuaMulti + 'static>(
    lua: &Lua,
    table: &Table,
    config: &Config,
    name: &str,
    args_max: usize,
    change: fn(&Args<'_>, &mut Settings) -> mlua::Result<R>,
) -> mlua::Result<()> {
    let config = config.clone();
    let function = function(lua, move |args| {
        if args.len() > args_max {
            return Err(args.error(args_max + 1, "found too many arguments"));
        }
        config.change(|settings| change(args, settings))
    })?;
    table.raw_set(name, function)
}

fn integer(args: &Args<'_>, place: usize, setting: &mut i32, min: i32, max: i32) -> mlua::Result<i32> {
    if !args.is_nil(place) {
        let value = args.int(place)?;
        if !(min..=max).contains(&value) {
            return Err(args.error(1, format!("expected integer between {min} and {max}")));
        }
        *setting = value;
    }
    Ok(*setting)
}

/// Sets `setting` to the position of a word among `words`. The first two words may also be given as
/// a boolean.
fn choice(args: &Args<'_>, place: usize, setting: &mut usize, words: &[&'static str]) -> mlua::Result<Value> {
    match args.get(place) {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(yes)) => *setting = usize::from(*yes),
        Some(_) => *setting = args.option(place, words)?,
    }
    match *setting {
        0 => Ok(Value::Boolean(false)),
        1 => Ok(Value::Boolean(true)),
        word => Ok(Value::String(args.lua.create_string(words[word])?)),
    }
}
