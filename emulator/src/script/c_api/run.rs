//! Runs a script or a function.

use std::cell::RefCell;
use std::ffi::c_int;
use std::panic::resume_unwind;
use std::ptr::NonNull;

use bytes::Bytes;
use mlua::ffi::{self, lua_State};
use mlua::{Function, IntoLua as _, Lua, Table, Value};

use super::read::{self, number_field, text_field, to_reply};
use super::{
    FREE_UPVALUE, Name, grown_size, guarded, make_room, push_bytes, push_function, push_name, running,
    used_bytes,
};
use crate::reply::Reply;
use crate::resp::Protocol;
use crate::script::Host;
use crate::script::budget::{Fatal, Place};
use crate::script::vm::{Running, running_cell};

/// The way into a Lua state: runs its scripts.
pub(in crate::script) struct Entry {
    /// It keeps the state of scripts alive, and what `running` points to.
    lua: Lua,
    start: Function,
    handler: Function,
    running: NonNull<RefCell<Running>>,
}

// SAFETY: the pointer leads into the Lua state, which another thread may use, too. It is followed
// only while that state is locked.
unsafe impl Send for Entry {}

/// The parts of the sandbox that an [`Entry`] needs.
pub(in crate::script) struct SandboxParts {
    /// The table in which scripts find `KEYS` and `ARGV`.
    pub globals: Table,
    /// Undoes what a script may have left in the sandbox.
    pub restore: Function,
    /// The message handler.
    pub locate: Function,
}

/// The keys and arguments of a script or a function.
#[derive(Clone, Copy)]
pub(in crate::script) struct Input<'a> {
    pub keys: &'a [&'a [u8]],
    pub args: &'a [&'a [u8]],
    /// Whether they are the arguments of the function. Otherwise they are the globals `KEYS` and
    /// `ARGV`.
    pub are_arguments: bool,
}

/// The error of a script.
pub(in crate::script) struct Failure {
    pub text: Bytes,
    /// Whether the text is the field `err` of a table.
    pub is_table: bool,
    /// The place that the message handler recorded.
    pub place: Option<Place>,
}

/// The result of a script that has ended, and the host that it had.
pub(in crate::script) struct Ended {
    pub outcome: Result<Reply, Failure>,
    pub host: Option<Box<dyn Host>>,
    /// The reason why the script had to end, if it had to.
    pub fatal: Option<Fatal>,
    /// How many bytes the Lua state holds, with the garbage that the script has left.
    pub used_bytes: usize,
}

/// The input of [`start`]. It lies in the frame of [`Entry::run`].
struct Call<'a> {
    input: Input<'a>,
    /// Whether the script before this one may have left something in the sandbox.
    must_restore: bool,
}

impl Entry {
    /// Creates the entry.
    ///
    /// # Errors
    /// There is no memory.
    pub(in crate::script) fn new(lua: &Lua, parts: &SandboxParts) -> mlua::Result<Entry> {
        let SandboxParts { globals, restore, locate } = parts;
        let running = running_cell(lua);
        // SAFETY: `push_function` may raise, and the closures own nothing. The state of the script
        // lives as long as the Lua state. `handle` and `start` get the upvalues that they expect.
        unsafe {
            let handler: Function = lua.exec_raw(locate, |state| push_function(state, running, handle, 1))?;
            let upvalues = (restore, globals);
            let start = lua.exec_raw(upvalues, |state| push_function(state, running, start, 2))?;
            Ok(Entry { lua: lua.clone(), start, handler, running })
        }
    }

    /// Runs a script or a function of the same Lua state, after `begin` has set the state of
    /// scripts.
    ///
    /// # Panics
    /// The host of the script has panicked, or a native function.
    pub(in crate::script) fn run(
        &self,
        function: &Function,
        input: Input<'_>,
        begin: impl FnOnce(&mut Running),
    ) -> Ended {
        // SAFETY: the state is locked and has 20 free slots. Nothing here raises before the
        // protected call, which gets a pointer to a value that outlives it. `push_into_stack` fails
        // only for a function of another Lua state.
        let ended = self.lua.exec_raw_lua(|raw| unsafe {
            let cell = self.running.as_ref();
            let call = Call { input, must_restore: cell.borrow().is_disturbed };
            begin(&mut cell.borrow_mut());
            let state = raw.state();
            let top = ffi::lua_gettop(state);
            for part in [&self.handler, &self.start, function] {
                part.push_into_stack(raw).expect(SAME_STATE);
            }
            ffi::lua_pushlightuserdata(state, (&raw const call).cast_mut().cast());
            let status = ffi::lua_pcall(state, 2, 0, top + 1);
            if status != ffi::LUA_OK && cell.borrow().outcome.is_none() {
                // If the error is the panic of a native function, `mlua` resumes it here. It is no
                // table, so no code of a script runs.
                finish(cell, |_| Err(unexpected(&raw.pop_value())));
            }
            ffi::lua_settop(state, top);
            let mut running = cell.borrow_mut();
            running.reply = Reply::Nil;
            running.is_disturbed |= running.fatal.is_some() || !matches!(running.outcome, Some(Ok(_)));
            let (outcome, host, fatal) = (running.outcome.take(), running.host.take(), running.fatal.take());
            match running.panic.take() {
                Some(panic) => Err(panic),
                None => Ok(Ended {
                    outcome: outcome.expect(HAS_OUTCOME),
                    host,
                    fatal,
                    used_bytes: used_bytes(state),
                }),
            }
        });
        ended.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

const HAS_OUTCOME: &str = "a script that has ended without a panic has an outcome";
const SAME_STATE: &str = "the entry and the functions belong to one Lua state";

/// The failure for an error that is not one of the script: there is no memory for its arguments, or
/// for the message handler.
fn unexpected(error: &Value) -> Failure {
    let text = match error {
        Value::String(text) => Bytes::copy_from_slice(&text.as_bytes()),
        other => other.to_string().unwrap_or_default().into(),
    };
    Failure { text, is_table: false, place: None }
}

/// The C function of an [`Entry`]: gets the function to run and a pointer to its [`Call`].
///
/// # Raises
/// The script fails, there is no memory for its arguments, or a native function has panicked.
unsafe extern "C-unwind" fn start(state: *mut lua_State) -> c_int {
    const RESTORE: c_int = ffi::lua_upvalueindex(FREE_UPVALUE);
    // SAFETY: the frame owns nothing: `Call` lies in the frame of `Entry::run`, which no error
    // crosses. It takes at most four slots, apart from those that it asks for.
    unsafe {
        let call: *const Call<'_> = ffi::lua_touserdata(state, 2).cast();
        let Input { keys, args, are_arguments } = (*call).input;
        if (*call).must_restore {
            ffi::lua_pushvalue(state, RESTORE);
            ffi::lua_call(state, 0, 0);
        }
        // The function stays on top.
        ffi::lua_settop(state, 1);
        let cell = running(state);
        let n_bytes = bytes_of(keys).saturating_add(bytes_of(args));
        make_room(state, n_bytes, (*cell.as_ptr()).budget.memory_bytes_max);
        let n_args = if are_arguments {
            push_strings(state, keys);
            push_strings(state, args);
            2
        } else {
            set_global(state, Name::Keys, keys);
            set_global(state, Name::Argv, args);
            0
        };
        ffi::lua_call(state, n_args, 1);
        if ffi::lua_type(state, -1) == ffi::LUA_TTABLE {
            ffi::luaL_checkstack(state, read::SLOTS, std::ptr::null());
        }
        finish(cell, |protocol| Ok(to_reply(state, protocol)));
    }
    0
}

/// Sets a field of the table of globals to a table of strings.
///
/// # Raises
/// There is no memory.
///
/// # Safety
/// The function that is running is [`start`], and three slots are free.
unsafe fn set_global(state: *mut lua_State, name: Name, items: &[&[u8]]) {
    const GLOBALS: c_int = ffi::lua_upvalueindex(FREE_UPVALUE + 1);
    // SAFETY: the frame owns nothing.
    unsafe {
        push_name(state, name);
        push_strings(state, items);
        ffi::lua_rawset(state, GLOBALS);
    }
}

/// The message handler of a script: stores the failure. If `locate` fails, the error is that of
/// `locate`. Lua calls no handler when there is no memory.
///
/// A panic of a native function, which is an error for Lua, makes `locate` fail with this panic.
unsafe extern "C-unwind" fn handle(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing. The table of `locate` is on top of the stack.
    unsafe {
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(FREE_UPVALUE));
        ffi::lua_insert(state, 1);
        ffi::lua_pcall(state, 1, 1, 0);
        if ffi::lua_type(state, -1) == ffi::LUA_TTABLE {
            finish(running(state), |_| Err(failure(state)));
        }
    }
    1
}

/// Stores the outcome of a script, which `read` reads from the stack. Never raises.
fn finish(cell: &RefCell<Running>, read: impl FnOnce(Protocol) -> Result<Reply, Failure>) {
    // After a panic, the script has ended with it.
    _ = guarded(cell, |running| {
        running.outcome = Some(read(running.rules.protocol));
        Ok(())
    });
}

/// The error in the table of the message handler, which is on top of the stack.
///
/// # Safety
/// As for [`text_field`].
unsafe fn failure(state: *mut lua_State) -> Failure {
    // SAFETY: the caller vouches for the table and the slot.
    unsafe {
        let source = text_field(state, Name::Source);
        let line = number_field(state, Name::Line);
        let place = source.zip(line).map(|(source, line)| Place {
            source: String::from_utf8_lossy(&source).into_owned(),
            line: line as i64,
        });
        Failure { text: text_field(state, Name::Err).unwrap_or_default(), is_table: true, place }
    }
}

/// Pushes the table for `KEYS` or `ARGV`.
///
/// # Raises
/// There is no memory.
///
/// # Safety
/// `state` is valid and has two free slots.
unsafe fn push_strings(state: *mut lua_State, items: &[&[u8]]) {
    // SAFETY: the frame owns nothing.
    unsafe {
        ffi::lua_createtable(state, c_int::try_from(grown_size(items.len())).unwrap_or(c_int::MAX), 0);
        for (item, place) in items.iter().zip(1..) {
            push_bytes(state, item);
            ffi::lua_rawseti_(state, -2, place);
        }
    }
}

/// About how many bytes Lua takes for a table of strings.
fn bytes_of(items: &[&[u8]]) -> usize {
    const BYTES_PER_STRING: usize = 64;
    items.iter().map(|item| item.len().saturating_add(BYTES_PER_STRING)).sum()
}
