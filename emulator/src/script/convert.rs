//! Conversion of values between Lua and Redis: arguments and replies.
//! <https://redis.io/docs/latest/develop/programmability/lua-api/#data-type-conversion>

use bytes::Bytes;
use mlua::{Lua, Table, Value};

use super::args::{c_string, truncate};
use crate::error::Error;
use crate::reply::{Reply, format_double};
use crate::resp::Protocol;

/// An argument of `redis.call` as bytes.
pub(super) enum Argument {
    Lua(mlua::BorrowedBytes),
    Number(String),
}

impl std::ops::Deref for Argument {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Argument::Lua(bytes) => bytes,
            Argument::Number(text) => text.as_bytes(),
        }
    }
}

/// The argument for a value: a string as it is, a number as C prints it with `%.17g`. Other values
/// are not allowed.
pub(super) fn argument(value: &Value) -> Option<Argument> {
    match value {
        Value::String(text) => Some(Argument::Lua(text.as_bytes())),
        Value::Integer(n) => Some(Argument::Number(format_double(*n as f64))),
        Value::Number(n) => Some(Argument::Number(format_double(*n))),
        _ => None,
    }
}

/// A reply as a script sees it: in the types of RESP2, unless the script chose RESP3.
pub(super) fn to_lua(lua: &Lua, reply: &Reply, protocol: Protocol) -> mlua::Result<Value> {
    let convert = |reply: &Reply| to_lua(lua, reply, protocol);
    let typed = |name: &str, value: Value| Ok(Value::Table(lua.create_table_from([(name, value)])?));
    let is_resp3 = protocol == Protocol::Resp3;
    let list = |items: &mut dyn Iterator<Item = &Reply>| -> mlua::Result<Value> {
        let table = lua.create_table()?;
        for item in items {
            table.raw_push(convert(item)?)?;
        }
        Ok(Value::Table(table))
    };
    match reply {
        Reply::Integer(n) => Ok(Value::Number(*n as f64)),
        Reply::BigNumber(digits) if is_resp3 => {
            typed("big_number", Value::String(lua.create_string(digits)?))
        }
        Reply::Verbatim(format, text) if is_resp3 => {
            let parts = [("format", lua.create_string(format)?), ("string", lua.create_string(text)?)];
            typed("verbatim_string", Value::Table(lua.create_table_from(parts)?))
        }
        Reply::Bulk(bytes) | Reply::BigNumber(bytes) | Reply::Verbatim(_, bytes) => {
            Ok(Value::String(lua.create_string(bytes)?))
        }
        Reply::Double(value) if is_resp3 => typed("double", Value::Number(*value)),
        Reply::Double(value) => Ok(Value::String(lua.create_string(format_double(*value))?)),
        Reply::Nil | Reply::NilArray if is_resp3 => Ok(Value::Nil),
        Reply::Nil | Reply::NilArray => Ok(Value::Boolean(false)),
        Reply::Boolean(yes) if is_resp3 => Ok(Value::Boolean(*yes)),
        Reply::Boolean(yes) => Ok(Value::Number(f64::from(u8::from(*yes)))),
        Reply::Status(text) => typed("ok", Value::String(lua.create_string(text)?)),
        Reply::Error(error) => typed("err", Value::String(lua.create_string(error.as_bytes())?)),
        Reply::Set(items) if is_resp3 => {
            let set = lua.create_table()?;
            for item in items {
                set.raw_set(convert(item)?, true)?;
            }
            typed("set", Value::Table(set))
        }
        Reply::Map(pairs) if is_resp3 => {
            let map = lua.create_table()?;
            for (key, value) in pairs {
                map.raw_set(convert(key)?, convert(value)?)?;
            }
            typed("map", Value::Table(map))
        }
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) | Reply::Several(items) => {
            list(&mut items.iter())
        }
        Reply::Settled(_, reply) => convert(reply),
        Reply::Map(pairs) => list(&mut pairs.iter().flat_map(|(key, value)| [key, value])),
    }
}

/// The reply for a value that a script returned.
pub(super) fn to_reply(value: &Value, protocol: Protocol) -> Reply {
    Returned { protocol, n_left: REPLY_ELEMENTS_MAX }
        .reply(value, REPLY_DEPTH_MAX)
        .unwrap_or_else(Reply::Error)
}

/// The deepest nesting of a table that a script may return.
const REPLY_DEPTH_MAX: usize = 200;
/// How many values such a table may hold: as many as a request may have arguments. Because tables
/// may contain each other several times, a small table could become an endless reply.
const REPLY_ELEMENTS_MAX: usize = 1 << 20;

/// The state while a reply is built.
struct Returned {
    protocol: Protocol,
    n_left: usize,
}

impl Returned {
    /// Converts one value.
    ///
    /// # Errors
    /// The whole reply is too large.
    fn reply(&mut self, value: &Value, depth: usize) -> Result<Reply, Error> {
        let Some(depth) = depth.checked_sub(1) else {
            return Ok(Reply::Error(Error::from_static("ERR reached lua stack limit")));
        };
        self.n_left = self.n_left.checked_sub(1).ok_or_else(|| {
            Error::new(format!("ERR the reply of the script has more than {REPLY_ELEMENTS_MAX} elements"))
        })?;
        Ok(match value {
            Value::String(text) => Reply::bulk(text.as_bytes()),
            Value::Integer(n) => Reply::Integer(*n),
            Value::Number(n) => Reply::Integer(truncate(*n)),
            Value::Boolean(yes) if self.protocol == Protocol::Resp3 => Reply::Boolean(*yes),
            Value::Boolean(true) => Reply::Integer(1),
            Value::Table(table) => self.table(table, depth)?,
            _ => Reply::Nil,
        })
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<Reply, Error> {
        let text = |field| match table.raw_get(field) {
            Ok(Value::String(text)) => Some(Bytes::copy_from_slice(&text.as_bytes())),
            _ => None,
        };
        if let Some(err) = text("err") {
            return Ok(Reply::Error(Error::new(err.slice_ref(c_string(&err)))));
        }
        if let Some(ok) = text("ok") {
            return Ok(Reply::Status(ok.slice_ref(c_string(&ok))));
        }
        if let Ok(Value::Number(_) | Value::Integer(_)) = table.raw_get("double") {
            return Ok(Reply::Double(table.raw_get("double").unwrap_or_default()));
        }
        if let Ok(Value::Table(map)) = table.raw_get("map") {
            let pairs = map.pairs::<Value, Value>().flatten();
            let pairs = pairs.map(|(key, value)| Ok((self.reply(&key, depth)?, self.reply(&value, depth)?)));
            return pairs.collect::<Result<_, _>>().map(Reply::Map);
        }
        if let Ok(Value::Table(set)) = table.raw_get("set") {
            let members = set.pairs::<Value, Value>().flatten().map(|(key, _)| self.reply(&key, depth));
            return members.collect::<Result<_, _>>().map(Reply::Set);
        }
        if let Some(digits) = text("big_number") {
            // Line breaks in the digits become spaces, because they would end the line of the
            // reply.
            let digits = digits.iter().map(|byte| if b"\r\n".contains(byte) { b' ' } else { *byte });
            return Ok(Reply::BigNumber(digits.collect()));
        }
        if let Ok(Value::Table(verbatim)) = table.raw_get("verbatim_string")
            && let (Ok(Value::String(format)), Ok(Value::String(text))) =
                (verbatim.raw_get("format"), verbatim.raw_get("string"))
        {
            let format = format.as_bytes();
            let letters = std::array::from_fn(|idx| format.get(idx).copied().unwrap_or(b' '));
            return Ok(Reply::Verbatim(letters, Bytes::copy_from_slice(&text.as_bytes())));
        }
        let items = (1..).map_while(|idx| match table.raw_get(idx) {
            Ok(Value::Nil) | Err(_) => None,
            Ok(item) => Some(self.reply(&item, depth)),
        });
        items.collect::<Result<_, _>>().map(Reply::Array)
    }
}
