//! From a Lua value to a reply. Nothing here raises, so its frames may own the parts of a reply.

use std::ffi::c_int;

use bytes::Bytes;
use mlua::ffi::{self, lua_State};

use super::{Name, bytes, push_name};
use crate::error::Error;
use crate::reply::Reply;
use crate::resp::Protocol;
use crate::script::args::{c_string, truncate};

/// How many slots of the stack the conversion of a value needs: a table, a key and a value on each
/// level, and a name.
pub(super) const SLOTS: c_int = 3 * REPLY_DEPTH_MAX as c_int + 10;

/// The deepest nesting of a table that a script may return.
const REPLY_DEPTH_MAX: usize = 200;
/// How many values such a table may hold: as many as a request may have arguments. Because tables
/// may contain each other several times, a small table could become an endless reply.
const REPLY_ELEMENTS_MAX: usize = 1 << 20;

/// The reply for the value on top of the stack, which a script returned.
///
/// # Safety
/// As for [`super::running`]. If the value is a table, [`SLOTS`] slots are free.
pub(super) unsafe fn to_reply(state: *mut lua_State, protocol: Protocol) -> Reply {
    let mut returned = Returned { state, protocol, n_left: REPLY_ELEMENTS_MAX };
    // SAFETY: the caller vouches for the state and the slots.
    unsafe { returned.reply(REPLY_DEPTH_MAX).unwrap_or_else(Reply::Error) }
}

/// A field of the table on top of the stack, if it is a string.
///
/// # Safety
/// As for [`super::running`]. The topmost value is a table, and a slot is free.
pub(super) unsafe fn text_field(state: *mut lua_State, name: Name) -> Option<Bytes> {
    // SAFETY: the bytes are copied while the string is on the stack.
    unsafe {
        let is_text = push_field(state, name) == ffi::LUA_TSTRING;
        let text = is_text.then(|| Bytes::copy_from_slice(bytes(state, -1)));
        ffi::lua_pop(state, 1);
        text
    }
}

/// A field of the table on top of the stack, if it is a number.
///
/// # Safety
/// As for [`text_field`].
pub(super) unsafe fn number_field(state: *mut lua_State, name: Name) -> Option<f64> {
    // SAFETY: the number is a copy.
    unsafe {
        let is_number = push_field(state, name) == ffi::LUA_TNUMBER;
        let number = is_number.then(|| ffi::lua_tonumber(state, -1));
        ffi::lua_pop(state, 1);
        number
    }
}

/// Pushes a field of the table on top of the stack, and returns its type.
///
/// # Safety
/// As for [`text_field`].
unsafe fn push_field(state: *mut lua_State, name: Name) -> c_int {
    // SAFETY: the name takes the slot, and the field replaces it.
    unsafe {
        push_name(state, name);
        ffi::lua_rawget_(state, -2);
        ffi::lua_type(state, -1)
    }
}

/// The state while a reply is built.
struct Returned {
    state: *mut lua_State,
    protocol: Protocol,
    n_left: usize,
}

impl Returned {
    /// Converts the value on top of the stack, which stays there.
    ///
    /// # Errors
    /// The whole reply is too large.
    ///
    /// # Safety
    /// As for [`to_reply`], with three slots for each level that `depth` still allows.
    unsafe fn reply(&mut self, depth: usize) -> Result<Reply, Error> {
        let Some(depth) = depth.checked_sub(1) else {
            return Ok(Reply::Error(Error::from_static("ERR reached lua stack limit")));
        };
        self.n_left = self.n_left.checked_sub(1).ok_or_else(|| {
            Error::new(format!("ERR the reply of the script has more than {REPLY_ELEMENTS_MAX} elements"))
        })?;
        let state = self.state;
        // SAFETY: each value is read as the type that it has.
        unsafe {
            Ok(match ffi::lua_type(state, -1) {
                ffi::LUA_TSTRING => Reply::bulk(bytes(state, -1)),
                ffi::LUA_TNUMBER => Reply::Integer(truncate(ffi::lua_tonumber(state, -1))),
                ffi::LUA_TBOOLEAN => self.boolean(ffi::lua_toboolean(state, -1) != 0),
                ffi::LUA_TTABLE => self.table(depth)?,
                _ => Reply::Nil,
            })
        }
    }

    fn boolean(&self, yes: bool) -> Reply {
        match (self.protocol, yes) {
            (Protocol::Resp3, _) => Reply::Boolean(yes),
            (Protocol::Resp2, true) => Reply::Integer(1),
            (Protocol::Resp2, false) => Reply::Nil,
        }
    }

    /// Converts the table on top of the stack.
    ///
    /// # Safety
    /// As for [`Returned::reply`].
    unsafe fn table(&mut self, depth: usize) -> Result<Reply, Error> {
        let state = self.state;
        // SAFETY: the topmost value is the table before and after each of these steps.
        unsafe {
            if let Some(err) = text_field(state, Name::Err) {
                return Ok(Reply::Error(Error::new(err.slice_ref(c_string(&err)))));
            }
            if let Some(ok) = text_field(state, Name::Ok) {
                return Ok(Reply::Status(ok.slice_ref(c_string(&ok))));
            }
            if let Some(double) = number_field(state, Name::Double) {
                return Ok(Reply::Double(double));
            }
            if let Some(map) = self.table_field(Name::Map, |returned| returned.map(depth)) {
                return map;
            }
            if let Some(set) = self.table_field(Name::Set, |returned| returned.set(depth)) {
                return set;
            }
            if let Some(digits) = text_field(state, Name::BigNumber) {
                // Line breaks in the digits become spaces, because they would end the line of the
                // reply.
                let digits = digits.iter().map(|byte| if b"\r\n".contains(byte) { b' ' } else { *byte });
                return Ok(Reply::BigNumber(digits.collect()));
            }
            if let Some(Some(verbatim)) = self.table_field(Name::VerbatimString, |_| verbatim(state)) {
                return Ok(verbatim);
            }
            self.list(depth)
        }
    }

    /// Reads a field with `read`, which finds it on top of the stack, if the field is a table.
    ///
    /// # Safety
    /// As for [`text_field`].
    unsafe fn table_field<R>(&mut self, name: Name, read: impl FnOnce(&mut Returned) -> R) -> Option<R> {
        let state = self.state;
        // SAFETY: the stack gets its old height again, whatever `read` left on it.
        unsafe {
            let top = ffi::lua_gettop(state);
            let is_table = push_field(state, name) == ffi::LUA_TTABLE;
            let value = is_table.then(|| read(self));
            ffi::lua_settop(state, top);
            value
        }
    }

    /// Converts the table on top of the stack as the pairs of a map.
    fn map(&mut self, depth: usize) -> Result<Reply, Error> {
        let mut pairs = Vec::new();
        self.each_pair(|returned| {
            // SAFETY: the key is below the value; its copy is on top of the stack for a moment.
            unsafe {
                ffi::lua_pushvalue(returned.state, -2);
                let key = returned.reply(depth)?;
                ffi::lua_pop(returned.state, 1);
                pairs.push((key, returned.reply(depth)?));
            }
            Ok(())
        })?;
        Ok(Reply::Map(pairs))
    }

    /// Converts the keys of the table on top of the stack as the members of a set.
    fn set(&mut self, depth: usize) -> Result<Reply, Error> {
        let mut members = Vec::new();
        self.each_pair(|returned| {
            // SAFETY: as in `map`.
            unsafe {
                ffi::lua_pushvalue(returned.state, -2);
                members.push(returned.reply(depth)?);
                ffi::lua_pop(returned.state, 1);
            }
            Ok(())
        })?;
        Ok(Reply::Set(members))
    }

    /// Calls `read` with each key and value of the table on top of the stack above the table.
    fn each_pair(&mut self, mut read: impl FnMut(&mut Returned) -> Result<(), Error>) -> Result<(), Error> {
        // SAFETY: `read` leaves the stack as it was, so each key is one that `lua_next` returned.
        unsafe {
            ffi::lua_pushnil(self.state);
            while ffi::lua_next(self.state, -2) != 0 {
                read(self)?;
                ffi::lua_pop(self.state, 1);
            }
        }
        Ok(())
    }

    /// Converts the items of the table on top of the stack up to the first nil.
    ///
    /// # Safety
    /// As for [`Returned::reply`].
    unsafe fn list(&mut self, depth: usize) -> Result<Reply, Error> {
        let state = self.state;
        let mut items = Vec::new();
        // SAFETY: each item is on top of the stack only while it is converted.
        unsafe {
            for place in 1.. {
                ffi::lua_rawgeti_(state, -1, place);
                let is_nil = ffi::lua_isnil(state, -1) != 0;
                if !is_nil {
                    items.push(self.reply(depth)?);
                }
                ffi::lua_pop(state, 1);
                if is_nil {
                    break;
                }
            }
        }
        Ok(Reply::Array(items))
    }
}

/// Converts the table on top of the stack as a verbatim string, if it is one.
fn verbatim(state: *mut lua_State) -> Option<Reply> {
    // SAFETY: `table_field` has found the table.
    let (format, text) = unsafe { (text_field(state, Name::Format)?, text_field(state, Name::String)?) };
    let letters = std::array::from_fn(|idx| format.get(idx).copied().unwrap_or(b' '));
    Some(Reply::Verbatim(letters, text))
}
