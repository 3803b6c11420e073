//! How native functions spend the budget of the script that is running.

use mlua::Lua;

use super::budget::{BYTES_PER_INSTRUCTION, no_memory};
use super::c_api::place;
use super::running::with_running;

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

/// Whether the running script must end.
pub(super) fn is_over(lua: &Lua) -> bool {
    with_running(lua, |running| running.fatal.is_some())
}
