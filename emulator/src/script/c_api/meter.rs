//! Lua's own functions as scripts get them: each pays from the budget for what it does.
//!
//! A metered function runs Lua's C function in its own frame. So the errors of that function have
//! the name and the line with which the script called it.

use std::ffi::c_int;
use std::ops::RangeInclusive;

use mlua::ffi::{self, lua_State};
use mlua::{Function, LightUserData, Lua, Table};

use super::{FREE_UPVALUE, create_function, pay, room};
use crate::script::budget::BYTES_PER_INSTRUCTION;

/// The use that a function makes of the texts in its arguments, and of a read-only table. Beside
/// these, each argument and each result counts as one instruction.
pub(in crate::script) struct Work {
    /// The places of the arguments whose text the function reads.
    pub reads: RangeInclusive<c_int>,
    /// Whether the texts among its results are new.
    pub writes: bool,
    pub access: Access,
}

/// The use that a function makes of a read-only table as its first argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::script) enum Access {
    /// The function gets the table as scripts see it, which is empty.
    None,
    /// The function gets the contents.
    Read,
    /// The function fails.
    Write,
}

const READ_ONLY: &str = "Attempt to modify a readonly table";

/// The upvalue with the contents of read-only tables, by the tables that scripts see.
pub(super) const CONTENTS: c_int = ffi::lua_upvalueindex(FREE_UPVALUE);

/// Makes a function of C pay for its work. The function must have no upvalues.
///
/// # Errors
/// There is no memory.
pub(in crate::script) fn metered(
    lua: &Lua,
    function: &Function,
    work: &'static Work,
    contents: &Table,
) -> mlua::Result<Function> {
    let work = LightUserData(std::ptr::from_ref(work).cast_mut().cast());
    // SAFETY: `run_metered` gets the upvalues that it expects.
    unsafe { create_function(lua, run_metered, (contents, function, work)) }
}

/// Runs the function of C.
///
/// # Raises
/// The function does, or the script must end.
unsafe extern "C-unwind" fn run_metered(state: *mut lua_State) -> c_int {
    const FUNCTION: c_int = ffi::lua_upvalueindex(FREE_UPVALUE + 1);
    const WORK: c_int = ffi::lua_upvalueindex(FREE_UPVALUE + 2);
    // SAFETY: the frame owns nothing. `metered` has set the upvalues.
    unsafe {
        let work: *const Work = ffi::lua_touserdata(state, WORK).cast();
        enter(state, (*work).access);
        let read = *(*work).reads.start()..=*(*work).reads.end();
        pay(state, n_bytes(state, read) / BYTES_PER_INSTRUCTION);
        let Some(function) = ffi::lua_tocfunction(state, FUNCTION) else { return 0 };
        let n_results = function(state);
        // If the function is `coroutine.yield`, the number is negative.
        if n_results > 0 {
            let first = if (*work).writes { ffi::lua_gettop(state) - n_results + 1 } else { c_int::MAX };
            pay(state, n_results as u64 + n_bytes(state, first..=c_int::MAX) / BYTES_PER_INSTRUCTION);
        }
        n_results
    }
}

/// Pays for the arguments of the function that is running, and gives it what it may see of a
/// read-only table.
///
/// # Raises
/// The function would change that table, or the script must end.
///
/// # Safety
/// The first upvalue after the names is [`CONTENTS`].
pub(super) unsafe fn enter(state: *mut lua_State, access: Access) {
    // SAFETY: the frame owns nothing.
    unsafe {
        pay(state, 1 + ffi::lua_gettop(state) as u64);
        if access == Access::None || ffi::lua_type(state, 1) != ffi::LUA_TTABLE {
            return;
        }
        let stack = room(state, 1);
        if !stack.push_metatable(1) {
            return;
        }
        stack.pop(1);
        stack.push_copy(1);
        ffi::lua_rawget_(state, CONTENTS);
        if ffi::lua_type(state, -1) != ffi::LUA_TTABLE {
            ffi::lua_settop(state, -2);
        } else if access == Access::Read {
            ffi::lua_replace(state, 1);
        } else {
            ffi::lua_settop(state, -2);
            stack.push_bytes(READ_ONLY.as_bytes());
            ffi::lua_error(state);
        }
    }
}

/// How many bytes the texts at these places have, as far as there are values. Never raises.
///
/// # Safety
/// `state` is valid.
pub(super) unsafe fn n_bytes(state: *mut lua_State, places: RangeInclusive<c_int>) -> u64 {
    // SAFETY: the length of a string can be read without a conversion.
    let n_bytes = |idx| unsafe {
        let is_text = ffi::lua_type(state, idx) == ffi::LUA_TSTRING;
        if is_text { ffi::lua_objlen(state, idx) as u64 } else { 0 }
    };
    // SAFETY: the height of the stack is only read.
    let last = unsafe { ffi::lua_gettop(state) }.min(*places.end());
    (*places.start()..=last).map(n_bytes).sum()
}
