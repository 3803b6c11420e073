//! `string.gmatch`. Its iterators live as long as a script wants, so the subject and the pattern
//! are upvalues of a function of C.

use std::ffi::c_int;

use mlua::ffi::{self, lua_State};
use mlua::{Function, Lua};

use super::matches::{find, push_capture};
use super::meter::n_bytes;
use super::stack::Stack;
use super::{STATE_UPVALUE, bytes, create_function, pay, running};
use crate::script::budget::BYTES_PER_INSTRUCTION;
use crate::script::pattern::{CAPTURES_MAX, Pattern};

/// `string.gmatch(s, pattern)`
///
/// # Errors
/// There is no memory.
pub(in crate::script) fn gmatch(lua: &Lua) -> mlua::Result<Function> {
    // SAFETY: the function has no upvalues of its own.
    unsafe { create_function(lua, push_iterator, ()) }
}

/// The upvalues of the iterator, after the state of the script.
const SUBJECT: c_int = ffi::lua_upvalueindex(STATE_UPVALUE + 1);
const PATTERN: c_int = ffi::lua_upvalueindex(STATE_UPVALUE + 2);
/// Where the search for the next match begins.
const NEXT: c_int = ffi::lua_upvalueindex(STATE_UPVALUE + 3);

unsafe extern "C-unwind" fn push_iterator(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing. The iterator gets the upvalues that it expects.
    unsafe {
        pay(state, 1 + ffi::lua_gettop(state) as u64);
        let stack = Stack::of_function(state).at_most(2);
        for text in [1, 2] {
            ffi::luaL_checklstring(state, text, std::ptr::null_mut());
        }
        ffi::lua_settop(state, 2);
        stack.push_pointer(running(state));
        ffi::lua_insert(state, 1);
        stack.push_number(0.0);
        ffi::lua_pushcclosure(state, push_match, 4);
        1
    }
}

/// The iterator: returns the captures of the next match, or the whole match if the pattern has
/// none. Returns nothing if there is no more match.
///
/// # Raises
/// The pattern is malformed, there is no memory, or the script must end.
unsafe extern "C-unwind" fn push_match(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing. The subject and the pattern stay where they are.
    unsafe {
        pay(state, 1 + ffi::lua_gettop(state) as u64);
        ffi::lua_settop(state, 0);
        let stack = Stack::grown(state, CAPTURES_MAX as c_int + 2, c"too many captures");
        let (subject, pattern) = (bytes(state, SUBJECT), Pattern::unanchored(bytes(state, PATTERN)));
        let from = ffi::lua_tonumber(state, NEXT) as usize;
        let Some(found) = find(state, subject, pattern, from) else {
            stack.push_number((subject.len() + 1) as f64);
            ffi::lua_replace(state, NEXT);
            return 0;
        };
        // After an empty match, the search goes on at the next byte.
        stack.push_number(found.end.max(found.start + 1) as f64);
        ffi::lua_replace(state, NEXT);
        let n_values = found.n_captures.max(1);
        for idx in 0..n_values {
            push_capture(state, subject, &found, idx);
        }
        let n_values = n_values as c_int;
        pay(state, n_bytes(state, 1..=n_values) / BYTES_PER_INSTRUCTION);
        n_values
    }
}
