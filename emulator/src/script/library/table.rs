//! Functions whose work grows with a list or a text: `table.concat`, and the costs of
//! Lua's own functions.

use mlua::{Lua, LuaString, MultiValue, Table, Value};

use crate::script::args::{Args, raise, truncate, type_name};
use crate::script::budget::{check_size, spend, spend_bytes, spend_values};
use crate::script::c_api::unpack;
use crate::script::vm::with_running;

/// How many bytes count as one instruction when the garbage collector visits them.
const COLLECTED_BYTES_PER_INSTRUCTION: usize = 8;

/// The functions by name. The sandbox calls a `pay_for_…` function before the C function of that
/// name.
pub(in crate::script) fn functions(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("unpack", unpack(lua)?)?;
    table.raw_set("concat", lua.create_function(|lua, args| concat(lua, &args))?)?;
    let pay = |name, cost: Cost| {
        let pay = move |lua: &Lua, args: MultiValue| {
            let instructions = cost(&Args::new(lua, &args))?;
            spend(lua, instructions as u64)
        };
        table.raw_set(name, lua.create_function(pay)?)
    };
    pay("pay_for_insert", |args| if args.len() == 3 { n_moved(args, i64::MIN) } else { Ok(0) })?;
    pay("pay_for_remove", |args| if args.len() == 2 { n_moved(args, 1) } else { Ok(0) })?;
    pay("pay_for_maxn", |args| Ok(list(args).map_or(0, |list| list.pairs::<Value, Value>().count())))?;
    pay("pay_for_text", |args| {
        Ok(args.get(1).and_then(Value::as_string).map_or(0, |text| text.as_bytes().len()))
    })?;
    pay("pay_for_collection", |args| {
        with_running(args.lua, |running| running.is_disturbed = true);
        Ok(args.lua.used_memory() / COLLECTED_BYTES_PER_INSTRUCTION)
    })?;
    Ok(table)
}

/// `table.concat(list [, separator [, i [, j]]])`
fn concat(lua: &Lua, args: &MultiValue) -> mlua::Result<LuaString> {
    let args = Args::new(lua, args);
    let separator = if args.is_nil(2) { lua.create_string("")? } else { args.string(2)? };
    let separator = separator.as_bytes();
    let list = list(&args).ok_or_else(|| args.wrong_type(1, "table"))?;
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

/// Computes how many instructions the work of a function costs with these arguments.
type Cost = fn(&Args<'_>) -> mlua::Result<usize>;

/// How many values `table.insert(list, place, value)` and `table.remove(list, place)` move.
///
/// All values after the place move, whether or not there is a value at the place. For a place below
/// `first` nothing moves.
fn n_moved(args: &Args<'_>, first: i64) -> mlua::Result<usize> {
    let place = args.get(2).map(|place| args.lua.coerce_number(place.clone())).transpose()?.flatten();
    Ok(match (list(args), place.map(truncate)) {
        (Some(list), Some(place)) if place >= first => {
            (list.raw_len() as i64).saturating_sub(place).try_into().unwrap_or_default()
        }
        _ => 0,
    })
}

fn list<'a>(args: &Args<'a>) -> Option<&'a Table> {
    args.get(1).and_then(Value::as_table)
}
