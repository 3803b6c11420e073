//! `cjson.encode(value)`

use mlua::{Function, Lua, Table, Value};

use super::config::Settings;
use crate::reply::format_significant;
use crate::script::args::{Args, raise, type_name};
use crate::script::library::state::{NEXT, STACK_SLOTS_MAX, contents};
use crate::script::spend::{check_size, spend_bytes, spend_values};

pub(super) fn encode(args: &Args<'_>, settings: &Settings) -> mlua::Result<Value> {
    let mut output = Output { lua: args.lua, settings, bytes: Vec::new() };
    output.document(args.get(1).unwrap_or(&Value::Nil))?;
    Ok(Value::String(args.lua.create_string(output.bytes)?))
}

struct Output<'a> {
    lua: &'a Lua,
    settings: &'a Settings,
    bytes: Vec<u8>,
}

/// A table that is partly written.
enum Open {
    Array { table: Table, length: i32, idx: i32 },
    Object { table: Table, key: Value },
}

impl Output<'_> {
    /// Writes one value. Nested tables are kept in a list, so that deep nesting cannot overflow the
    /// stack.
    fn document(&mut self, value: &Value) -> mlua::Result<()> {
        let next: Function = self.lua.named_registry_value(NEXT)?;
        let mut open: Vec<Open> = Vec::new();
        let mut n_slots = 1;
        let mut value = value.clone();
        loop {
            spend_values(self.lua, 1)?;
            check_size(self.lua, self.bytes.len())?;
            match &value {
                Value::Table(table) => {
                    let depth = open.len() + 1;
                    if depth > self.settings.encode_depth_max as usize || n_slots + 3 > STACK_SLOTS_MAX {
                        let text = format!("Cannot serialise, excessive nesting ({depth})");
                        return Err(raise(self.lua, text));
                    }
                    let table = contents(self.lua, table)?;
                    let length = self.array_length(&table)?;
                    let is_array = length > 0;
                    self.raw(if is_array { "[" } else { "{" });
                    n_slots += if is_array { 1 } else { 2 };
                    open.push(if is_array {
                        Open::Array { table, length, idx: 0 }
                    } else {
                        Open::Object { table, key: Value::Nil }
                    });
                }
                single => self.single(single)?,
            }
            loop {
                match open.last_mut() {
                    None => return Ok(()),
                    Some(Open::Array { table, length, idx }) if *idx < *length => {
                        if *idx > 0 {
                            self.raw(",");
                        }
                        *idx += 1;
                        value = table.raw_get(*idx)?;
                        break;
                    }
                    Some(Open::Array { .. }) => {
                        self.raw("]");
                        n_slots -= 1;
                    }
                    Some(Open::Object { table, key }) => {
                        let is_first = key.is_nil();
                        let (next_key, next_value): (Value, Value) = next.call((&*table, &*key))?;
                        if !next_key.is_nil() {
                            if !is_first {
                                self.raw(",");
                            }
                            self.key(&next_key)?;
                            (*key, value) = (next_key, next_value);
                            break;
                        }
                        self.raw("}");
                        n_slots -= 2;
                    }
                }
                open.pop();
            }
        }
    }

    fn single(&mut self, value: &Value) -> mlua::Result<()> {
        match value {
            Value::String(text) => self.text(&text.as_bytes())?,
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::Boolean(yes) => self.raw(if *yes { "true" } else { "false" }),
            Value::Nil => self.raw("null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.raw("null"),
            other => return Err(self.refuse(type_name(other), "type not supported")),
        }
        Ok(())
    }

    fn key(&mut self, key: &Value) -> mlua::Result<()> {
        match key {
            Value::Integer(_) | Value::Number(_) => {
                self.raw("\"");
                self.single(key)?;
                self.raw("\"");
            }
            Value::String(text) => self.text(&text.as_bytes())?,
            other => return Err(self.refuse(type_name(other), "table key must be a number or string")),
        }
        self.raw(":");
        Ok(())
    }

    /// The largest key of a table whose keys are positive integers without too many gaps. The
    /// result for any other table is 0 or less.
    fn array_length(&self, table: &Table) -> mlua::Result<i32> {
        let (mut max, mut count) = (0_i32, 0_i64);
        for pair in table.pairs::<Value, Value>() {
            let key = match pair?.0 {
                Value::Integer(key) if key >= 1 => key as f64,
                Value::Number(key) if key >= 1.0 && key.floor() == key => key,
                _ => return Ok(-1),
            };
            if key > f64::from(max) {
                max = if key <= f64::from(i32::MAX) { key as i32 } else { i32::MIN };
            }
            count += 1;
        }
        spend_values(self.lua, count as usize)?;
        let Settings { sparse_convert, sparse_ratio, sparse_safe, .. } = *self.settings;
        let is_sparse =
            sparse_ratio > 0 && i64::from(max) > count * i64::from(sparse_ratio) && max > sparse_safe;
        match (is_sparse, sparse_convert) {
            (false, _) => Ok(max),
            (true, 0) => Err(self.refuse("table", "excessively sparse array")),
            (true, _) => Ok(-1),
        }
    }

    fn text(&mut self, text: &[u8]) -> mlua::Result<()> {
        spend_bytes(self.lua, text.len())?;
        self.bytes.push(b'"');
        for &byte in text {
            let escape = match byte {
                b'"' => "\\\"",
                b'\\' => "\\\\",
                b'/' => "\\/",
                0x08 => "\\b",
                b'\t' => "\\t",
                b'\n' => "\\n",
                0x0c => "\\f",
                b'\r' => "\\r",
                0..0x20 | 0x7f => {
                    self.raw(&format!("\\u{byte:04x}"));
                    continue;
                }
                plain => {
                    self.bytes.push(plain);
                    continue;
                }
            };
            self.raw(escape);
        }
        self.bytes.push(b'"');
        Ok(())
    }

    fn number(&mut self, number: f64) -> mlua::Result<()> {
        if !number.is_finite() {
            match self.settings.encode_invalid {
                0 => return Err(self.refuse("number", "must not be NaN or Inf")),
                1 if number.is_nan() => self.raw("nan"),
                1 => self.raw(if number > 0.0 { "inf" } else { "-inf" }),
                _ => self.raw("null"),
            }
        } else {
            self.raw(&format_significant(number, self.settings.precision as usize));
        }
        Ok(())
    }

    fn raw(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn refuse(&self, type_name: &str, why: &str) -> mlua::Error {
        raise(self.lua, format!("Cannot serialise {type_name}: {why}"))
    }
}
