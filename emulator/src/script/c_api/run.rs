//! Runs a script or a function.

use std::cell::RefCell;
use std::ffi::c_int;
use std::panic::resume_unwind;
use std::ptr::NonNull;

use bytes::Bytes;
use mlua::ffi::{self, lua_State};
use mlua::{Function, IntoLua as _, Lua, RegistryKey, Table, Value};

use super::read::{number_field, text_field, to_reply};
use super::stack::Stack;
use super::{FREE_UPVALUE, Name, create_function, grown_size, guarded, make_room, running, used_bytes};
use crate::reply::Reply;
use crate::resp::Protocol;
use crate::script::Host;
use crate::script::budget::{Fatal, Place};
use crate::script::running::{Failure, Running, running_cell};

/// The way into a Lua state: runs its scripts.
pub(in crate::script) struct Entry {
    /// It keeps the state of scripts alive, and what `running` points to.
    lua: Lua,
    prepare: Function,
    handler: Function,
    convert: Function,
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

/// The result of a script that has ended, and the host that it had.
pub(in crate::script) struct Ended {
    pub outcome: Result<Reply, Failure>,
    pub host: Option<Box<dyn Host>>,
    /// The reason why the script had to end, if it had to.
    pub fatal: Option<Fatal>,
    /// How many bytes the Lua state holds, with the garbage that the script has left.
    pub used_bytes: usize,
}

/// The input of [`prepare`]. It lies in the frame of [`Entry::run`].
struct Call<'a> {
    /// The place of the function in Lua's registry.
    function: c_int,
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
        // SAFETY: the functions get the upvalues that they expect.
        unsafe {
            Ok(Entry {
                lua: lua.clone(),
                prepare: create_function(lua, prepare, (restore, globals))?,
                handler: create_function(lua, handle, locate)?,
                convert: create_function(lua, convert, ())?,
                running: running_cell(lua),
            })
        }
    }

    /// Runs a script or a function in the registry of the same Lua state, after `begin` has set the
    /// state of scripts.
    ///
    /// The preparation, the script and the conversion are three protected calls, one after the
    /// other. So the script may nest its own calls as deep as in Redis.
    ///
    /// # Panics
    /// The host of the script has panicked, or a native function.
    pub(in crate::script) fn run(
        &self,
        function: &RegistryKey,
        input: Input<'_>,
        begin: impl FnOnce(&mut Running),
    ) -> Ended {
        debug_assert!(self.lua.owns_registry_value(function), "{SAME_STATE}");
        // SAFETY: the state is locked. Nothing here raises except in the protected calls. The first
        // of them gets a pointer to a value that outlives it. `push_into_stack` fails only for
        // a function of another Lua state.
        let ended = self.lua.exec_raw_lua(|raw| unsafe {
            let cell = self.running.as_ref();
            let call = Call { function: function.id(), input, must_restore: cell.borrow().is_disturbed };
            begin(&mut cell.borrow_mut());
            let state = raw.state();
            let stack = Stack::with_room(state, SLOTS_OF_RUN).expect("a Lua state that is idle has room");
            let height = stack.height();
            let push = |part: &Function| part.push_into_stack(raw).expect(SAME_STATE);
            push(&self.handler);
            push(&self.prepare);
            stack.push_pointer(&raw const call);
            let mut status = ffi::lua_pcall(state, 1, ffi::LUA_MULTRET, 0);
            if status == ffi::LUA_OK {
                // The function and its arguments are above the handler.
                let n_args = stack.height() - height - 2;
                status = ffi::lua_pcall(state, n_args, 1, height + 1);
            }
            if status == ffi::LUA_OK {
                push(&self.convert);
                ffi::lua_insert(state, -2);
                status = ffi::lua_pcall(state, 1, 0, 0);
            }
            if status != ffi::LUA_OK && cell.borrow().outcome.is_none() {
                // If the error is the panic of a native function, `mlua` resumes it here. It is no
                // table, so no code of a script runs.
                finish(cell, |_| Err(unexpected(&raw.pop_value())));
            }
            ffi::lua_settop(state, height);
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

/// How many slots [`Entry::run`] takes: the handler, the function, and its arguments or its result.
const SLOTS_OF_RUN: c_int = 4;
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

/// The first C function of an [`Entry`]: gets a pointer to a [`Call`], and returns the function to
/// run with its arguments.
///
/// # Raises
/// There is no memory for the arguments, or a native function has panicked.
unsafe extern "C-unwind" fn prepare(state: *mut lua_State) -> c_int {
    const RESTORE: c_int = ffi::lua_upvalueindex(FREE_UPVALUE);
    // SAFETY: the frame owns nothing: `Call` lies in the frame of `Entry::run`, which no error
    // crosses. The stack takes the function and two lists, or a name, a list and an item.
    unsafe {
        let stack = Stack::of_function(state).at_most(4);
        let call: *const Call<'_> = ffi::lua_touserdata(state, 1).cast();
        let Call { function, input: Input { keys, args, are_arguments }, must_restore } = *call;
        if must_restore {
            stack.push_copy(RESTORE);
            ffi::lua_call(state, 0, 0);
        }
        ffi::lua_settop(state, 0);
        stack.push_item(ffi::LUA_REGISTRYINDEX, function);
        let n_bytes = bytes_of(keys).saturating_add(bytes_of(args));
        make_room(state, n_bytes, (*running(state).as_ptr()).budget.memory_bytes_max);
        if are_arguments {
            push_strings(stack, keys);
            push_strings(stack, args);
            return 3;
        }
        set_global(stack, Name::Keys, keys);
        set_global(stack, Name::Argv, args);
        1
    }
}

/// The last C function of an [`Entry`]: gets the result of the script, and stores it as a reply.
unsafe extern "C-unwind" fn convert(state: *mut lua_State) -> c_int {
    // SAFETY: the value is on top of the stack. Nothing here raises.
    unsafe { finish(running(state), |protocol| Ok(to_reply(state, protocol))) };
    0
}

/// Sets a field of the table of globals to a table of strings.
///
/// # Raises
/// There is no memory.
///
/// # Stack
/// 3 slots
///
/// # Safety
/// The function that is running is [`prepare`].
unsafe fn set_global(stack: Stack, name: Name, items: &[&[u8]]) {
    const GLOBALS: c_int = ffi::lua_upvalueindex(FREE_UPVALUE + 1);
    let stack = stack.at_most(3);
    // SAFETY: the frame owns nothing.
    unsafe {
        stack.push_name(name);
        push_strings(stack, items);
        ffi::lua_rawset(stack.state, GLOBALS);
    }
}

/// The message handler of a script: stores the failure. If `locate` fails, the error is that of
/// `locate`. Lua calls no handler when there is no memory.
///
/// A panic of a native function, which is an error for Lua, makes `locate` fail with this panic.
unsafe extern "C-unwind" fn handle(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing. The table of `locate` is on top of the stack.
    unsafe {
        let stack = Stack::of_function(state).at_most(1);
        stack.push_copy(ffi::lua_upvalueindex(FREE_UPVALUE));
        ffi::lua_insert(state, 1);
        ffi::lua_pcall(state, 1, 1, 0);
        if ffi::lua_type(state, -1) == ffi::LUA_TTABLE {
            finish(running(state), |_| Err(failure(stack)));
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
/// # Stack
/// 1 slot
///
/// # Safety
/// As for [`text_field`].
unsafe fn failure(stack: Stack) -> Failure {
    // SAFETY: the caller vouches for the table.
    unsafe {
        let source = text_field(stack, Name::Source);
        let line = number_field(stack, Name::Line);
        let place = source.zip(line).map(|(source, line)| Place {
            source: String::from_utf8_lossy(&source).into_owned(),
            line: line as i64,
        });
        Failure { text: text_field(stack, Name::Err).unwrap_or_default(), is_table: true, place }
    }
}

/// Pushes the table for `KEYS` or `ARGV`.
///
/// # Raises
/// There is no memory.
///
/// # Stack
/// 2 slots
///
/// # Safety
/// The stack belongs to the function that is running.
unsafe fn push_strings(stack: Stack, items: &[&[u8]]) {
    let stack = stack.at_most(2);
    // SAFETY: the frame owns nothing.
    unsafe {
        stack.push_table(grown_size(items.len()), 0);
        for (item, place) in items.iter().zip(1..) {
            stack.push_bytes(item);
            ffi::lua_rawseti_(stack.state, -2, place);
        }
    }
}

/// About how many bytes Lua takes for a table of strings.
fn bytes_of(items: &[&[u8]]) -> usize {
    const BYTES_PER_STRING: usize = 64;
    items.iter().map(|item| item.len().saturating_add(BYTES_PER_STRING)).sum()
}
