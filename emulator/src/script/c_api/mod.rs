//! The calls between Rust and Lua that must be fast, through Lua's C interface: running a script,
//! `redis.call` and its relatives, and the conversion of values in both directions.
//!
//! This is the only module of the workspace with `unsafe` code. It does not know the rules of
//! scripts, which are those of [`super::vm`] and [`super::running`].
//!
//! # Soundness
//!
//! Lua raises an error with `longjmp`, which drops the frames up to the last protected call without
//! running destructors. These rules make that sound:
//!
//! 1. A function that may raise says so under `# Raises`. While it calls something that may raise,
//!    its frame owns nothing with a destructor: only numbers, references and pointers.
//! 2. A frame that owns something calls only functions of Lua that never raise, because they do
//!    not allocate and run no code of a script:
//!    - `lua_gettop`, `lua_settop`, `lua_type`, `lua_pushvalue`, `lua_pushnil`, `lua_toboolean`;
//!    - `lua_checkstack`, because the Lua of `mlua` catches the error of its allocator;
//!    - `lua_touserdata`, `lua_tonumber` of a number, `lua_tolstring` of a string;
//!    - `lua_rawget`, `lua_rawgeti`, and `lua_next` with a key that it returned itself;
//!    - `lua_getstack`, and `lua_getinfo` for `S` and `l`;
//!    - `lua_pcall`, which returns all errors.
//! 3. A reply that becomes a Lua value lies in [`Running`]. If an error interrupts the conversion,
//!    the next command or the end of the script drops the reply.
//! 4. No panic unwinds through a frame of C. [`guarded`] catches it, the script ends, and
//!    [`Entry::run`] resumes it.
//! 5. No code of a script runs while [`Running`] is borrowed.
//! 6. Lua does not check that a value fits on its stack. So only the methods of [`Stack`] push. It
//!    knows how many slots are free: a C function gets 20 beside its arguments (`LUA_MINSTACK`),
//!    and asks Lua for more. Each function states under `# Stack` how many it uses at most, and
//!    a debug build checks these statements: see [`stack`].
//! 7. No Rust value refers to a Lua value for as long as a script wants, because `mlua` has about
//!    8,000 places for such references. Functions that a script keeps have upvalues instead, and
//!    a server keeps functions by keys of Lua's registry.
//!
//! Lua is compiled as C, and `mlua` declares its functions as `C-unwind`: `longjmp` over frames
//! without destructors is defined for them.

#![allow(unsafe_code, reason = "Lua's C interface; each block says why it is sound")]

mod name;
mod stack;
mod push;
mod read;
mod meter;
mod call;
mod run;
mod lists;
mod unpack;
mod matches;
mod gmatch;
mod gsub;
mod coroutines;
mod protect;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use mlua::{Function, IntoLuaMulti, Lua, ffi};

pub(super) use call::commands;
pub(super) use coroutines::coroutines;
use ffi::lua_State;
pub(super) use gmatch::gmatch;
pub(super) use gsub::gsub;
pub(super) use lists::lists;
pub(super) use meter::{Access, Work, metered};
use name::{FREE_UPVALUE, NAMES, Name, STATE_UPVALUE};
pub(super) use protect::catchers;
pub(super) use run::{Ended, Entry, Input, SandboxParts};
use stack::Stack;
pub(super) use unpack::unpack;

use super::budget::{Over, Place};
use super::running::{Running, SANDBOX_NAME, running_cell};

/// How many levels of the stack are searched for the line of an error.
const LEVELS_MAX: c_int = 8;

/// Creates a function of Lua from one of C. Its upvalues are the script's state, the names, and
/// these own ones.
///
/// # Errors
/// There is no memory.
///
/// # Safety
/// The function of C expects these upvalues.
unsafe fn create_function(
    lua: &Lua,
    function: ffi::lua_CFunction,
    own: impl IntoLuaMulti,
) -> mlua::Result<Function> {
    let running = running_cell(lua);
    // SAFETY: the closure may raise and owns nothing. The values on its stack are `own`. The state
    // of the script lives as long as the Lua state.
    unsafe {
        lua.exec_raw(own, |state| {
            let n_own = ffi::lua_gettop(state);
            let stack = Stack::grown(state, FREE_UPVALUE + n_own, c"stack overflow");
            stack.push_pointer(running.as_ptr());
            for name in NAMES {
                stack.push_bytes(name.as_bytes());
            }
            for idx in 1..=n_own {
                stack.push_copy(idx);
            }
            ffi::lua_pushcclosure(state, function, FREE_UPVALUE - 1 + n_own);
            ffi::lua_insert(state, 1);
            ffi::lua_settop(state, 1);
        })
    }
}

/// The state of the script that called the C function which is running now.
///
/// # Safety
/// [`create_function`] created the function that is running, or that function itself did, with the
/// same first upvalue. The reference is used only while it runs.
unsafe fn running<'a>(state: *mut lua_State) -> &'a RefCell<Running> {
    // SAFETY: the upvalue is the pointer to the state of the script, which is still valid.
    unsafe { &*ffi::lua_touserdata(state, ffi::lua_upvalueindex(STATE_UPVALUE)).cast() }
}

/// The bytes of a string on the stack. Never raises.
///
/// # Safety
/// The value is a string. The bytes are used only while the value stays on the stack.
unsafe fn bytes<'a>(state: *mut lua_State, idx: c_int) -> &'a [u8] {
    let mut len = 0;
    // SAFETY: Lua does not move strings, and frees none that is on a stack.
    unsafe {
        let start: *const c_char = ffi::lua_tolstring(state, idx, &raw mut len);
        std::slice::from_raw_parts(start.cast(), len)
    }
}

/// The size of an array with so many items.
///
/// Redis inserts the items one by one into an empty table, which grows to the next power of two.
/// Scripts can observe this size when they leave holes.
fn grown_size(n_items: usize) -> usize {
    if n_items == 0 { 0 } else { n_items.next_power_of_two() }
}

/// Collects garbage if a value of so many bytes may otherwise exceed the limit of memory. Lua
/// itself does not collect when an allocation fails.
///
/// # Raises
/// Lua's collector may raise.
///
/// # Safety
/// `state` is valid.
unsafe fn make_room(state: *mut lua_State, n_bytes: usize, bytes_max: usize) {
    // SAFETY: the frame owns nothing.
    unsafe {
        if used_bytes(state).saturating_add(n_bytes) > bytes_max {
            ffi::lua_gc(state, ffi::LUA_GCCOLLECT, 0);
        }
    }
}

/// How many bytes Lua holds, rounded up to KiB. Never raises.
///
/// # Safety
/// `state` is valid.
unsafe fn used_bytes(state: *mut lua_State) -> usize {
    // SAFETY: this option only reads a number.
    let kib = unsafe { ffi::lua_gc(state, ffi::LUA_GCCOUNT, 0) };
    (kib as usize + 1) << 10
}

/// Runs Rust code that owns values. If it panics, the script must end.
fn guarded<R>(
    running: &RefCell<Running>,
    act: impl FnOnce(&mut Running) -> Result<R, Over>,
) -> Result<R, Over> {
    let outcome = catch_unwind(AssertUnwindSafe(|| act(&mut running.borrow_mut())));
    outcome.unwrap_or_else(|panic| Err(running.borrow_mut().end_with_panic(panic)))
}

/// Spends instructions of the script that is running.
///
/// # Raises
/// The script must end.
///
/// # Safety
/// As for [`running`].
unsafe fn pay(state: *mut lua_State, instructions: u64) {
    // SAFETY: the frame owns nothing. The closures have only references.
    unsafe {
        let place = || place_in(state);
        if guarded(running(state), |running| running.spend(instructions, place)).is_err() {
            room(state, 1).push_bytes(NAMES[Name::MustEnd as usize].as_bytes());
            ffi::lua_error(state);
        }
    }
}

/// The stack with room for so many values, in a function that does not know how many slots are
/// left.
///
/// # Raises
/// Lua has no more room.
///
/// # Safety
/// `state` is valid, and belongs to the function that is running.
unsafe fn room(state: *mut lua_State, n_slots: c_int) -> Stack {
    // SAFETY: the caller vouches for the state.
    unsafe { Stack::grown(state, n_slots, c"stack overflow") }
}

/// The line of the innermost function that belongs to the script. Functions of C, Rust and the
/// sandbox are skipped, because they have no line in the script.
pub(super) fn place(lua: &Lua) -> Option<Place> {
    // SAFETY: `mlua` has locked the state, which is the one that runs.
    lua.exec_raw_lua(|raw| unsafe { place_in(raw.state()) })
}

/// As [`place`], in a C function.
///
/// # Safety
/// `state` is valid.
unsafe fn place_in(state: *mut lua_State) -> Option<Place> {
    // SAFETY: the caller vouches for the state.
    let place_at = |level| unsafe { place_at(state, level) };
    (0..=LEVELS_MAX).map_while(place_at).flatten().next()
}

/// The line of a function, if the function belongs to the script. `None` if there is no such level.
///
/// # Safety
/// `state` is valid.
#[expect(clippy::option_option, reason = "no level, or a level without a line")]
unsafe fn place_at(state: *mut lua_State, level: c_int) -> Option<Option<Place>> {
    // SAFETY: numbers may be zero and pointers null. Lua sets the fields that are read here; its
    // texts end with NUL and live as long as the function. Neither call raises.
    unsafe {
        let mut frame: ffi::lua_Debug = std::mem::zeroed();
        if ffi::lua_getstack(state, level, &raw mut frame) == 0 {
            return None;
        }
        ffi::lua_getinfo(state, c"Sl".as_ptr(), &raw mut frame);
        let source = CStr::from_ptr(frame.source).to_string_lossy();
        let is_own =
            !matches!(CStr::from_ptr(frame.what).to_bytes(), b"C" | b"tail") && source != SANDBOX_NAME;
        Some(is_own.then(|| Place { source: source.into_owned(), line: frame.currentline.into() }))
    }
}
