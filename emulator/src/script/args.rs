//! The arguments of native functions, and the errors about them, in the words of C's `luaL_check…`.

use std::borrow::Cow;

use mlua::{
    Error as LuaError, ExternalError as _, Function, IntoLuaMulti, Lua, LuaString, MultiValue, Value,
};

use super::c_values::{c_string, truncate};
use super::raised::Raised;
use super::spend::{spend, spend_bytes};

/// A native function, which pays for its arguments, and then for what it does.
pub(super) fn function<R: IntoLuaMulti>(
    lua: &Lua,
    act: impl Fn(&Args<'_>) -> mlua::Result<R> + Send + 'static,
) -> mlua::Result<Function> {
    lua.create_function(move |lua, values: MultiValue| {
        spend(lua, 1 + values.len() as u64)?;
        act(&Args::new(lua, &values))
    })
}

/// The arguments that a script passed. Positions count from 1, as in the errors.
pub(super) struct Args<'a> {
    pub lua: &'a Lua,
    values: &'a MultiValue,
}

impl<'a> Args<'a> {
    pub fn new(lua: &'a Lua, values: &'a MultiValue) -> Args<'a> {
        Args { lua, values }
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn get(&self, place: usize) -> Option<&'a Value> {
        self.values.get(place - 1)
    }

    pub fn is_nil(&self, place: usize) -> bool {
        self.get(place).is_none_or(Value::is_nil)
    }

    /// A number, or text that is a number.
    pub fn number(&self, place: usize) -> mlua::Result<f64> {
        self.as_number(place)?.ok_or_else(|| self.wrong_type(place, "number"))
    }

    /// A number, or text that is a number; `None` for anything else.
    pub fn as_number(&self, place: usize) -> mlua::Result<Option<f64>> {
        match self.get(place) {
            Some(Value::Number(number)) => Ok(Some(*number)),
            Some(Value::Integer(number)) => Ok(Some(*number as f64)),
            Some(Value::String(text)) => {
                spend_bytes(self.lua, text.as_bytes().len())?;
                self.lua.coerce_number(Value::String(text.clone()))
            }
            _ => Ok(None),
        }
    }

    /// A number as C casts it to 64 bits.
    pub fn integer(&self, place: usize) -> mlua::Result<i64> {
        self.number(place).map(truncate)
    }

    /// A number as C casts it to 64 bits, or `default` if the argument is missing.
    pub fn integer_or(&self, place: usize, default: i64) -> mlua::Result<i64> {
        if self.is_nil(place) { Ok(default) } else { self.integer(place) }
    }

    /// A number as C casts it to 64 bits, and then to 32.
    pub fn int(&self, place: usize) -> mlua::Result<i32> {
        self.integer(place).map(|number| number as i32)
    }

    /// A number as C casts it to 64 bits and then to 32, or `default` if the argument is missing.
    pub fn int_or(&self, place: usize, default: i32) -> mlua::Result<i32> {
        if self.is_nil(place) { Ok(default) } else { self.int(place) }
    }

    /// Text, or a number as Lua prints it.
    pub fn string(&self, place: usize) -> mlua::Result<LuaString> {
        match self.get(place) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(number @ (Value::Number(_) | Value::Integer(_))) => {
                let text = self.lua.coerce_string(number.clone())?;
                text.ok_or_else(|| self.wrong_type(place, "string"))
            }
            _ => Err(self.wrong_type(place, "string")),
        }
    }

    /// The position of the argument in a list of allowed words.
    pub fn option(&self, place: usize, words: &[&str]) -> mlua::Result<usize> {
        let text = self.string(place)?;
        let text = text.as_bytes();
        let text = c_string(&text);
        let position = words.iter().position(|word| word.as_bytes() == text);
        position.ok_or_else(|| self.error(place, [b"invalid option '", text, b"'"].concat()))
    }

    /// The error for an argument of a wrong type.
    pub fn wrong_type(&self, place: usize, expected: &str) -> LuaError {
        let got = self.get(place).map_or("no value", type_name);
        self.error(place, format!("{expected} expected, got {got}"))
    }

    /// `bad argument #1 to 'decode' (…)`
    pub fn error(&self, place: usize, what: impl AsRef<[u8]>) -> LuaError {
        let names = self.lua.inspect_stack(0, |frame| {
            let names = frame.names();
            (names.name.map(Cow::into_owned), names.name_what == Some("method"))
        });
        let (name, is_method) = names.unwrap_or_default();
        let name = name.as_deref().unwrap_or("?");
        let head = match place as i64 - i64::from(is_method) {
            0 if is_method => format!("calling '{name}' on bad self ("),
            place => format!("bad argument #{place} to '{name}' ("),
        };
        raise(self.lua, [head.as_bytes(), what.as_ref(), b")"].concat())
    }
}

/// An error with the caller's line in front, as Lua's own functions raise it.
pub(super) fn raise(lua: &Lua, text: impl AsRef<[u8]>) -> LuaError {
    let place = lua.inspect_stack(1, |frame| {
        let source = frame.source().short_src.unwrap_or_default().into_owned();
        frame.current_line().map(|line| format!("{source}:{line}: "))
    });
    raise_bare([place.flatten().unwrap_or_default().as_bytes(), text.as_ref()].concat())
}

/// An error with only this text.
pub(super) fn raise_bare(text: impl Into<Vec<u8>>) -> LuaError {
    Raised::Text(text.into()).into_lua_err()
}

/// The name of a type, as Lua's `type` returns it.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "number",
        Value::LightUserData(_) | Value::Error(_) => "userdata",
        other => other.type_name(),
    }
}
