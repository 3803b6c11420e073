//! `coroutine.resume` and `coroutine.wrap`: Lua's own functions, and what a script sees of an error
//! that they catch.
//!
//! They run Lua's functions in their own frames. So a coroutine may resume another as often as in
//! Redis, and errors have the name with which the script called them.

use std::ffi::c_int;

use mlua::ffi::{self, lua_State};
use mlua::{Function, Lua, Table};

use super::stack::Stack;
use super::{FREE_UPVALUE, STATE_UPVALUE, bytes, create_function, pay, running};
use crate::script::budget::NO_MEMORY;

/// The functions with their names in the table `coroutine`. `unwrap` makes of an error what
/// a script sees of it.
///
/// # Errors
/// There is no memory.
///
/// # Panics
/// The functions in Lua's table `coroutine` are not Lua's own.
pub(in crate::script) fn coroutines(
    lua: &Lua,
    unwrap: &Function,
) -> mlua::Result<[(&'static str, Function); 2]> {
    let library: Table = lua.globals().get("coroutine")?;
    let (builtin_resume, create): (Function, Function) = (library.get("resume")?, library.get("create")?);
    for builtin in [&builtin_resume, &create] {
        // In the frame of another function, upvalues would be those of that function.
        let info = builtin.info();
        assert!(info.what == "C" && info.num_upvalues == 0, "a function of C without upvalues");
    }
    // SAFETY: the functions get the upvalues that they expect.
    unsafe {
        Ok([
            ("resume", create_function(lua, resume, (unwrap, &builtin_resume))?),
            ("wrap", create_function(lua, wrap, (unwrap, &builtin_resume, &create))?),
        ])
    }
}

/// `coroutine.resume(thread, …)`
///
/// # Raises
/// The argument is no thread, or the script must end.
unsafe extern "C-unwind" fn resume(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing. `coroutines` has set the upvalues.
    unsafe {
        pay(state, 1 + ffi::lua_gettop(state) as u64);
        resume_first(state, FREE_UPVALUE, FREE_UPVALUE + 1)
    }
}

/// `coroutine.wrap(function)`
///
/// # Raises
/// The argument is no function of Lua, or there is no memory.
unsafe extern "C-unwind" fn wrap(state: *mut lua_State) -> c_int {
    const CREATE: c_int = ffi::lua_upvalueindex(FREE_UPVALUE + 2);
    // SAFETY: the frame owns nothing. Lua's function leaves the thread on top of the stack.
    unsafe {
        pay(state, 1 + ffi::lua_gettop(state) as u64);
        let stack = Stack::of_function(state).at_most(5);
        call_in_frame(state, CREATE);
        stack.push_pointer(running(state));
        stack.push_copy(ffi::lua_upvalueindex(FREE_UPVALUE));
        stack.push_copy(ffi::lua_upvalueindex(FREE_UPVALUE + 1));
        stack.push_copy(-4);
        ffi::lua_pushcclosure(state, wrapped, 4);
        1
    }
}

/// The function that `coroutine.wrap` returns.
///
/// # Raises
/// The coroutine fails, or the script must end.
unsafe extern "C-unwind" fn wrapped(state: *mut lua_State) -> c_int {
    const THREAD: c_int = ffi::lua_upvalueindex(STATE_UPVALUE + 3);
    // SAFETY: the frame owns nothing. `wrap` has set the upvalues.
    unsafe {
        pay(state, 1 + ffi::lua_gettop(state) as u64);
        let stack = Stack::of_function(state).at_most(2);
        stack.push_copy(THREAD);
        ffi::lua_insert(state, 1);
        let n_results = resume_first(state, STATE_UPVALUE + 1, STATE_UPVALUE + 2);
        if ffi::lua_toboolean(state, -n_results) != 0 {
            return n_results - 1;
        }
        if ffi::lua_isstring(state, -1) != 0 {
            ffi::luaL_where(state, 1);
            ffi::lua_insert(state, -2);
            ffi::lua_concat(state, 2);
        }
        ffi::lua_error(state)
    }
}

/// Resumes the thread at the bottom of the stack with the values above it. Leaves `true` and the
/// results on top, or `false` and the error, and returns their number.
///
/// # Raises
/// There is no thread, or the script must end.
///
/// # Safety
/// As for [`running`]; the function that is running has `unwrap` and Lua's own function as these
/// upvalues.
unsafe fn resume_first(state: *mut lua_State, unwrap: c_int, builtin: c_int) -> c_int {
    // SAFETY: the frame owns nothing.
    unsafe {
        let n_results = call_in_frame(state, ffi::lua_upvalueindex(builtin));
        if ffi::lua_toboolean(state, -n_results) == 0 && must_unwrap(state) {
            let stack = Stack::grown(state, 1, c"stack overflow");
            stack.push_copy(ffi::lua_upvalueindex(unwrap));
            ffi::lua_insert(state, -2);
            ffi::lua_call(state, 1, 1);
        }
        n_results
    }
}

/// Whether the error on top of the stack is not yet what a script sees. A call of Lua counts as
/// a level of nesting, so most errors do without.
///
/// # Safety
/// As for [`running`].
pub(super) unsafe fn must_unwrap(state: *mut lua_State) -> bool {
    // SAFETY: the bytes are those of a string on the stack.
    unsafe {
        let mut running = running(state).borrow_mut();
        running.is_disturbed = true;
        running.fatal.is_some()
            || match ffi::lua_type(state, -1) {
                ffi::LUA_TUSERDATA => true,
                ffi::LUA_TSTRING => bytes(state, -1) == NO_MEMORY.as_bytes(),
                _ => false,
            }
    }
}

/// Runs a function of C in the frame of the function that is running, and returns the number of its
/// results.
///
/// # Raises
/// The function does.
///
/// # Safety
/// The value at `idx` is a function of C without upvalues.
unsafe fn call_in_frame(state: *mut lua_State, idx: c_int) -> c_int {
    // SAFETY: the caller vouches for the function, whose frame owns nothing.
    unsafe { ffi::lua_tocfunction(state, idx).map_or(0, |function| function(state)) }
}
