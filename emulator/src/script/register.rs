//! `redis.register_function`, which libraries call while they are loaded.
//! <https://redis.io/docs/latest/develop/programmability/lua-api/#redis.register_function>

use bytes::Bytes;
use mlua::{Function, Lua, MultiValue, Table, Value};

use super::c_values::c_string;
use super::redis::{fail, fail_with};
use super::running::{Registered, with_running};
use super::shebang::{FLAGS, check_name};

/// `redis.register_function(name, callback)` or, with named arguments in a table,
/// `redis.register_function{function_name = …}`.
pub(super) fn register_function(lua: &Lua, args: &MultiValue) -> mlua::Result<()> {
    let (name, registered) = match (args.len(), args.front(), args.get(1)) {
        (1, Some(Value::Table(named)), _) => named_arguments(lua, named)?,
        (1, ..) => {
            return Err(fail_with(
                "ERR calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).",
            ));
        }
        (2, Some(name), Some(callback)) => {
            let name = text(lua, name)?
                .ok_or_else(|| fail_with("ERR first argument to redis.register_function must be a string"))?;
            let Value::Function(callback) = callback else {
                return Err(fail_with("ERR second argument to redis.register_function must be a function"));
            };
            let callback = lua.create_registry_value(callback)?;
            (name, Registered { description: None, flags: Vec::new(), callback })
        }
        _ => return Err(fail_with("ERR wrong number of arguments to redis.register_function")),
    };
    with_running(lua, |running| {
        let loading = running.loading.as_mut().ok_or_else(|| {
            fail_with("ERR redis.register_function can only be called on FUNCTION LOAD command")
        })?;
        check_name(&name).map_err(fail)?;
        if loading.contains_key(&name) {
            return Err(fail_with("ERR Function already exists in the library"));
        }
        loading.insert(name, registered);
        Ok(())
    })
}

fn named_arguments(lua: &Lua, named: &Table) -> mlua::Result<(Bytes, Registered)> {
    let (mut name, mut description, mut callback, mut flags) = (None, None, None::<Function>, Vec::new());
    for pair in named.pairs() {
        let (key, value): (Value, Value) = pair?;
        let key = text(lua, &key)?.ok_or_else(|| {
            fail_with("ERR named argument key given to redis.register_function is not a string")
        })?;
        match c_string(&key).to_ascii_lowercase().as_slice() {
            b"function_name" => {
                name = Some(text(lua, &value)?.ok_or_else(|| {
                    fail_with("ERR function_name argument given to redis.register_function must be a string")
                })?);
            }
            b"description" => {
                description = Some(text(lua, &value)?.ok_or_else(|| {
                    fail_with("ERR description argument given to redis.register_function must be a string")
                })?);
            }
            b"callback" => match value {
                Value::Function(function) => callback = Some(function),
                _ => {
                    return Err(fail_with(
                        "ERR callback argument given to redis.register_function must be a function",
                    ));
                }
            },
            b"flags" => match value {
                Value::Table(list) => flags = read_flags(&list)?,
                _ => {
                    return Err(fail_with(
                        "ERR flags argument to redis.register_function must be a table representing function flags",
                    ));
                }
            },
            _ => return Err(fail_with("ERR unknown argument given to redis.register_function")),
        }
    }
    let name =
        name.ok_or_else(|| fail_with("ERR redis.register_function must get a function name argument"))?;
    let callback =
        callback.ok_or_else(|| fail_with("ERR redis.register_function must get a callback argument"))?;
    let callback = lua.create_registry_value(callback)?;
    Ok((name, Registered { description, flags, callback }))
}

/// Reads the flags in a list. The result is in Redis's order, whatever the order in the list. As
/// in Redis, a flag ends at its first NUL, and case does not matter.
fn read_flags(list: &Table) -> mlua::Result<Vec<&'static str>> {
    let mut given = Vec::new();
    for idx in 1.. {
        let flag = match list.raw_get(idx)? {
            Value::Nil => break,
            Value::String(text) => {
                let text = text.as_bytes();
                let word = text.split(|&byte| byte == 0).next().unwrap_or_default();
                FLAGS.iter().find(|flag| word.eq_ignore_ascii_case(flag.as_bytes()))
            }
            _ => None,
        };
        given.push(*flag.ok_or_else(|| fail_with("ERR unknown flag given"))?);
    }
    Ok(FLAGS.iter().copied().filter(|flag| given.contains(flag)).collect())
}

/// A string, or a number as Lua prints it.
fn text(lua: &Lua, value: &Value) -> mlua::Result<Option<Bytes>> {
    match value {
        Value::String(_) | Value::Integer(_) | Value::Number(_) => {
            let text = lua.coerce_string(value.clone())?;
            Ok(text.map(|text| Bytes::copy_from_slice(&text.as_bytes())))
        }
        _ => Ok(None),
    }
}
