//! The functions that catch errors of a script: `pcall`, `xpcall` and `load`.
//!
//! They call Lua as Lua's own functions do. So errors that pass through them have the levels, the
//! message handlers and the depth of Redis. No script can catch that it must end.

use std::ffi::{CStr, c_int};

use mlua::ffi::{self, lua_State};
use mlua::{Function, Lua};

use super::coroutines::must_unwrap;
use super::meter::n_bytes;
use super::stack::Stack;
use super::{FREE_UPVALUE, Name, bytes, create_function, pay, room, running};
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
        let stack = Stack::of_function(state).at_most(3);
        stack.push_boolean(true);
        if n_args == 0 {
            stack.push_copy(1);
        }
        ffi::lua_insert(state, 1);
        if ffi::lua_pcall(state, (n_args - 1).max(0), ffi::LUA_MULTRET, 0) == ffi::LUA_OK {
            return ffi::lua_gettop(state);
        }
        unwrap(stack);
        if ffi::lua_type(state, -1) == ffi::LUA_TTABLE {
            stack.push_name(Name::Err);
            ffi::lua_gettable_(state, -2);
            if ffi::lua_isstring(state, -1) != 0 {
                ffi::lua_replace(state, -2);
            }
        }
        stack.push_boolean(false);
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
        let stack = Stack::of_function(state).at_most(FREE_UPVALUE + 1);
        if ffi::lua_type(state, 2) == ffi::LUA_TFUNCTION {
            push_closure(stack, handle, [UNWRAP, 2]);
            ffi::lua_replace(state, 2);
        }
        ffi::lua_insert(state, 1);
        let status = ffi::lua_pcall(state, 0, ffi::LUA_MULTRET, 1);
        if status != ffi::LUA_OK {
            unwrap(stack);
        }
        // The results may take all slots.
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
        let stack = Stack::of_function(state).at_most(1);
        unwrap(stack);
        stack.push_copy(OWN);
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
        let name = ffi::luaL_optlstring(state, 2, std::ptr::null(), std::ptr::null_mut());
        ffi::luaL_checktype(state, 1, ffi::LUA_TFUNCTION);
        // One slot is for the name, if there is none.
        let stack = Stack::of_function(state).at_most(FREE_UPVALUE + 3);
        ffi::lua_settop(state, 2);
        if !name.is_null() {
            // The compiler does not keep its copy of the name from the garbage collector, which the
            // reader may call (CVE-2025-49844). In C, the name ends at the first NUL. This string
            // is equal to the copy, and so is the copy.
            stack.push_bytes(CStr::from_ptr(name).to_bytes());
            ffi::lua_replace(state, 2);
        }
        stack.push_boolean(true);
        push_closure(stack, read, [3, 1]);
        ffi::lua_replace(state, 1);
        ffi::lua_settop(state, 2);
        let Some(builtin) = ffi::lua_tocfunction(state, OWN) else { return 0 };
        let n_results = builtin(state);
        if n_results > 1 {
            unwrap(stack);
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

/// Pushes a function of C. Its upvalues are those of the function that is running, with copies of
/// these two values in the place of the last two.
///
/// # Raises
/// There is no memory.
///
/// # Stack
/// One slot for each upvalue
///
/// # Safety
/// As for [`running`]. The function of C expects these upvalues.
unsafe fn push_closure(stack: Stack, function: ffi::lua_CFunction, own: [c_int; 2]) {
    let stack = stack.at_most(FREE_UPVALUE + 1);
    // SAFETY: the frame owns nothing.
    unsafe {
        for upvalue in 1..FREE_UPVALUE {
            stack.push_copy(ffi::lua_upvalueindex(upvalue));
        }
        own.into_iter().for_each(|idx| stack.push_copy(idx));
        ffi::lua_pushcclosure(stack.state, function, FREE_UPVALUE + 1);
    }
}

/// Makes of the error on top of the stack what a script sees of it.
///
/// A call of Lua counts as a level of nesting, so most errors do without.
///
/// # Raises
/// The script must end.
///
/// # Stack
/// 1 slot
///
/// # Safety
/// As for [`running`]; the function that is running has [`UNWRAP`] as an upvalue.
unsafe fn unwrap(stack: Stack) {
    let (stack, state) = (stack.at_most(1), stack.state);
    // SAFETY: the frame owns nothing. The bytes are those of a string on the stack.
    unsafe {
        if must_unwrap(state) {
            stack.push_copy(UNWRAP);
            ffi::lua_insert(state, -2);
            ffi::lua_call(state, 1, 1);
        }
    }
}
