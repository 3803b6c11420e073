//! `string.gsub`, which calls functions of the script between two matches.
//!
//! The output grows in memory of Lua, so that the limit of memory counts it.

use std::ffi::c_int;

use mlua::ffi::{self, lua_State};
use mlua::{Function, Lua};

use super::matches::{Found, find, push_capture};
use super::meter::n_bytes;
use super::stack::Stack;
use super::{bytes, create_function, pay, room};
use crate::script::budget::BYTES_PER_INSTRUCTION;
use crate::script::pattern::{ESCAPE, Pattern};

/// `string.gsub(s, pattern, replacement [, n])`
///
/// # Errors
/// There is no memory.
pub(in crate::script) fn gsub(lua: &Lua) -> mlua::Result<Function> {
    // SAFETY: the function has no upvalues of its own.
    unsafe { create_function(lua, replace_matches, ()) }
}

const SUBJECT: c_int = 1;
const PATTERN: c_int = 2;
const REPLACEMENT: c_int = 3;
const COUNT: c_int = 4;

unsafe extern "C-unwind" fn replace_matches(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing. The subject and the pattern stay on the stack as strings.
    unsafe {
        pay(state, 1 + ffi::lua_gettop(state) as u64);
        pay(state, n_bytes(state, PATTERN..=COUNT) / BYTES_PER_INSTRUCTION);
        for text in [SUBJECT, PATTERN] {
            ffi::luaL_checklstring(state, text, std::ptr::null_mut());
        }
        let (subject, pattern) = (bytes(state, SUBJECT), Pattern::new(bytes(state, PATTERN)));
        let kind = ffi::lua_type(state, REPLACEMENT);
        // A subject has fewer bytes than an `int` can count: its memory is limited.
        let n_max = ffi::luaL_optinteger(state, COUNT, (subject.len() + 1) as _) as c_int;
        match kind {
            ffi::LUA_TNUMBER | ffi::LUA_TSTRING => {
                ffi::lua_tolstring(state, REPLACEMENT, std::ptr::null_mut());
            }
            ffi::LUA_TFUNCTION | ffi::LUA_TTABLE => {}
            _ => {
                ffi::luaL_argerror(state, REPLACEMENT, c"string/function/table expected".as_ptr());
            }
        }
        // One slot is for the count, if there is none.
        let stack = Stack::of_function(state).at_most(4);
        ffi::lua_settop(state, COUNT);
        let mut output = Output::begin(stack);
        let (mut n, mut next, mut written) = (0, Some(0), 0);
        while let Some(from) = next.filter(|_| n < n_max) {
            let Some(found) = find(state, subject, pattern, from) else { break };
            n += 1;
            output.add(&subject[written..found.start]);
            if matches!(kind, ffi::LUA_TFUNCTION | ffi::LUA_TTABLE) {
                add_computed(&mut output, subject, &found, kind);
            } else {
                add_filled_in(&mut output, subject, &found);
            }
            written = found.end;
            next = found.next(subject.len()).filter(|_| !pattern.is_anchored);
        }
        output.add(&subject[written..]);
        output.push();
        stack.push_number(n.into());
    }
    2
}

/// Adds what the function or the table has for a match, or the match if that is nothing.
///
/// # Raises
/// The function fails, or its result is no text.
///
/// # Stack
/// 2 slots. It asks Lua for those of the arguments.
///
/// # Safety
/// As for [`find`].
unsafe fn add_computed(output: &mut Output, subject: &[u8], found: &Found, kind: c_int) {
    let stack = output.stack.at_most(2);
    let state = stack.state;
    // SAFETY: the frame owns nothing.
    unsafe {
        if kind == ffi::LUA_TFUNCTION {
            let n = found.n_captures.max(1);
            room(state, n as c_int + 1).push_copy(REPLACEMENT);
            for idx in 0..n {
                push_capture(state, subject, found, idx);
            }
            ffi::lua_call(state, n as c_int, 1);
        } else {
            push_capture(state, subject, found, 0);
            ffi::lua_gettable_(state, REPLACEMENT);
        }
        if ffi::lua_toboolean(state, -1) == 0 {
            ffi::lua_pop(state, 1);
            stack.push_bytes(&subject[found.start..found.end]);
        } else if ffi::lua_isstring(state, -1) == 0 {
            let kind = ffi::luaL_typename(state, -1);
            ffi::luaL_error(state, c"invalid replacement value (a %s)".as_ptr(), kind);
        }
        output.add_value();
    }
}

/// Adds the replacement, which is text. `%1` is a capture, `%0` the match, and `%` before another
/// character is that character.
///
/// # Raises
/// There is no such capture.
///
/// # Stack
/// 2 slots
///
/// # Safety
/// As for [`add_computed`].
unsafe fn add_filled_in(output: &mut Output, subject: &[u8], found: &Found) {
    let state = output.stack.at_most(2).state;
    // SAFETY: the frame owns nothing. The replacement stays on the stack.
    unsafe {
        let mut rest = bytes(state, REPLACEMENT);
        while let Some(escape) = rest.iter().position(|&byte| byte == ESCAPE) {
            output.add(&rest[..escape]);
            // In C, a NUL follows the last byte.
            match rest.get(escape + 1).copied().unwrap_or_default() {
                b'0' => output.add(&subject[found.start..found.end]),
                digit @ b'1'..=b'9' => {
                    push_capture(state, subject, found, usize::from(digit - b'1'));
                    output.add_value();
                }
                other => output.add(&[other]),
            }
            rest = rest.get(escape + 2..).unwrap_or_default();
        }
        output.add(rest);
    }
}

/// Text that grows, in memory of Lua, which counts it and frees it after an error. Lua's own buffer
/// takes 8 KB of the thread's stack, and `gsub` may call itself 200 times.
struct Output {
    stack: Stack,
    len: usize,
    capacity: usize,
}

impl Output {
    /// The place of the memory on Lua's stack, after the arguments.
    const PLACE: c_int = COUNT + 1;
    const CAPACITY_MIN: usize = 64;

    /// # Raises
    /// There is no memory.
    ///
    /// # Stack
    /// 1 slot, and then those of the other functions
    ///
    /// # Safety
    /// The function that is running has four values on the stack.
    unsafe fn begin(stack: Stack) -> Output {
        // SAFETY: there is a slot for the memory.
        unsafe { stack.push_memory(Output::CAPACITY_MIN) };
        Output { stack, len: 0, capacity: Output::CAPACITY_MIN }
    }

    /// # Raises
    /// There is no memory, or the script must end.
    ///
    /// # Stack
    /// 1 slot
    ///
    /// # Safety
    /// The function that began the output is running.
    unsafe fn add(&mut self, text: &[u8]) {
        let Output { stack, len, capacity } = *self;
        let (stack, state) = (stack.at_most(1), stack.state);
        // SAFETY: the frame owns nothing. The memory has room for the text, and does not overlap
        // it: the text is in a string, or in a frame.
        unsafe {
            pay(state, text.len() as u64 / BYTES_PER_INSTRUCTION);
            let needed = len.saturating_add(text.len());
            if needed > capacity {
                self.capacity = needed.max(capacity.saturating_mul(2));
                let larger = stack.push_memory(self.capacity);
                let before: *const u8 = ffi::lua_touserdata(state, Output::PLACE).cast();
                larger.copy_from_nonoverlapping(before, len);
                ffi::lua_replace(state, Output::PLACE);
            }
            let memory = ffi::lua_touserdata(state, Output::PLACE).cast::<u8>();
            memory.add(len).copy_from_nonoverlapping(text.as_ptr(), text.len());
        }
        self.len += text.len();
    }

    /// Adds the value on top of the stack, a string or a number, and removes it.
    ///
    /// # Raises
    /// As for [`Output::add`].
    ///
    /// # Stack
    /// 1 slot
    ///
    /// # Safety
    /// As for [`Output::add`].
    unsafe fn add_value(&mut self) {
        let (stack, state) = (self.stack.at_most(1), self.stack.state);
        // SAFETY: the value stays on the stack until its text is copied.
        unsafe {
            pay(state, 1);
            ffi::lua_tolstring(state, -1, std::ptr::null_mut());
            self.add(bytes(state, -1));
            stack.pop(1);
        }
    }

    /// Pushes the text.
    ///
    /// # Raises
    /// There is no memory.
    ///
    /// # Stack
    /// 1 slot
    ///
    /// # Safety
    /// As for [`Output::add`].
    unsafe fn push(&self) {
        // SAFETY: the memory stays on the stack. Its first bytes have been written.
        unsafe {
            let memory: *const u8 = ffi::lua_touserdata(self.stack.state, Output::PLACE).cast();
            self.stack.push_bytes(std::slice::from_raw_parts(memory, self.len));
        }
    }
}
