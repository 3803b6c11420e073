//! The functions that catch errors of a script: `pcall`, `xpcall` and `load`.
//!
//! They call Lua as Lua's own functions do. So errors that pass through them have the levels, the
//! message handlers and the depth of Redis. No script can catch that it must end.

use std::ffi::c_int;

use mlua::ffi::{self, lua_State};
use mlua::{Function, Lua};

use super::coroutines::must_unwrap;
use super::meter::n_bytes;
use super::stack::Stack;
use super::{FREE_UPVALUE, Name, bytes, create_function, pay, room, running};
use crate::script::args::c_string;
use crate::script::budget::BYTES_PER_INSTRUCTION;

/// The functions by name. `unwrap` makes of an error what a script sees of it, and `load` is Lua's
/// own.
///
/// # Errors
/// There is no memory.
pub(in crate::script) fn catchers(
    lua: &Lua,
    unwrap: &Function,
    builtin_load: &Function,
) -> mlua::Result<[(&'static str, Function); 3]> {
    let create = |name, function: ffi::lua_CFunction| {
        // SAFETY: the functions get the upvalues that they expect.
        unsafe { create_function(lua, function, (unwrap, builtin_load)) }.map(|function| (name, function))
    };
    Ok([create("pcall", pcall)?, create("xpcall", xpcall)?, create("load", load)?])
}

const UNWRAP: c_int = ffi::lua_upvalueindex(FREE_UPVALUE);
const OWN: c_int = ffi::lua_upvalueindex(FREE_UPVALUE + 1);

/// `pcall(function, …)`: of a failed command, the caller sees the text alone; of a table without
/// one, the table and what stands in its place.
///
/// # Raises
/// The script must end, or the field `err` cannot be read.
unsafe extern "C-unwind" fn pcall(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing.
    unsafe {
        let n_args = ffi::lua_gettop(state);
        pay(state, 1 + n_args as u64);
        // Redis calls this value if there is no argument.
        let stack = Stack::of_function(state).at_most(2);
        stack.push_boolean(true);
        if n_args == 0 {
            stack.push_copy(1);
        }
        ffi::lua_insert(state, 1);
        if ffi::lua_pcall(state, (n_args - 1).max(0), ffi::LUA_MULTRET, 0) == ffi::LUA_OK {
            return ffi::lua_gettop(state);
        }
        unwrap(state);
        if ffi::lua_type(state, -1) == ffi::LUA_TTABLE {
            room(state, 1).push_name(Name::Err);
            ffi::lua_gettable_(state, -2);
            if ffi::lua_isstring(state, -1) != 0 {
                ffi::lua_replace(state, -2);
            }
        }
        room(state, 1).push_boolean(false);
        ffi::lua_replace(state, 1);
        ffi::lua_gettop(state)
    }
}

/// `xpcall(function, handler)`
///
/// # Raises
/// There is no second argument, or the script must end.
unsafe extern "C-unwind" fn xpcall(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing. `handle` gets the upvalues that it expects.
    unsafe {
        pay(state, 1 + ffi::lua_gettop(state) as u64);
        ffi::luaL_checkany(state, 2);
        ffi::lua_settop(state, 2);
        if ffi::lua_type(state, 2) == ffi::LUA_TFUNCTION {
            Stack::of_function(state).push_copy(UNWRAP);
            ffi::lua_insert(state, 2);
            push_closure(state, handle);
        }
        ffi::lua_insert(state, 1);
        let status = ffi::lua_pcall(state, 0, ffi::LUA_MULTRET, 1);
        if status != ffi::LUA_OK {
            unwrap(state);
        }
        room(state, 1).push_boolean(status == ffi::LUA_OK);
        ffi::lua_replace(state, 1);
        ffi::lua_gettop(state)
    }
}

/// Calls the message handler of `xpcall`, unless the script must end.
///
/// # Raises
/// The handler does.
unsafe extern "C-unwind" fn handle(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing. `xpcall` has set the upvalues.
    unsafe {
        if (*running(state).as_ptr()).fatal.is_some() {
            return 1;
        }
        unwrap(state);
        Stack::of_function(state).at_most(1).push_copy(OWN);
        ffi::lua_insert(state, 1);
        ffi::lua_call(state, 1, 1);
    }
    1
}

/// `load(reader [, name])`
///
/// # Raises
/// An argument has a wrong type, or the script must end.
unsafe extern "C-unwind" fn load(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing. `read` gets the upvalue that it expects.
    unsafe {
        pay(state, 1 + ffi::lua_gettop(state) as u64 + n_bytes(state, 2..=2) / BYTES_PER_INSTRUCTION);
        if ffi::lua_type(state, 2) > ffi::LUA_TNIL {
            ffi::luaL_checklstring(state, 2, std::ptr::null_mut());
        }
        ffi::luaL_checktype(state, 1, ffi::LUA_TFUNCTION);
        ffi::lua_settop(state, 2);
        if ffi::lua_type(state, 2) != ffi::LUA_TNIL {
            // The compiler does not keep its copy of the name from the garbage collector, which the
            // reader may call (CVE-2025-49844). In C, the name ends at the first NUL. This string
            // is equal to the copy, and so is the copy.
            Stack::of_function(state).push_bytes(c_string(bytes(state, 2)));
            ffi::lua_replace(state, 2);
        }
        let stack = Stack::of_function(state).at_most(2);
        stack.push_boolean(true);
        stack.push_copy(1);
        push_closure(state, read);
        ffi::lua_replace(state, 1);
        let Some(builtin) = ffi::lua_tocfunction(state, OWN) else { return 0 };
        let n_results = builtin(state);
        if n_results > 1 {
            unwrap(state);
        }
        n_results
    }
}

/// Whether the next part is the first one.
const IS_FIRST: c_int = UNWRAP;

/// Reads a part of the text that `load` compiles. A space before bytecode makes it text, which does
/// not compile.
///
/// # Raises
/// The reader does, or the script must end.
unsafe extern "C-unwind" fn read(state: *mut lua_State) -> c_int {
    /// The first byte of a compiled chunk.
    const BINARY_CHUNK: u8 = 27;
    // SAFETY: the frame owns nothing. `load` has set the upvalues.
    unsafe {
        let stack = Stack::of_function(state).at_most(2);
        stack.push_copy(OWN);
        ffi::lua_call(state, 0, 1);
        pay(state, n_bytes(state, 1..=1));
        let is_first = ffi::lua_toboolean(state, IS_FIRST) != 0;
        stack.push_boolean(false);
        ffi::lua_replace(state, IS_FIRST);
        let is_text = ffi::lua_type(state, 1) == ffi::LUA_TSTRING;
        if is_first && is_text && bytes(state, 1).first() == Some(&BINARY_CHUNK) {
            stack.push_bytes(b" ");
            ffi::lua_insert(state, 1);
            ffi::lua_concat(state, 2);
        }
    }
    1
}

/// Replaces the two topmost values by a function of C. Its upvalues are those of the function that
/// is running, with these two in the place of the last two.
///
/// # Raises
/// There is no memory.
///
/// # Safety
/// As for [`running`]. The function of C expects these upvalues.
unsafe fn push_closure(state: *mut lua_State, function: ffi::lua_CFunction) {
    // SAFETY: the frame owns nothing.
    unsafe {
        let stack = room(state, FREE_UPVALUE + 1);
        let first_own = stack.height() - 1;
        for upvalue in 1..FREE_UPVALUE {
            stack.push_copy(ffi::lua_upvalueindex(upvalue));
        }
        stack.push_copy(first_own);
        stack.push_copy(first_own + 1);
        ffi::lua_pushcclosure(state, function, FREE_UPVALUE + 1);
        ffi::lua_replace(state, first_own);
        ffi::lua_settop(state, first_own);
    }
}

/// Makes of the error on top of the stack what a script sees of it.
///
/// A call of Lua counts as a level of nesting, so most errors do without.
///
/// # Raises
/// The script must end.
///
/// # Safety
/// As for [`running`]; the function that is running has [`UNWRAP`] as an upvalue.
unsafe fn unwrap(state: *mut lua_State) {
    // SAFETY: the frame owns nothing. The bytes are those of a string on the stack.
    unsafe {
        if must_unwrap(state) {
            room(state, 1).push_copy(UNWRAP);
            ffi::lua_insert(state, -2);
            ffi::lua_call(state, 1, 1);
        }
    }
}
