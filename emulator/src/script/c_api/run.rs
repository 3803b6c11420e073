//! Runs a script or a function.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

use bytes::Bytes;
use mlua::ffi::{self, lua_State};
use mlua::{Function, IntoLua as _, Lua, Table, Value};

use super::read::{self, number_field, text_field, to_reply};
use super::{
    FREE_UPVALUE, Name, bytes, grown_size, make_room, push_bytes, push_function, push_name, running,
};
use crate::reply::Reply;
use crate::script::Host;
use crate::script::budget::{Fatal, Place};
use crate::script::vm::{Running, running_cell};

/// The way into a Lua state: runs its scripts.
pub(in crate::script) struct Entry {
    /// It keeps the state of scripts alive, and what `running` points to.
    lua: Lua,
    start: Function,
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
}

/// The input and the output of [`start`]. It lies in the frame of [`Entry::run`].
struct Call<'a> {
    input: Input<'a>,
    /// Whether the script before this one may have left something in the sandbox.
    must_restore: bool,
    outcome: Option<Result<Reply, Failure>>,
    panic: Option<Box<dyn Any + Send>>,
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
            let upvalues = (handler, restore, globals);
            let start = lua.exec_raw(upvalues, |state| push_function(state, running, start, 3))?;
            Ok(Entry { lua: lua.clone(), start, running })
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
        let mut call = Call { input, must_restore: false, outcome: None, panic: None };
        // SAFETY: the state is locked and has 20 free slots. Nothing here raises before the
        // protected call, which gets a pointer to a value that outlives it. `push_into_stack` fails
        // only for a function of another Lua state.
        let (failed, host, fatal, panic) = self.lua.exec_raw_lua(|raw| unsafe {
            let cell = self.running.as_ref();
            call.must_restore = cell.borrow().is_disturbed;
            begin(&mut cell.borrow_mut());
            let state = raw.state();
            let top = ffi::lua_gettop(state);
            (&self.start)
                .push_into_stack(raw)
                .and_then(|()| function.push_into_stack(raw))
                .expect(SAME_STATE);
            ffi::lua_pushlightuserdata(state, (&raw mut call).cast());
            let failed = match ffi::lua_pcall(state, 2, 0, 0) {
                ffi::LUA_OK => Ok(None),
                // If the error is the panic of a native function, `mlua` resumes it here.
                _ => catch_unwind(AssertUnwindSafe(|| Some(raw.pop_value()))),
            };
            ffi::lua_settop(state, top);
            let mut running = cell.borrow_mut();
            running.reply = Reply::Nil;
            running.is_disturbed |= running.fatal.is_some() || !matches!(call.outcome, Some(Ok(_)));
            (failed, running.host.take(), running.fatal.take(), running.panic.take())
        });
        if let Some(panic) = panic.or(call.panic) {
            resume_unwind(panic);
        }
        let outcome = match (call.outcome, failed.unwrap_or_else(|panic| resume_unwind(panic))) {
            (Some(outcome), None) => outcome,
            (_, failed) => Err(unexpected(failed)),
        };
        Ended { outcome, host, fatal }
    }
}

const SAME_STATE: &str = "the entry and the functions belong to one Lua state";

/// The failure for an error that is not one of the script: there is no memory for its arguments, or
/// for the message handler.
fn unexpected(error: Option<Value>) -> Failure {
    let text = match error {
        Some(Value::String(text)) => Bytes::copy_from_slice(&text.as_bytes()),
        Some(other) => other.to_string().unwrap_or_default().into(),
        None => Bytes::new(),
    };
    Failure { text, is_table: false, place: None }
}

/// The C function of an [`Entry`]: gets the function to run and a pointer to its [`Call`].
///
/// # Raises
/// There is no memory for the arguments, or a native function has panicked.
unsafe extern "C-unwind" fn start(state: *mut lua_State) -> c_int {
    const HANDLER: c_int = ffi::lua_upvalueindex(FREE_UPVALUE);
    const RESTORE: c_int = ffi::lua_upvalueindex(FREE_UPVALUE + 1);
    // SAFETY: the frame owns nothing: `Call` lies in the frame of `Entry::run`, which no error
    // crosses. It takes nine slots, apart from those that it asks for.
    unsafe {
        let call: *mut Call<'_> = ffi::lua_touserdata(state, 2).cast();
        let Input { keys, args, are_arguments } = (*call).input;
        if (*call).must_restore {
            ffi::lua_pushvalue(state, RESTORE);
            ffi::lua_call(state, 0, 0);
        }
        let n_bytes = bytes_of(keys).saturating_add(bytes_of(args));
        make_room(state, n_bytes, (*running(state).as_ptr()).budget.memory_bytes_max);
        push_strings(state, keys);
        push_strings(state, args);
        ffi::lua_pushvalue(state, HANDLER);
        ffi::lua_pushvalue(state, 1);
        let n_args = if are_arguments {
            ffi::lua_pushvalue(state, 3);
            ffi::lua_pushvalue(state, 4);
            2
        } else {
            set_global(state, Name::Keys, 3);
            set_global(state, Name::Argv, 4);
            0
        };
        let status = ffi::lua_pcall(state, n_args, 1, 5);
        match ffi::lua_type(state, -1) {
            ffi::LUA_TUSERDATA if status != ffi::LUA_OK => ffi::lua_error(state),
            ffi::LUA_TTABLE => ffi::luaL_checkstack(state, read::SLOTS, std::ptr::null()),
            _ => {}
        }
        finish(state, status, &mut *call);
    }
    0
}

/// Sets a field of the table of globals to a value on the stack.
///
/// # Raises
/// There is no memory.
///
/// # Safety
/// The function that is running is [`start`], and three slots are free.
unsafe fn set_global(state: *mut lua_State, name: Name, idx: c_int) {
    const GLOBALS: c_int = ffi::lua_upvalueindex(FREE_UPVALUE + 2);
    // SAFETY: the frame owns nothing.
    unsafe {
        push_name(state, name);
        ffi::lua_pushvalue(state, idx);
        ffi::lua_rawset(state, GLOBALS);
    }
}

/// The message handler of [`start`]. If `locate` fails, the error is that of `locate`.
///
/// A panic of a native function, which is an error for Lua, makes `locate` fail with this panic.
unsafe extern "C-unwind" fn handle(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing.
    unsafe {
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(FREE_UPVALUE));
        ffi::lua_insert(state, 1);
        ffi::lua_pcall(state, 1, 1, 0);
    }
    1
}

/// Stores the outcome of a script, whose value or error is on top of the stack. Never raises.
///
/// # Safety
/// As for [`running`]. If the topmost value is a table, [`read::SLOTS`] slots are free.
unsafe fn finish(state: *mut lua_State, status: c_int, call: &mut Call<'_>) {
    // SAFETY: the caller vouches for the state and the slots.
    let outcome = catch_unwind(AssertUnwindSafe(|| unsafe {
        match status {
            ffi::LUA_OK => Ok(to_reply(state, running(state).borrow().rules.protocol)),
            _ => Err(failure(state)),
        }
    }));
    match outcome {
        Ok(outcome) => call.outcome = Some(outcome),
        Err(panic) => call.panic = Some(panic),
    }
}

/// The error on top of the stack: the table of the message handler, or Lua's own text if that could
/// not run.
///
/// # Safety
/// As for [`finish`].
unsafe fn failure(state: *mut lua_State) -> Failure {
    // SAFETY: each value is read as the type that it has.
    unsafe {
        match ffi::lua_type(state, -1) {
            ffi::LUA_TTABLE => {
                let source = text_field(state, Name::Source);
                let line = number_field(state, Name::Line);
                let place = source.zip(line).map(|(source, line)| Place {
                    source: String::from_utf8_lossy(&source).into_owned(),
                    line: line as i64,
                });
                Failure { text: text_field(state, Name::Err).unwrap_or_default(), is_table: true, place }
            }
            ffi::LUA_TSTRING => {
                let text = Bytes::copy_from_slice(bytes(state, -1));
                Failure { text, is_table: false, place: None }
            }
            _ => Failure { text: Bytes::new(), is_table: false, place: None },
        }
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
