//! `redis.call`, `redis.pcall` and `redis.acl_check_cmd`.

use std::cell::RefCell;
use std::ffi::c_int;

use mlua::ffi::{self, lua_State};
use mlua::{Function, Lua};
use smallvec::SmallVec;

use super::meter::n_bytes;
use super::push::{Digits, push};
use super::stack::Stack;
use super::{Name, bytes, create_function, guarded, make_room, pay, place_in, running};
use crate::error::Error;
use crate::reply::Reply;
use crate::script::budget::{BYTES_PER_INSTRUCTION, Over, Place};
use crate::script::running::Running;

const NO_ARGUMENT: Error =
    Error::from_static("ERR Please specify at least one argument for this redis lib call");
const WRONG_ARGUMENT: Error =
    Error::from_static("ERR Lua redis lib command arguments must be strings or integers");
const UNKNOWN_COMMAND: Error = Error::from_static("ERR Invalid command passed to redis.acl_check_cmd()");

/// The functions of this file, with their names in the table `redis`.
///
/// # Errors
/// There is no memory.
pub(in crate::script) fn commands(lua: &Lua) -> mlua::Result<[(&'static str, Function); 3]> {
    let create = |name, function: ffi::lua_CFunction| {
        // SAFETY: these functions have no upvalues of their own.
        unsafe { create_function(lua, function, ()) }.map(|function| (name, function))
    };
    Ok([create("call", call)?, create("pcall", pcall)?, create("acl_check_cmd", acl_check_cmd)?])
}

unsafe extern "C-unwind" fn call(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing.
    unsafe {
        answer(state, |arguments, running| match perform(arguments, running)? {
            Ok(reply @ Reply::Error(_)) => Ok((reply, Then::RaiseMarked)),
            Ok(reply) => Ok((reply, Then::Return)),
            Err(error) => Ok((Reply::Error(error), Then::Raise)),
        })
    }
}

unsafe extern "C-unwind" fn pcall(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing.
    unsafe {
        answer(state, |arguments, running| match perform(arguments, running)? {
            Ok(reply @ Reply::Error(_)) => Ok((reply, Then::ReturnMarked)),
            Ok(reply) => Ok((reply, Then::Return)),
            Err(error) => Ok((Reply::Error(error), Then::Return)),
        })
    }
}

/// `redis.acl_check_cmd(name, …)`: there is one user, who may run every command.
unsafe extern "C-unwind" fn acl_check_cmd(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing.
    unsafe {
        answer(state, |arguments, running| {
            let host = running.host.as_mut().expect("commands are called while a script runs");
            match arguments.with_argv(|argv| host.knows(argv)) {
                Ok(true) => Ok((Reply::Nil, Then::ReturnTrue)),
                Ok(false) => Ok((Reply::Error(UNKNOWN_COMMAND), Then::Raise)),
                Err(error) => Ok((Reply::Error(error), Then::Raise)),
            }
        })
    }
}

/// The use of a reply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Return,
    /// The reply is an error that a command returned. Its table says that it has been counted.
    ReturnMarked,
    /// The script gets `true` instead.
    ReturnTrue,
    Raise,
    /// As [`Then::ReturnMarked`].
    RaiseMarked,
}

type Compute = fn(Arguments, &mut Running) -> Result<(Reply, Then), Over>;

/// Computes a reply from the arguments on the stack, and returns or raises it.
///
/// # Raises
/// The reply says so, the script must end, or the reply cannot be converted.
///
/// # Safety
/// As for [`running`], and the C function has just begun.
unsafe fn answer(state: *mut lua_State, compute: Compute) -> c_int {
    // SAFETY: the frame owns nothing: the reply stays in the state of the script. That state is not
    // borrowed while the reply is pushed, because pushing runs no code but Lua's own.
    unsafe {
        let stack = Stack::of_function(state);
        let cell = running(state);
        let n_args = stack.height();
        pay(state, 1 + n_args as u64 + n_bytes(state, 1..=n_args) / BYTES_PER_INSTRUCTION);
        let Ok(then) = compute_into(cell, Arguments::on_stack(stack), compute) else {
            stack.push_name(Name::MustEnd);
            ffi::lua_error(state);
        };
        // The arguments give way to the reply, so that it may be as deep after many of them.
        ffi::lua_settop(state, 0);
        if then == Then::ReturnTrue {
            stack.push_boolean(true);
            return 1;
        }
        let running = &*cell.as_ptr();
        let size = running.reply.size();
        pay(state, size as u64 / BYTES_PER_INSTRUCTION);
        make_room(state, BYTES_OF_LUA * size, running.budget.memory_bytes_max);
        push(stack, &running.reply, running.rules.protocol);
        if matches!(then, Then::ReturnMarked | Then::RaiseMarked) {
            stack.push_name(Name::IgnoreErrorStatsUpdate);
            stack.push_boolean(true);
            ffi::lua_rawset(state, -3);
        }
        drop_reply(cell);
        if matches!(then, Then::Raise | Then::RaiseMarked) {
            ffi::lua_error(state);
        }
        1
    }
}

/// Never raises.
fn drop_reply(cell: &RefCell<Running>) {
    cell.borrow_mut().reply = Reply::Nil;
}

/// How many bytes Lua takes at most for one byte of a reply's size, for most replies.
const BYTES_OF_LUA: usize = 2;

/// Stores the reply, and returns what happens with it. Never raises.
fn compute_into(cell: &RefCell<Running>, arguments: Arguments, compute: Compute) -> Result<Then, Over> {
    guarded(cell, |running| {
        let (reply, then) = compute(arguments, running)?;
        running.reply = reply;
        Ok(then)
    })
}

/// Runs the command in the arguments. The inner error says that the arguments are not those of a
/// command.
fn perform(arguments: Arguments, running: &mut Running) -> Result<Result<Reply, Error>, Over> {
    let place = || arguments.caller();
    running.spend_command(place)?;
    let Running { host, rules, .. } = running;
    let host = host.as_mut().expect("commands are called while a script runs");
    let outcome = arguments.with_argv(|argv| host.call(argv, *rules));
    let n_elements = match &outcome {
        Ok(Reply::Array(elements) | Reply::Set(elements)) => elements.len(),
        Ok(Reply::Map(pairs)) => 2 * pairs.len(),
        _ => 0,
    };
    if n_elements > 0 {
        running.spend_values(n_elements, place)?;
    }
    Ok(outcome)
}

/// The arguments of the C function that is running, which are all values on its stack.
#[derive(Clone, Copy)]
struct Arguments {
    state: *mut lua_State,
    n: c_int,
    /// Whether they are strings only.
    are_strings: bool,
}

impl Arguments {
    /// Makes strings of numbers, as C prints them with `%.17g`. Other arguments stay as they are.
    ///
    /// # Raises
    /// There is no memory.
    ///
    /// # Stack
    /// 1 slot
    ///
    /// # Safety
    /// The values on the stack are the arguments of the function that is running.
    unsafe fn on_stack(stack: Stack) -> Arguments {
        let (stack, state) = (stack.at_most(1), stack.state);
        // SAFETY: the frame owns nothing. Each string takes the place of its number.
        unsafe {
            let mut arguments = Arguments { state, n: ffi::lua_gettop(state), are_strings: true };
            for idx in 1..=arguments.n {
                match ffi::lua_type(state, idx) {
                    ffi::LUA_TSTRING => {}
                    ffi::LUA_TNUMBER => {
                        stack.push_bytes(Digits::of(ffi::lua_tonumber(state, idx)).as_bytes());
                        ffi::lua_replace(state, idx);
                    }
                    _ => arguments.are_strings = false,
                }
            }
            arguments
        }
    }

    /// Passes the arguments as bytes.
    ///
    /// # Errors
    /// There is no argument, or one that is neither a string nor a number.
    fn with_argv<R>(self, act: impl FnOnce(&[&[u8]]) -> R) -> Result<R, Error> {
        if self.n == 0 {
            return Err(NO_ARGUMENT);
        }
        if !self.are_strings {
            return Err(WRONG_ARGUMENT);
        }
        // SAFETY: they are strings, which stay on the stack while `act` runs, because nobody else
        // uses this Lua state then.
        let argument = |idx| unsafe { bytes(self.state, idx) };
        let argv: SmallVec<[&[u8]; 8]> = (1..=self.n).map(argument).collect();
        Ok(act(&argv))
    }

    /// The line that called the C function.
    fn caller(self) -> Option<Place> {
        // SAFETY: the state is the one that runs.
        unsafe { place_in(self.state) }
    }
}
