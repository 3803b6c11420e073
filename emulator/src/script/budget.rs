//! The limits of one script, and how a script ends when it exceeds them.
//!
//! No code of the script can prevent the end: every function that catches errors checks
//! [`is_over`](super::spend::is_over) and raises again.

use mlua::{Error as LuaError, ExternalError as _, Lua};

use super::raised::Raised;
use crate::error::Error;

/// How many instructions a script executes at most before a check whether it may continue.
pub(super) const INSTRUCTIONS_PER_CHECK: u64 = 10_000;

/// How many instructions count for reading or writing one value of JSON or MessagePack.
pub(super) const INSTRUCTIONS_PER_VALUE: u64 = 8;
/// How many instructions a command counts for until the next check. The budget limits commands by
/// their number.
pub(super) const INSTRUCTIONS_PER_COMMAND: u64 = 100;
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

/// The error that Lua raises when an allocation fails.
pub(super) fn no_memory() -> LuaError {
    LuaError::MemoryError(NO_MEMORY.into())
}

/// Sets the limit of memory; 0 means no limit.
pub(super) fn limit_memory(lua: &Lua, bytes_max: usize) {
    // This fails only for a Lua state that `mlua` did not create.
    _ = lua.set_memory_limit(bytes_max.min(MEMORY_BYTES_MAX));
}
