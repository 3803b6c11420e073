//! From a reply to a Lua value.
//! <https://redis.io/docs/latest/develop/programmability/lua-api/#data-type-conversion>

use std::ffi::{CStr, c_int};

use mlua::ffi;

use super::stack::Stack;
use super::{Name, grown_size};
use crate::reply::{Reply, format_double};
use crate::resp::Protocol;

/// How many slots a table takes: itself, a name, a table in it, a key and a value.
const SLOTS_OF_TABLE: c_int = 5;

const TOO_DEEP: &CStr = c"stack overflow (the reply is nested too deeply)";

/// Pushes a reply as a script sees it: in the types of RESP2, unless the script chose RESP3.
///
/// # Raises
/// There is no memory, the reply is nested too deeply, or a key of a map is nil.
///
/// # Stack
/// 1 slot. A table asks Lua for [`SLOTS_OF_TABLE`] more.
///
/// # Safety
/// As for [`super::running`].
pub(super) unsafe fn push(stack: Stack, reply: &Reply, protocol: Protocol) {
    let stack = stack.at_most(1);
    let is_resp3 = protocol == Protocol::Resp3;
    // SAFETY: the frame owns nothing.
    unsafe {
        match reply {
            Reply::Integer(n) => stack.push_number(*n as f64),
            Reply::BigNumber(digits) if is_resp3 => push_field(stack, Name::BigNumber, digits),
            Reply::Verbatim(format, text) if is_resp3 => push_verbatim(stack, format, text),
            Reply::Bulk(bytes) | Reply::BigNumber(bytes) | Reply::Verbatim(_, bytes) => {
                stack.push_bytes(bytes);
            }
            Reply::Double(value) if is_resp3 => push_double(stack, *value),
            Reply::Double(value) => stack.push_bytes(Digits::of(*value).as_bytes()),
            Reply::Nil | Reply::NilArray if is_resp3 => stack.push_nil(),
            Reply::Nil | Reply::NilArray => stack.push_boolean(false),
            Reply::Boolean(yes) if is_resp3 => stack.push_boolean(*yes),
            Reply::Boolean(yes) => stack.push_number(u8::from(*yes).into()),
            Reply::Status(text) => push_field(stack, Name::Ok, text),
            Reply::Error(error) => push_field(stack, Name::Err, error.as_bytes()),
            Reply::Set(items) if is_resp3 => push_set(stack, items),
            Reply::Map(pairs) if is_resp3 => push_map(stack, pairs),
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) | Reply::Several(items) => {
                push_list(stack, items, protocol);
            }
            Reply::Map(pairs) => push_flat(stack, pairs, protocol),
            Reply::Settled(_, reply) => push(stack, reply, protocol),
        }
    }
}

/// Pushes an empty table, and returns the stack with room for what the caller puts into it.
///
/// # Raises
/// There is no memory, or the stack is too high.
///
/// # Stack
/// It asks Lua for [`SLOTS_OF_TABLE`] and takes 1 of them.
///
/// # Safety
/// As for [`super::running`].
unsafe fn push_table(stack: Stack, n_items: usize, n_fields: usize) -> Stack {
    // SAFETY: the frame owns nothing.
    unsafe {
        let stack = Stack::grown(stack.state, SLOTS_OF_TABLE, TOO_DEEP);
        stack.push_table(n_items, n_fields);
        stack
    }
}

/// Pushes a table with one string.
///
/// # Raises
/// As [`push_table`].
///
/// # Safety
/// As for [`super::running`].
unsafe fn push_field(stack: Stack, name: Name, text: &[u8]) {
    // SAFETY: the frame owns nothing.
    unsafe {
        let stack = push_table(stack, 0, 1);
        set_field(stack, name, text);
    }
}

/// # Raises
/// As [`push_table`].
///
/// # Safety
/// As for [`super::running`].
unsafe fn push_double(stack: Stack, value: f64) {
    // SAFETY: the frame owns nothing.
    unsafe {
        let stack = push_table(stack, 0, 1);
        stack.push_name(Name::Double);
        stack.push_number(value);
        ffi::lua_rawset(stack.state, -3);
    }
}

/// Sets a field of the table on top of the stack to a string.
///
/// # Raises
/// There is no memory.
///
/// # Stack
/// 2 slots
///
/// # Safety
/// As for [`super::running`].
unsafe fn set_field(stack: Stack, name: Name, text: &[u8]) {
    let stack = stack.at_most(2);
    // SAFETY: the frame owns nothing.
    unsafe {
        stack.push_name(name);
        stack.push_bytes(text);
        ffi::lua_rawset(stack.state, -3);
    }
}

/// # Raises
/// As [`push`].
///
/// # Safety
/// As for [`push`].
unsafe fn push_list(stack: Stack, items: &[Reply], protocol: Protocol) {
    // SAFETY: the frame owns nothing; the iterator only has references.
    unsafe {
        let stack = push_table(stack, array_size(items.len(), protocol), 0);
        for (item, place) in items.iter().zip(1..) {
            push(stack, item, protocol);
            ffi::lua_rawseti_(stack.state, -2, place);
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
unsafe fn push_flat(stack: Stack, pairs: &[(Reply, Reply)], protocol: Protocol) {
    // SAFETY: the frame owns nothing; the iterator only has references.
    unsafe {
        let stack = push_table(stack, array_size(2 * pairs.len(), protocol), 0);
        for ((key, value), place) in pairs.iter().zip((1..).step_by(2)) {
            push(stack, key, protocol);
            ffi::lua_rawseti_(stack.state, -2, place);
            push(stack, value, protocol);
            ffi::lua_rawseti_(stack.state, -2, place + 1);
        }
    }
}

/// # Raises
/// As [`push`].
///
/// # Safety
/// As for [`push`].
unsafe fn push_set(stack: Stack, members: &[Reply]) {
    // SAFETY: the frame owns nothing.
    unsafe {
        let stack = push_table(stack, 0, 1);
        stack.push_name(Name::Set);
        stack.push_table(0, 0);
        for member in members {
            push(stack, member, Protocol::Resp3);
            stack.push_boolean(true);
            ffi::lua_rawset(stack.state, -3);
        }
        ffi::lua_rawset(stack.state, -3);
    }
}

/// # Raises
/// As [`push`].
///
/// # Safety
/// As for [`push`].
unsafe fn push_map(stack: Stack, pairs: &[(Reply, Reply)]) {
    // SAFETY: the frame owns nothing.
    unsafe {
        let stack = push_table(stack, 0, 1);
        stack.push_name(Name::Map);
        stack.push_table(0, 0);
        for (key, value) in pairs {
            push(stack, key, Protocol::Resp3);
            push(stack, value, Protocol::Resp3);
            ffi::lua_rawset(stack.state, -3);
        }
        ffi::lua_rawset(stack.state, -3);
    }
}

/// # Raises
/// As [`push`].
///
/// # Safety
/// As for [`push`].
unsafe fn push_verbatim(stack: Stack, format: &[u8], text: &[u8]) {
    // SAFETY: the frame owns nothing.
    unsafe {
        let stack = push_table(stack, 0, 1);
        stack.push_name(Name::VerbatimString);
        stack.push_table(0, 0);
        set_field(stack, Name::Format, format);
        set_field(stack, Name::String, text);
        ffi::lua_rawset(stack.state, -3);
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
