//! Functions whose work grows with a list or a text: `table.concat`, and the costs of the compiler
//! and of the garbage collector.

use mlua::{Lua, LuaString, Table, Value};

use crate::script::args::{Args, function, raise, type_name};
use crate::script::c_api::unpack;
use crate::script::running::with_running;
use crate::script::spend::{check_size, spend, spend_bytes, spend_values};

/// How many bytes count as one instruction when the garbage collector visits them.
const COLLECTED_BYTES_PER_INSTRUCTION: usize = 8;

/// The functions by name. The sandbox calls a `pay_for_…` function before the work.
pub(in crate::script) fn functions(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("unpack", unpack(lua)?)?;
    table.raw_set("concat", function(lua, concat)?)?;
    let pay = |name, cost: Cost| {
        table.raw_set(name, function(lua, move |args| spend(args.lua, cost(args) as u64))?)
    };
    pay("pay_for_text", |args| {
        args.get(1).and_then(Value::as_string).map_or(0, |text| text.as_bytes().len())
    })?;
    pay("pay_for_collection", |args| {
        with_running(args.lua, |running| running.is_disturbed = true);
        args.lua.used_memory() / COLLECTED_BYTES_PER_INSTRUCTION
    })?;
    Ok(table)
}

/// `table.concat(list [, separator [, i [, j]]])`
fn concat(args: &Args<'_>) -> mlua::Result<LuaString> {
    let lua = args.lua;
    let separator = if args.is_nil(2) { lua.create_string("")? } else { args.string(2)? };
    let separator = separator.as_bytes();
    let list = list(args).ok_or_else(|| args.wrong_type(1, "table"))?;
    let first = args.int_or(3, 1)?;
    let last = if args.is_nil(4) { list.raw_len() as i32 } else { args.int(4)? };
    let mut output = Vec::new();
    for idx in first..=last {
        let value: Value = list.raw_get(idx)?;
        let text = match &value {
            Value::String(_) | Value::Integer(_) | Value::Number(_) => lua.coerce_string(value.clone())?,
            _ => None,
        };
        let text = text.ok_or_else(|| {
            let kind = type_name(&value);
            raise(lua, format!("invalid value ({kind}) at index {idx} in table for 'concat'"))
        })?;
        let text = text.as_bytes();
        let separator = if idx < last { &*separator } else { b"" };
        spend_values(lua, 1)?;
        spend_bytes(lua, text.len() + separator.len())?;
        check_size(lua, output.len() + text.len() + separator.len())?;
        output.extend_from_slice(&text);
        output.extend_from_slice(separator);
    }
    lua.create_string(output)
}

/// Computes how many instructions the work costs with these arguments.
type Cost = fn(&Args<'_>) -> usize;

fn list<'a>(args: &Args<'a>) -> Option<&'a Table> {
    args.get(1).and_then(Value::as_table)
}
