//! The limits of one script, and how a script ends when it exceeds them.
//!
//! No code of the script can prevent the end: every function that catches errors checks [`is_over`]
//! and raises again.

use std::any::Any;

use mlua::{Error as LuaError, ExternalError as _, Lua};

use super::c_api::place;
use super::native::Raised;
use super::vm::{Running, with_running};
use crate::error::Error;

/// How many instructions a script executes at most before a check whether it may continue.
pub(super) const INSTRUCTIONS_PER_CHECK: u64 = 10_000;

/// How many instructions count for reading or writing one value of JSON or MessagePack.
pub(super) const INSTRUCTIONS_PER_VALUE: u64 = 8;
/// How many instructions a command counts for until the next check. The budget limits commands by
/// their number.
const INSTRUCTIONS_PER_COMMAND: u64 = 100;
/// How many bytes count as one instruction when they are copied.
pub(super) const BYTES_PER_INSTRUCTION: u64 = 64;

/// The message of Lua's own error when its memory limit is reached.
pub(super) const NO_MEMORY: &str = "not enough memory";

/// The largest limit of memory. From 2 GB on, Lua's compiler counts wrongly (CVE-2025-46819).
const MEMORY_BYTES_MAX: usize = i32::MAX as usize;

/// The limits of one script or function. A script that exceeds one ends with an error.
///
/// [Scripts of clients at sockets](crate::Emulator::listen) have no limit of time. Only the limit
/// of memory holds for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptBudget {
    /// Instructions of Lua's virtual machine. The steps of pattern matching count as instructions.
    /// The data that a library reads and writes counts by its length.
    pub instructions_max: u64,
    /// Commands that the script calls.
    pub commands_max: u64,
    /// Entries in the [footprint](crate::Footprint) of these commands.
    pub footprint_entries_max: usize,
    /// Bytes that the Lua state holds, including garbage that is not freed yet; 2 GB at most. There
    /// are two states: one for scripts, one for functions.
    pub memory_bytes_max: usize,
}

impl Default for ScriptBudget {
    /// The limits allow about one second of each resource, and 512 MiB, the size of Redis's largest
    /// string.
    fn default() -> ScriptBudget {
        ScriptBudget {
            instructions_max: 100_000_000,
            commands_max: 1_000_000,
            footprint_entries_max: 1_000_000,
            memory_bytes_max: 512 << 20,
        }
    }
}

/// The reason why a script must end, and the place in its code where it was detected.
#[derive(Clone, Debug)]
pub(super) struct Fatal {
    pub error: Error,
    pub place: Option<Place>,
}

/// A line of a script.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The name that Lua uses: `@user_script`.
    pub source: String,
    pub line: i64,
}

/// The script must end: its state has the reason.
#[derive(Clone, Copy, Debug)]
pub(super) struct Over;

impl From<Over> for LuaError {
    fn from(_: Over) -> LuaError {
        Raised::Fatal.into_lua_err()
    }
}

impl Running {
    /// Counts instructions, and checks regularly whether the script may continue.
    ///
    /// # Errors
    /// The script must end.
    pub fn spend(&mut self, instructions: u64, place: impl FnOnce() -> Option<Place>) -> Result<(), Over> {
        if self.fatal.is_some() {
            return Err(Over);
        }
        self.instructions = self.instructions.saturating_add(instructions);
        self.instructions_unchecked = self.instructions_unchecked.saturating_add(instructions);
        let limit = self.budget.instructions_max;
        let is_over = self.instructions > limit && !self.may_be_busy();
        if !is_over && self.instructions_unchecked < INSTRUCTIONS_PER_CHECK {
            return Ok(());
        }
        self.instructions_unchecked = 0;
        if let Some(host) = &mut self.host
            && let Err(error) = host.yield_to_clients()
        {
            return Err(self.end(error, place()));
        }
        match (is_over, &self.loading) {
            (false, _) => Ok(()),
            (true, None) => Err(self.end(too_much("took", limit, "instructions"), place())),
            // Redis's text, for a library that takes longer than 500 ms to load.
            (true, Some(_)) => Err(self.end(Error::from_static("ERR FUNCTION LOAD timeout"), None)),
        }
    }

    /// Counts values that a library reads or writes.
    ///
    /// # Errors
    /// The script must end.
    pub fn spend_values(&mut self, n: usize, place: impl FnOnce() -> Option<Place>) -> Result<(), Over> {
        self.spend((n as u64).saturating_mul(INSTRUCTIONS_PER_VALUE), place)
    }

    /// Counts a command that the script is about to call.
    ///
    /// # Errors
    /// There are too many commands or footprint entries: the script must end.
    pub fn spend_command(&mut self, place: impl FnOnce() -> Option<Place>) -> Result<(), Over> {
        self.commands += 1;
        self.instructions_unchecked = self.instructions_unchecked.saturating_add(INSTRUCTIONS_PER_COMMAND);
        if self.may_be_busy() {
            return Ok(());
        }
        let ScriptBudget { commands_max, footprint_entries_max, .. } = self.budget;
        let error = if self.commands > commands_max {
            too_much("called", commands_max, "commands")
        } else if self.host.as_mut().is_some_and(|host| host.has_footprint_over(footprint_entries_max)) {
            too_much("left", footprint_entries_max as u64, "footprint entries")
        } else {
            return Ok(());
        };
        Err(self.end(error, place()))
    }

    /// Ends the script because Rust code has panicked. The panic goes on when Lua has ended.
    pub fn end_with_panic(&mut self, panic: Box<dyn Any + Send>) -> Over {
        self.panic = Some(panic);
        self.end(Error::from_static("ERR the emulator has panicked"), None)
    }

    fn end(&mut self, error: Error, place: Option<Place>) -> Over {
        self.fatal = Some(Fatal { error, place });
        Over
    }
}

/// Counts instructions, and checks regularly whether the script may continue.
///
/// # Errors
/// The script must end.
pub(super) fn spend(lua: &Lua, instructions: u64) -> mlua::Result<()> {
    Ok(with_running(lua, |running| running.spend(instructions, || place(lua)))?)
}

/// Counts values that a library reads or writes.
///
/// # Errors
/// The script must end.
pub(super) fn spend_values(lua: &Lua, n: usize) -> mlua::Result<()> {
    Ok(with_running(lua, |running| running.spend_values(n, || place(lua)))?)
}

/// Counts bytes that a native function copies.
///
/// # Errors
/// The script must end.
pub(super) fn spend_bytes(lua: &Lua, n: usize) -> mlua::Result<()> {
    spend(lua, n as u64 / BYTES_PER_INSTRUCTION)
}

/// Checks that a value which Rust builds for a script is not larger than the memory of the Lua
/// state.
///
/// # Errors
/// The value is larger.
pub(super) fn check_size(lua: &Lua, n_bytes: usize) -> mlua::Result<()> {
    let bytes_max = with_running(lua, |running| running.budget.memory_bytes_max);
    if n_bytes <= bytes_max { Ok(()) } else { Err(no_memory()) }
}

/// The error that Lua raises when an allocation fails.
pub(super) fn no_memory() -> LuaError {
    LuaError::MemoryError(NO_MEMORY.into())
}

/// Sets the limit of memory; 0 means no limit.
pub(super) fn limit_memory(lua: &Lua, bytes_max: usize) {
    // This fails only for a Lua state that `mlua` did not create.
    _ = lua.set_memory_limit(bytes_max.min(MEMORY_BYTES_MAX));
}

/// Whether the running script must end.
pub(super) fn is_over(lua: &Lua) -> bool {
    with_running(lua, |running| running.fatal.is_some())
}

fn too_much(verb: &str, limit: u64, what: &str) -> Error {
    Error::new(format!("ERR Error running script: it {verb} more than {limit} {what} (an endless loop?)"))
}
