//! `cmsgpack`: MessagePack.
//! <https://redis.io/docs/latest/develop/programmability/lua-api/#cmsgpack-library>
//!
//! Integers use the fewest bytes. A double is stored as a float if no precision is lost. A table
//! whose keys are 1 to n is an array.

use mlua::{Lua, MultiValue, Table, Value};

use super::state::{STACK_SLOTS_MAX, contents};
use crate::script::args::{Args, function, raise, raise_bare};
use crate::script::c_values::truncate;
use crate::script::spend::{check_size, spend_bytes, spend_values};

/// Tables that are nested deeper are packed as nil.
const NESTING_MAX: usize = 16;
const TOO_MANY: &str = "too many return values at once; use unpack_one or unpack_limit instead.";

/// The library. Its functions are in Redis's order, because `pairs` shows the order.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", function(lua, pack)?)?;
    let unpack = |name, limits: fn(&Args<'_>) -> mlua::Result<(i64, i64, usize)>| {
        let function = function(lua, move |args| {
            let (limit, offset, n_slots) = limits(args)?;
            unpack(args, limit, offset, n_slots)
        })?;
        table.raw_set(name, function)
    };
    unpack("unpack", |args| Ok((0, 0, args.len())))?;
    unpack("unpack_one", |args| Ok((1, args.integer_or(2, 0)?, 1)))?;
    unpack("unpack_limit", |args| Ok((args.integer(2)?, args.integer_or(3, 0)?, 1)))?;
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.raw_set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    table.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(table)
}

/// `cmsgpack.pack(value, …)`
fn pack(args: &Args<'_>) -> mlua::Result<Value> {
    if args.len() == 0 {
        return Err(args.error(0, "MessagePack pack needs input."));
    }
    if args.len() * 2 > STACK_SLOTS_MAX {
        return Err(args.error(0, "Too many arguments for MessagePack pack."));
    }
    let mut output = Vec::new();
    for place in 1..=args.len() {
        encode(args.lua, args.get(place).unwrap_or(&Value::Nil), NESTING_MAX, &mut output)?;
    }
    Ok(Value::String(args.lua.create_string(output)?))
}

fn encode(lua: &Lua, value: &Value, nesting: usize, output: &mut Vec<u8>) -> mlua::Result<()> {
    match value {
        Value::Boolean(yes) => output.push(if *yes { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => encode_integer(*number, output),
        Value::Number(number) => encode_number(*number, output),
        Value::String(text) => {
            let text = text.as_bytes();
            spend_bytes(lua, text.len())?;
            check_size(lua, output.len() + text.len())?;
            encode_length(text.len(), &[(31, 0xa0), (0xff, 0xd9), (0xffff, 0xda), (LONG, 0xdb)], output);
            output.extend_from_slice(&text);
        }
        Value::Table(table) if nesting > 0 => {
            let table = contents(lua, table)?;
            let (length, is_array) = measure(&table)?;
            spend_values(lua, 1 + length)?;
            check_size(lua, output.len())?;
            if is_array {
                encode_length(length, &[(15, 0x90), (0xffff, 0xdc), (LONG, 0xdd)], output);
                for idx in 1..=length {
                    encode(lua, &table.raw_get(idx)?, nesting - 1, output)?;
                }
            } else {
                encode_length(length, &[(15, 0x80), (0xffff, 0xde), (LONG, 0xdf)], output);
                for pair in table.pairs() {
                    let (key, value): (Value, Value) = pair?;
                    encode(lua, &key, nesting - 1, output)?;
                    encode(lua, &value, nesting - 1, output)?;
                }
            }
        }
        _ => output.push(0xc0),
    }
    Ok(())
}

/// The number of pairs, and whether their keys are exactly 1 to n.
fn measure(table: &Table) -> mlua::Result<(usize, bool)> {
    let (mut length, mut last) = (0, Some(0));
    for pair in table.pairs() {
        let (key, _): (Value, Value) = pair?;
        length += 1;
        let place = match key {
            Value::Integer(place) => i32::try_from(place).ok().filter(|place| *place > 0),
            _ => None,
        };
        last = last.zip(place).map(|(last, place)| place.max(last));
    }
    Ok((length, last.is_some_and(|last| last as usize == length)))
}

const LONG: usize = 0xffff_ffff;

/// Appends a length in the first of these forms that has room for it. In the single-byte form, the
/// length is part of the mark.
fn encode_length(length: usize, forms: &[(usize, u8)], output: &mut Vec<u8>) {
    let (max, mark) = forms.iter().find(|(max, _)| length <= *max).copied().unwrap_or((LONG, 0xc0));
    match max {
        0xff => output.extend_from_slice(&[mark, length as u8]),
        0xffff => {
            output.push(mark);
            output.extend_from_slice(&(length as u16).to_be_bytes());
        }
        LONG => {
            output.push(mark);
            output.extend_from_slice(&(length as u32).to_be_bytes());
        }
        _ => output.push(mark | length as u8),
    }
}

fn encode_number(number: f64, output: &mut Vec<u8>) {
    let integer = truncate(number);
    let float = number as f32;
    if integer as f64 == number {
        encode_integer(integer, output);
    } else if f64::from(float) == number {
        output.push(0xca);
        output.extend_from_slice(&float.to_be_bytes());
    } else {
        output.push(0xcb);
        output.extend_from_slice(&number.to_be_bytes());
    }
}

fn encode_integer(number: i64, output: &mut Vec<u8>) {
    let (mark, size) = match number {
        -32..=0x7f => return output.push(number as u8),
        0x80..=0xff => (0xcc, 1),
        0x100..=0xffff => (0xcd, 2),
        0x1_0000..=0xffff_ffff => (0xce, 4),
        0x1_0000_0000.. => (0xcf, 8),
        -0x80..=-33 => (0xd0, 1),
        -0x8000..=-0x81 => (0xd1, 2),
        -0x8000_0000..=-0x8001 => (0xd2, 4),
        ..=-0x8000_0001 => (0xd3, 8),
    };
    output.push(mark);
    output.extend_from_slice(&number.to_be_bytes()[8 - size..]);
}

/// `cmsgpack.unpack(packed)`, `cmsgpack.unpack_one(packed [, offset])`,
/// `cmsgpack.unpack_limit(packed, limit [, offset])`: returns the next offset and up to `limit`
/// values. If `limit` and `offset` are 0, it returns all values, without the next offset.
fn unpack(args: &Args<'_>, limit: i64, offset: i64, n_slots: usize) -> mlua::Result<MultiValue> {
    let packed = args.string(1)?;
    let packed = packed.as_bytes();
    let len = packed.len();
    // The errors show 32 bits of the offset, as in C.
    let shown = offset as i32;
    if offset < 0 || limit < 0 {
        let text = format!("Invalid request to unpack with offset of {shown} and limit of {len}.");
        return Err(raise(args.lua, text));
    }
    let Some(rest) = packed.get(offset as usize..) else {
        return Err(raise(args.lua, format!("Start offset {shown} greater than input length {len}.")));
    };
    let is_all = limit == 0 && offset == 0;
    let limit = if is_all { usize::MAX } else { limit as usize };
    let mut input = Input { lua: args.lua, rest };
    let mut values: Vec<Value> = Vec::new();
    while !input.rest.is_empty() && values.len() < limit {
        let value = input.decode(n_slots + values.len())?;
        values.push(value);
    }
    if !is_all {
        let next = if input.rest.is_empty() { -1.0 } else { (len - input.rest.len()) as f64 };
        values.insert(0, Value::Number(next));
    }
    Ok(values.into())
}

/// The bytes that are left to unpack.
struct Input<'a> {
    lua: &'a Lua,
    rest: &'a [u8],
}

/// A table that is partly unpacked.
enum Open {
    Array { table: Table, n_left: u32, place: i64 },
    Map { table: Table, n_left: u32, key: Option<Value> },
}

impl Input<'_> {
    /// Unpacks one value. Nested tables are kept in a list, so that deep nesting cannot overflow
    /// the stack.
    fn decode(&mut self, n_slots: usize) -> mlua::Result<Value> {
        let mut open: Vec<Open> = Vec::new();
        loop {
            let n_taken = n_slots + 2 * open.len();
            self.check_slots(n_taken + 1, TOO_MANY)?;
            spend_values(self.lua, 1)?;
            let mut value = match self.decode_begin()? {
                Begun::Value(value) => value,
                Begun::Array(n_left) => {
                    self.check_slots(n_taken + 2, "in function mp_decode_to_lua_array")?;
                    let table = self.lua.create_table()?;
                    if n_left > 0 {
                        open.push(Open::Array { table, n_left, place: 0 });
                        continue;
                    }
                    Value::Table(table)
                }
                Begun::Map(n_left) => {
                    let table = self.lua.create_table()?;
                    if n_left > 0 {
                        open.push(Open::Map { table, n_left, key: None });
                        continue;
                    }
                    Value::Table(table)
                }
            };
            loop {
                let Some(last) = open.last_mut() else { return Ok(value) };
                match last {
                    Open::Array { table, n_left, place } => {
                        *place += 1;
                        table.raw_set(*place, value)?;
                        *n_left -= 1;
                        if *n_left > 0 {
                            break;
                        }
                        value = Value::Table(table.clone());
                    }
                    Open::Map { key: key @ None, .. } => {
                        *key = Some(value);
                        break;
                    }
                    Open::Map { table, n_left, key } => {
                        let key = key.take().unwrap_or(Value::Nil);
                        match &key {
                            Value::Nil => return Err(raise_bare("table index is nil")),
                            Value::Number(key) if key.is_nan() => {
                                return Err(raise_bare("table index is NaN"));
                            }
                            _ => table.raw_set(key, value)?,
                        }
                        *n_left -= 1;
                        if *n_left > 0 {
                            break;
                        }
                        value = Value::Table(table.clone());
                    }
                }
                open.pop();
            }
        }
    }

    /// Reads a value, or the beginning of a table.
    fn decode_begin(&mut self) -> mlua::Result<Begun> {
        let [mark] = self.take()?;
        let number = |number: f64| Ok(Begun::Value(Value::Number(number)));
        match mark {
            0x00..=0x7f => number(f64::from(mark)),
            0x80..=0x8f => Ok(Begun::Map(u32::from(mark & 0x0f))),
            0x90..=0x9f => Ok(Begun::Array(u32::from(mark & 0x0f))),
            0xa0..=0xbf => self.text(u32::from(mark & 0x1f)),
            0xc0 => Ok(Begun::Value(Value::Nil)),
            0xc2 | 0xc3 => Ok(Begun::Value(Value::Boolean(mark == 0xc3))),
            0xca => number(f32::from_be_bytes(self.take()?).into()),
            0xcb => number(f64::from_be_bytes(self.take()?)),
            0xcc => number(u8::from_be_bytes(self.take()?).into()),
            0xcd => number(u16::from_be_bytes(self.take()?).into()),
            0xce => number(u32::from_be_bytes(self.take()?).into()),
            0xcf | 0xd3 => number(i64::from_be_bytes(self.take()?) as f64),
            0xd0 => number(i8::from_be_bytes(self.take()?).into()),
            0xd1 => number(i16::from_be_bytes(self.take()?).into()),
            0xd2 => number(i32::from_be_bytes(self.take()?).into()),
            0xd9 => self.take().map(u8::from_be_bytes).and_then(|length| self.text(length.into())),
            0xda => self.take().map(u16::from_be_bytes).and_then(|length| self.text(length.into())),
            0xdb => self.take().map(u32::from_be_bytes).and_then(|length| self.text(length)),
            0xdc => Ok(Begun::Array(u16::from_be_bytes(self.take()?).into())),
            0xdd => Ok(Begun::Array(u32::from_be_bytes(self.take()?))),
            0xde => Ok(Begun::Map(u16::from_be_bytes(self.take()?).into())),
            0xdf => Ok(Begun::Map(u32::from_be_bytes(self.take()?))),
            0xe0..=0xff => number(f64::from(mark as i8)),
            0xc1 | 0xc4..=0xc9 | 0xd4..=0xd8 => Err(raise(self.lua, "Bad data format in input.")),
        }
    }

    fn text(&mut self, length: u32) -> mlua::Result<Begun> {
        let (text, rest) = self.rest.split_at_checked(length as usize).ok_or_else(|| self.missing())?;
        self.rest = rest;
        spend_bytes(self.lua, text.len())?;
        Ok(Begun::Value(Value::String(self.lua.create_string(text)?)))
    }

    fn take<const N: usize>(&mut self) -> mlua::Result<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or_else(|| self.missing())?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn missing(&self) -> mlua::Error {
        raise(self.lua, "Missing bytes in input.")
    }

    fn check_slots(&self, n_slots: usize, what: &str) -> mlua::Result<()> {
        let fits = n_slots <= STACK_SLOTS_MAX;
        if fits { Ok(()) } else { Err(raise(self.lua, format!("stack overflow ({what})"))) }
    }
}

enum Begun {
    Value(Value),
    Array(u32),
    Map(u32),
}
