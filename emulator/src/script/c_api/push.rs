//! From a reply to a Lua value.
//! <https://redis.io/docs/latest/develop/programmability/lua-api/#data-type-conversion>

use std::ffi::c_int;

use mlua::ffi::{self, lua_State};

use super::{Name, grown_size, push_bytes, push_name};
use crate::reply::{Reply, format_double};
use crate::resp::Protocol;

/// Pushes a reply as a script sees it: in the types of RESP2, unless the script chose RESP3.
///
/// # Raises
/// There is no memory, the reply is nested too deeply, or a key of a map is nil.
///
/// # Safety
/// As for [`super::running`]; a slot is free.
pub(super) unsafe fn push(state: *mut lua_State, reply: &Reply, protocol: Protocol) {
    let is_resp3 = protocol == Protocol::Resp3;
    // SAFETY: the frame owns nothing. The caller has a slot, and arms that need more ask first.
    unsafe {
        match reply {
            Reply::Integer(n) => ffi::lua_pushnumber(state, *n as f64),
            Reply::BigNumber(digits) if is_resp3 => push_field(state, Name::BigNumber, digits),
            Reply::Verbatim(format, text) if is_resp3 => push_verbatim(state, format, text),
            Reply::Bulk(bytes) | Reply::BigNumber(bytes) | Reply::Verbatim(_, bytes) => {
                push_bytes(state, bytes);
            }
            Reply::Double(value) if is_resp3 => push_double(state, *value),
            Reply::Double(value) => push_bytes(state, Digits::of(*value).as_bytes()),
            Reply::Nil | Reply::NilArray if is_resp3 => ffi::lua_pushnil(state),
            Reply::Nil | Reply::NilArray => ffi::lua_pushboolean(state, 0),
            Reply::Boolean(yes) if is_resp3 => ffi::lua_pushboolean(state, (*yes).into()),
            Reply::Boolean(yes) => ffi::lua_pushnumber(state, u8::from(*yes).into()),
            Reply::Status(text) => push_field(state, Name::Ok, text),
            Reply::Error(error) => push_field(state, Name::Err, error.as_bytes()),
            Reply::Set(items) if is_resp3 => push_set(state, items),
            Reply::Map(pairs) if is_resp3 => push_map(state, pairs),
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) | Reply::Several(items) => {
                push_list(state, items, protocol);
            }
            Reply::Map(pairs) => push_flat(state, pairs, protocol),
            Reply::Settled(_, reply) => push(state, reply, protocol),
        }
    }
}

/// Pushes an empty table, and makes room for a table in it, a key and a value.
///
/// # Raises
/// There is no memory, or the stack is too high.
///
/// # Safety
/// `state` is valid.
unsafe fn push_table(state: *mut lua_State, n_items: usize, n_fields: usize) {
    // SAFETY: the frame owns nothing.
    unsafe {
        ffi::luaL_checkstack(state, 5, c"the reply is nested too deeply".as_ptr());
        // Lua reserves memory for so many items and fields at once.
        let size = |n| c_int::try_from(n).unwrap_or(c_int::MAX);
        ffi::lua_createtable(state, size(n_items), size(n_fields));
    }
}

/// Pushes a table with one string.
///
/// # Raises
/// As [`push_table`].
///
/// # Safety
/// As for [`super::running`].
unsafe fn push_field(state: *mut lua_State, name: Name, text: &[u8]) {
    // SAFETY: the frame owns nothing.
    unsafe {
        push_table(state, 0, 1);
        set_field(state, name, text);
    }
}

/// # Raises
/// As [`push_table`].
///
/// # Safety
/// As for [`super::running`].
unsafe fn push_double(state: *mut lua_State, value: f64) {
    // SAFETY: the frame owns nothing.
    unsafe {
        push_table(state, 0, 1);
        push_name(state, Name::Double);
        ffi::lua_pushnumber(state, value);
        ffi::lua_rawset(state, -3);
    }
}

/// Sets a field of the table on top of the stack to a string.
///
/// # Raises
/// There is no memory.
///
/// # Safety
/// As for [`super::running`]; two slots are free.
unsafe fn set_field(state: *mut lua_State, name: Name, text: &[u8]) {
    // SAFETY: the frame owns nothing.
    unsafe {
        push_name(state, name);
        push_bytes(state, text);
        ffi::lua_rawset(state, -3);
    }
}

/// # Raises
/// As [`push`].
///
/// # Safety
/// As for [`push`].
unsafe fn push_list(state: *mut lua_State, items: &[Reply], protocol: Protocol) {
    // SAFETY: the frame owns nothing; the iterator only has references.
    unsafe {
        push_table(state, array_size(items.len(), protocol), 0);
        for (item, place) in items.iter().zip(1..) {
            push(state, item, protocol);
            ffi::lua_rawseti_(state, -2, place);
        }
    }
}

/// Pushes a map as the list of its keys and values.
///
/// # Raises
/// As [`push`].
///
/// # Safety
/// As for [`push`].
unsafe fn push_flat(state: *mut lua_State, pairs: &[(Reply, Reply)], protocol: Protocol) {
    // SAFETY: the frame owns nothing; the iterator only has references.
    unsafe {
        push_table(state, array_size(2 * pairs.len(), protocol), 0);
        for ((key, value), place) in pairs.iter().zip((1..).step_by(2)) {
            push(state, key, protocol);
            ffi::lua_rawseti_(state, -2, place);
            push(state, value, protocol);
            ffi::lua_rawseti_(state, -2, place + 1);
        }
    }
}

/// # Raises
/// As [`push`].
///
/// # Safety
/// As for [`push`].
unsafe fn push_set(state: *mut lua_State, members: &[Reply]) {
    // SAFETY: the frame owns nothing.
    unsafe {
        push_table(state, 0, 1);
        push_name(state, Name::Set);
        push_table(state, 0, 0);
        for member in members {
            push(state, member, Protocol::Resp3);
            ffi::lua_pushboolean(state, 1);
            ffi::lua_rawset(state, -3);
        }
        ffi::lua_rawset(state, -3);
    }
}

/// # Raises
/// As [`push`].
///
/// # Safety
/// As for [`push`].
unsafe fn push_map(state: *mut lua_State, pairs: &[(Reply, Reply)]) {
    // SAFETY: the frame owns nothing.
    unsafe {
        push_table(state, 0, 1);
        push_name(state, Name::Map);
        push_table(state, 0, 0);
        for (key, value) in pairs {
            push(state, key, Protocol::Resp3);
            push(state, value, Protocol::Resp3);
            ffi::lua_rawset(state, -3);
        }
        ffi::lua_rawset(state, -3);
    }
}

/// # Raises
/// As [`push`].
///
/// # Safety
/// As for [`push`].
unsafe fn push_verbatim(state: *mut lua_State, format: &[u8], text: &[u8]) {
    // SAFETY: the frame owns nothing.
    unsafe {
        push_table(state, 0, 1);
        push_name(state, Name::VerbatimString);
        push_table(state, 0, 0);
        set_field(state, Name::Format, format);
        set_field(state, Name::String, text);
        ffi::lua_rawset(state, -3);
    }
}

/// The size of a list's array. In RESP3, a list may have holes, with which Redis's table grows
/// otherwise. So this one must grow, too.
fn array_size(n_items: usize, protocol: Protocol) -> usize {
    if protocol == Protocol::Resp3 { 0 } else { grown_size(n_items) }
}

/// The text of a double in a place that needs no destructor.
#[derive(Clone, Copy)]
pub(super) struct Digits {
    bytes: [u8; Digits::LEN_MAX],
    len: usize,
}

impl Digits {
    /// A sign, 17 digits, a point, and an exponent such as `e-308`.
    const LEN_MAX: usize = 24;

    pub(super) fn of(value: f64) -> Digits {
        let text = format_double(value);
        let mut bytes = [0; Digits::LEN_MAX];
        let len = text.len().min(bytes.len());
        bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
        Digits { bytes, len }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
