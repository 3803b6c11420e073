//! The functions of Lua that walk a table. They are those of Lua 5.1.5, but pay for each step, so
//! that a walk cannot hold the server.

use std::ffi::c_int;

use mlua::ffi::{self, lua_State};
use mlua::{Function, Lua, Table};

use super::meter::{Access, enter, n_bytes};
use super::stack::Stack;
use super::{FREE_UPVALUE, create_function, pay};
use crate::script::budget::BYTES_PER_INSTRUCTION;

/// The functions with the names of their libraries; `""` is that of the globals. `ipairs` and
/// `pairs` return the functions `next_place` and `next`.
///
/// # Errors
/// There is no memory.
pub(in crate::script) fn lists(
    lua: &Lua,
    contents: &Table,
    next_place: &Function,
    next: &Function,
) -> mlua::Result<[(&'static str, &'static str, Function); 8]> {
    let create = |library, name, function: ffi::lua_CFunction, own: &Function| {
        // SAFETY: each function finds the upvalues that it uses.
        unsafe { create_function(lua, function, (contents, own)) }.map(|function| (library, name, function))
    };
    Ok([
        create("", "ipairs", ipairs, next_place)?,
        create("", "pairs", pairs, next)?,
        create("table", "foreach", foreach, next)?,
        create("table", "foreachi", foreachi, next)?,
        create("table", "insert", insert, next)?,
        create("table", "maxn", maxn, next)?,
        create("table", "remove", remove, next)?,
        create("table", "sort", sort, next)?,
    ])
}

/// The upvalue with the function that `ipairs` and `pairs` return.
const NEXT: c_int = ffi::lua_upvalueindex(FREE_UPVALUE + 1);

/// `ipairs(list)`
unsafe extern "C-unwind" fn ipairs(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing.
    unsafe {
        enter(state, Access::None);
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        let stack = Stack::of_function(state).at_most(3);
        stack.push_copy(NEXT);
        stack.push_copy(1);
        stack.push_number(0.0);
    }
    3
}

/// `pairs(table)`
unsafe extern "C-unwind" fn pairs(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing.
    unsafe {
        enter(state, Access::None);
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        let stack = Stack::of_function(state).at_most(3);
        stack.push_copy(NEXT);
        stack.push_copy(1);
        stack.push_nil();
    }
    3
}

/// `table.foreach(table, function)`
unsafe extern "C-unwind" fn foreach(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing.
    unsafe {
        enter(state, Access::Read);
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        ffi::luaL_checktype(state, 2, ffi::LUA_TFUNCTION);
        let stack = Stack::of_function(state).at_most(6);
        stack.push_copy(1);
        stack.push_nil();
        while stack.push_next() {
            pay(state, 1);
            stack.push_copy(2);
            stack.push_copy(-3);
            stack.push_copy(-3);
            if ends_walk(state) {
                return 1;
            }
            stack.pop(2);
        }
    }
    0
}

/// `table.foreachi(list, function)`
unsafe extern "C-unwind" fn foreachi(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing.
    unsafe {
        enter(state, Access::None);
        let length = length(state);
        ffi::luaL_checktype(state, 2, ffi::LUA_TFUNCTION);
        let stack = Stack::of_function(state).at_most(3);
        for place in 1..=length {
            pay(state, 1);
            stack.push_copy(2);
            stack.push_number(place.into());
            stack.push_item(1, place);
            if ends_walk(state) {
                return 1;
            }
            stack.pop(1);
        }
    }
    0
}

/// Calls the function of a walk with the two values on top of the stack. Replaces all three by its
/// result, and returns whether the result ends the walk.
///
/// # Raises
/// The function does.
///
/// # Safety
/// `state` is valid, and below the two values is a function.
unsafe fn ends_walk(state: *mut lua_State) -> bool {
    // SAFETY: the frame owns nothing.
    unsafe {
        ffi::lua_call(state, 2, 1);
        ffi::lua_type(state, -1) != ffi::LUA_TNIL
    }
}

/// `table.insert(list, [place,] value)`
unsafe extern "C-unwind" fn insert(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing. C lets `i` overflow, too.
    unsafe {
        enter(state, Access::Write);
        let end = length(state).wrapping_add(1);
        let stack = Stack::of_function(state).at_most(1);
        let place = match ffi::lua_gettop(state) {
            2 => end,
            3 => {
                pay(state, n_bytes(state, 2..=2) / BYTES_PER_INSTRUCTION);
                let place = ffi::luaL_checkinteger(state, 2) as c_int;
                for idx in (place.saturating_add(1)..=end).rev() {
                    pay(state, 1);
                    stack.push_item(1, idx - 1);
                    ffi::lua_rawseti_(state, 1, idx);
                }
                place
            }
            _ => return ffi::luaL_error(state, c"wrong number of arguments to 'insert'".as_ptr()),
        };
        ffi::lua_rawseti_(state, 1, place);
    }
    0
}

/// `table.maxn(table)`
unsafe extern "C-unwind" fn maxn(state: *mut lua_State) -> c_int {
    let mut max: f64 = 0.0;
    // SAFETY: the frame owns nothing.
    unsafe {
        enter(state, Access::None);
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        let stack = Stack::of_function(state).at_most(3);
        stack.push_copy(1);
        stack.push_nil();
        while stack.push_next() {
            pay(state, 1);
            ffi::lua_pop(state, 1);
            if ffi::lua_type(state, -1) == ffi::LUA_TNUMBER {
                max = max.max(ffi::lua_tonumber(state, -1));
            }
        }
        stack.push_number(max);
    }
    1
}

/// `table.remove(list [, place])`
unsafe extern "C-unwind" fn remove(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing.
    unsafe {
        enter(state, Access::None);
        let end = length(state);
        pay(state, n_bytes(state, 2..=2) / BYTES_PER_INSTRUCTION);
        let place = ffi::luaL_optinteger(state, 2, end as _) as c_int;
        if !(1..=end).contains(&place) {
            return 0;
        }
        let stack = Stack::of_function(state).at_most(2);
        stack.push_item(1, place);
        for idx in place..end {
            pay(state, 1);
            stack.push_item(1, idx + 1);
            ffi::lua_rawseti_(state, 1, idx);
        }
        stack.push_nil();
        ffi::lua_rawseti_(state, 1, end);
    }
    1
}

/// `table.sort(list [, is_less])`
unsafe extern "C-unwind" fn sort(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing.
    unsafe {
        enter(state, Access::None);
        let length = length(state);
        // One slot is for the order, if there is none.
        let stack = Stack::of_function(state).at_most(7);
        if !matches!(ffi::lua_type(state, 2), ffi::LUA_TNIL | ffi::LUA_TNONE) {
            ffi::luaL_checktype(state, 2, ffi::LUA_TFUNCTION);
        }
        ffi::lua_settop(state, 2);
        sort_range(stack, 1, length);
    }
    0
}

/// Sorts the places from `low` to `high`. A script sees which values are compared, and in which
/// order, so the steps are those of C.
///
/// # Raises
/// A comparison fails, the order is none, or the script must end.
///
/// # Stack
/// 6 slots, however deep it calls itself
///
/// # Safety
/// The list is at 1, and the order or nil at 2.
unsafe fn sort_range(stack: Stack, mut low: c_int, mut high: c_int) {
    let stack = stack.at_most(6);
    // SAFETY: the frame owns nothing.
    unsafe {
        let state = stack.state;
        let get = |place| stack.push_item(1, place);
        let set_two = |first, second| {
            ffi::lua_rawseti_(state, 1, first);
            ffi::lua_rawseti_(state, 1, second);
        };
        while low < high {
            get(low);
            get(high);
            if is_less(stack, -1, -2) {
                set_two(low, high);
            } else {
                ffi::lua_pop(state, 2);
            }
            if high - low == 1 {
                break;
            }
            let middle = low.wrapping_add(high) / 2;
            get(middle);
            get(low);
            if is_less(stack, -2, -1) {
                set_two(middle, low);
            } else {
                ffi::lua_pop(state, 1);
                get(high);
                if is_less(stack, -1, -2) { set_two(middle, high) } else { ffi::lua_pop(state, 2) }
            }
            if high - low == 2 {
                break;
            }
            // The pivot stays on the stack while the rest is divided.
            get(middle);
            stack.push_copy(-1);
            get(high - 1);
            set_two(middle, high - 1);
            let pivot = divide(stack, low, high);
            get(high - 1);
            get(pivot);
            set_two(high - 1, pivot);
            let smaller = if pivot - low < high - pivot {
                let smaller = (low, pivot - 1);
                low = pivot + 1;
                smaller
            } else {
                let smaller = (pivot + 1, high);
                high = pivot - 1;
                smaller
            };
            sort_range(stack, smaller.0, smaller.1);
        }
    }
}

/// Moves what is less than the pivot, which is on top of the stack, before the rest. Returns the
/// place of the pivot, and removes the pivot from the stack.
///
/// # Raises
/// As for [`sort_range`].
///
/// # Stack
/// 5 slots
///
/// # Safety
/// As for [`sort_range`].
unsafe fn divide(stack: Stack, low: c_int, high: c_int) -> c_int {
    let stack = stack.at_most(5);
    let (mut left, mut right) = (low, high - 1);
    // SAFETY: the frame owns nothing.
    unsafe {
        let state = stack.state;
        let is_no_order = || ffi::luaL_error(state, c"invalid order function for sorting".as_ptr());
        loop {
            left += 1;
            stack.push_item(1, left);
            while is_less(stack, -1, -2) {
                if left > high {
                    is_no_order();
                }
                ffi::lua_pop(state, 1);
                left += 1;
                stack.push_item(1, left);
            }
            right -= 1;
            stack.push_item(1, right);
            while is_less(stack, -3, -1) {
                if right < low {
                    is_no_order();
                }
                ffi::lua_pop(state, 1);
                right -= 1;
                stack.push_item(1, right);
            }
            if right < left {
                ffi::lua_pop(state, 3);
                return left;
            }
            ffi::lua_rawseti_(state, 1, left);
            ffi::lua_rawseti_(state, 1, right);
        }
    }
}

/// Compares two values on the stack, by the order at 2 or by `<`.
///
/// # Raises
/// The comparison fails, or the script must end.
///
/// # Stack
/// 3 slots
///
/// # Safety
/// As for [`sort_range`]; both places are negative.
unsafe fn is_less(stack: Stack, first: c_int, second: c_int) -> bool {
    // SAFETY: the frame owns nothing.
    unsafe {
        let (stack, state) = (stack.at_most(3), stack.state);
        pay(state, 1);
        if ffi::lua_type(state, 2) == ffi::LUA_TNIL {
            return ffi::lua_lessthan(state, first, second) != 0;
        }
        stack.push_copy(2);
        stack.push_copy(first - 1);
        stack.push_copy(second - 2);
        ffi::lua_call(state, 2, 1);
        let is_less = ffi::lua_toboolean(state, -1) != 0;
        ffi::lua_pop(state, 1);
        is_less
    }
}

/// The length of the list in the first argument.
///
/// # Raises
/// It is no table.
///
/// # Safety
/// `state` is valid.
unsafe fn length(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        ffi::lua_objlen(state, 1) as c_int
    }
}
