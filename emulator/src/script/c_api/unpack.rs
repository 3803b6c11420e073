//! `unpack`. It returns as many values as Lua's stack holds, and `mlua` has not as many places for
//! references.

use std::ffi::c_int;

use mlua::ffi::{self, lua_State};
use mlua::{Function, Lua};

use super::meter::n_bytes;
use super::stack::Stack;
use super::{create_function, pay};
use crate::script::budget::{BYTES_PER_INSTRUCTION, INSTRUCTIONS_PER_VALUE};

/// `unpack(list [, i [, j]])`
///
/// # Errors
/// There is no memory.
pub(in crate::script) fn unpack(lua: &Lua) -> mlua::Result<Function> {
    // SAFETY: the function has no upvalues of its own.
    unsafe { create_function(lua, push_items, ()) }
}

/// Lua's own function computes the number of values in an `int`, which may overflow.
unsafe extern "C-unwind" fn push_items(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing.
    unsafe {
        pay(state, 1 + ffi::lua_gettop(state) as u64 + n_bytes(state, 2..=3) / BYTES_PER_INSTRUCTION);
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        let first = ffi::luaL_optinteger(state, 2, 1) as c_int;
        let last = match ffi::lua_type(state, 3) {
            ffi::LUA_TNIL | ffi::LUA_TNONE => ffi::lua_objlen(state, 1) as c_int,
            _ => ffi::luaL_checkinteger(state, 3) as c_int,
        };
        if first > last {
            return 0;
        }
        let n_values = i64::from(last) - i64::from(first) + 1;
        let n_slots = c_int::try_from(n_values).unwrap_or(c_int::MAX);
        let Some(grown) = Stack::with_room(state, n_slots) else {
            return ffi::luaL_error(state, c"too many results to unpack".as_ptr());
        };
        pay(state, n_values as u64 * INSTRUCTIONS_PER_VALUE);
        for place in first..=last {
            grown.push_item(1, place);
        }
        n_slots
    }
}
