//! The parts of the Lua state that all libraries know.

use mlua::{Lua, Table, Value};

/// How many slots of Lua's stack C allows to one function. Deeper nesting is an error in C, and
/// therefore here.
pub(super) const STACK_SLOTS_MAX: usize = 8000;

/// The name of the registry entry with the contents of read-only tables, by the tables that scripts
/// see.
pub(in crate::script) const CONTENTS: &str = "contents";

/// The name of the registry entry with Lua's own `next`.
pub(in crate::script) const NEXT: &str = "next";

/// The table itself, or its contents if it is read-only.
pub(super) fn contents(lua: &Lua, table: &Table) -> mlua::Result<Table> {
    if !table.has_metatable() {
        return Ok(table.clone());
    }
    match lua.named_registry_value::<Table>(CONTENTS)?.raw_get(table)? {
        Value::Table(contents) => Ok(contents),
        _ => Ok(table.clone()),
    }
}
