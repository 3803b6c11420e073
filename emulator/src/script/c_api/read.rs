//! From a Lua value to a reply. Nothing here raises, so its frames may own the parts of a reply.

use std::ffi::c_int;

use bytes::Bytes;
use mlua::ffi::{self, lua_State};

use super::stack::Stack;
use super::{Name, bytes};
use crate::error::Error;
use crate::reply::Reply;
use crate::resp::Protocol;
use crate::script::c_values::{c_string, truncate};

/// How many slots a table takes beside itself: the table of a map, a key, and its value.
const SLOTS_OF_TABLE: c_int = 3;

/// The deepest nesting of a table that a script may return. Code that reads, copies and drops a
/// reply recurses as deep.
const REPLY_DEPTH_MAX: usize = 200;
/// How many values such a table may hold: as many as a request may have arguments. Because tables
/// may contain each other several times, a small table could become an endless reply.
const REPLY_ELEMENTS_MAX: usize = 1 << 20;

const TOO_DEEP: Error = Error::from_static("ERR reached lua stack limit");

/// The reply for the value on top of the stack, which a script returned.
///
/// # Stack
/// A table asks Lua for [`SLOTS_OF_TABLE`]. If Lua has none, that table becomes an error.
///
/// # Safety
/// As for [`super::running`].
pub(super) unsafe fn to_reply(state: *mut lua_State, protocol: Protocol) -> Reply {
    let mut returned = Returned { state, protocol, n_left: REPLY_ELEMENTS_MAX };
    // SAFETY: the caller vouches for the state.
    unsafe { returned.reply(REPLY_DEPTH_MAX).unwrap_or_else(Reply::Error) }
}

/// A field of the table on top of the stack, if it is a string.
///
/// # Stack
/// 1 slot
///
/// # Safety
/// As for [`super::running`], and the topmost value is a table.
pub(super) unsafe fn text_field(stack: Stack, name: Name) -> Option<Bytes> {
    let stack = stack.at_most(1);
    // SAFETY: the bytes are copied while the string is on the stack.
    unsafe {
        let is_text = stack.push_field(name) == ffi::LUA_TSTRING;
        let text = is_text.then(|| Bytes::copy_from_slice(bytes(stack.state, -1)));
        stack.pop(1);
        text
    }
}

/// A field of the table on top of the stack, if it is a number.
///
/// # Stack
/// 1 slot
///
/// # Safety
/// As for [`text_field`].
pub(super) unsafe fn number_field(stack: Stack, name: Name) -> Option<f64> {
    let stack = stack.at_most(1);
    // SAFETY: the number is a copy.
    unsafe {
        let is_number = stack.push_field(name) == ffi::LUA_TNUMBER;
        let number = is_number.then(|| ffi::lua_tonumber(stack.state, -1));
        stack.pop(1);
        number
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
    /// # Stack, # Safety
    /// As for [`to_reply`].
    unsafe fn reply(&mut self, depth: usize) -> Result<Reply, Error> {
        let Some(depth) = depth.checked_sub(1) else {
            return Ok(Reply::Error(TOO_DEEP));
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
                ffi::LUA_TTABLE => match Stack::with_room(state, SLOTS_OF_TABLE) {
                    Some(stack) => self.table(stack, depth)?,
                    None => Reply::Error(TOO_DEEP),
                },
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
    /// # Stack
    /// [`SLOTS_OF_TABLE`]
    ///
    /// # Safety
    /// As for [`Returned::reply`].
    unsafe fn table(&mut self, stack: Stack, depth: usize) -> Result<Reply, Error> {
        let stack = stack.at_most(SLOTS_OF_TABLE);
        // SAFETY: the topmost value is the table before and after each of these steps.
        unsafe {
            if let Some(err) = text_field(stack, Name::Err) {
                return Ok(Reply::Error(Error::new(err.slice_ref(c_string(&err)))));
            }
            if let Some(ok) = text_field(stack, Name::Ok) {
                return Ok(Reply::Status(ok.slice_ref(c_string(&ok))));
            }
            if let Some(double) = number_field(stack, Name::Double) {
                return Ok(Reply::Double(double));
            }
            if let Some(map) = self.table_field(stack, Name::Map, |returned| returned.map(stack, depth)) {
                return map;
            }
            if let Some(set) = self.table_field(stack, Name::Set, |returned| returned.set(stack, depth)) {
                return set;
            }
            if let Some(digits) = text_field(stack, Name::BigNumber) {
                // Line breaks in the digits become spaces, because they would end the line of the
                // reply.
                let digits = digits.iter().map(|byte| if b"\r\n".contains(byte) { b' ' } else { *byte });
                return Ok(Reply::BigNumber(digits.collect()));
            }
            if let Some(Some(verbatim)) = self.table_field(stack, Name::VerbatimString, |_| verbatim(stack)) {
                return Ok(verbatim);
            }
            self.list(stack, depth)
        }
    }

    /// Reads a field with `read`, which finds it on top of the stack, if the field is a table.
    ///
    /// # Stack
    /// 1 slot, apart from those of `read`
    ///
    /// # Safety
    /// As for [`text_field`].
    unsafe fn table_field<R>(
        &mut self,
        stack: Stack,
        name: Name,
        read: impl FnOnce(&mut Returned) -> R,
    ) -> Option<R> {
        // SAFETY: the stack gets its old height again, whatever `read` left on it.
        unsafe {
            let height = stack.height();
            let is_table = stack.push_field(name) == ffi::LUA_TTABLE;
            let value = is_table.then(|| read(self));
            ffi::lua_settop(stack.state, height);
            value
        }
    }

    /// Converts the table on top of the stack as the pairs of a map.
    ///
    /// # Stack
    /// 2 slots
    ///
    /// # Safety
    /// As for [`Returned::reply`].
    unsafe fn map(&mut self, stack: Stack, depth: usize) -> Result<Reply, Error> {
        let stack = stack.at_most(2);
        let mut pairs = Vec::new();
        // SAFETY: each key is one that `push_next` pushed, because `reply` changes no value.
        unsafe {
            stack.push_nil();
            while stack.push_next() {
                let value = self.reply(depth)?;
                stack.pop(1);
                pairs.push((self.reply(depth)?, value));
            }
        }
        Ok(Reply::Map(pairs))
    }

    /// Converts the keys of the table on top of the stack as the members of a set.
    ///
    /// # Stack
    /// 2 slots
    ///
    /// # Safety
    /// As for [`Returned::reply`].
    unsafe fn set(&mut self, stack: Stack, depth: usize) -> Result<Reply, Error> {
        let stack = stack.at_most(2);
        let mut members = Vec::new();
        // SAFETY: as in `map`.
        unsafe {
            stack.push_nil();
            while stack.push_next() {
                stack.pop(1);
                members.push(self.reply(depth)?);
            }
        }
        Ok(Reply::Set(members))
    }

    /// Converts the items of the table on top of the stack up to the first nil.
    ///
    /// # Stack
    /// 1 slot
    ///
    /// # Safety
    /// As for [`Returned::reply`].
    unsafe fn list(&mut self, stack: Stack, depth: usize) -> Result<Reply, Error> {
        let stack = stack.at_most(1);
        let mut items = Vec::new();
        // SAFETY: each item is on top of the stack only while it is converted.
        unsafe {
            for place in 1.. {
                let is_nil = stack.push_item(-1, place) == ffi::LUA_TNIL;
                if !is_nil {
                    items.push(self.reply(depth)?);
                }
                stack.pop(1);
                if is_nil {
                    break;
                }
            }
        }
        Ok(Reply::Array(items))
    }
}

/// Converts the table on top of the stack as a verbatim string, if it is one.
///
/// # Stack
/// 1 slot
///
/// # Safety
/// As for [`text_field`].
unsafe fn verbatim(stack: Stack) -> Option<Reply> {
    // SAFETY: the caller vouches for the table.
    let (format, text) = unsafe { (text_field(stack, Name::Format)?, text_field(stack, Name::String)?) };
    let letters = std::array::from_fn(|idx| format.get(idx).copied().unwrap_or(b' '));
    Some(Reply::Verbatim(letters, text))
}
