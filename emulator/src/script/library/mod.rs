//! The libraries that Redis provides to scripts in addition to Lua's own.

mod bit;
mod cjson;
mod cmsgpack;
mod string;
mod structs;
mod table;

use mlua::{Lua, Table, Value};

pub(super) use cjson::Config as JsonConfig;
pub(super) use string::functions as string_functions;
pub(super) use table::functions as table_functions;

/// How many slots of Lua's stack C allows to one function. Deeper nesting is an error in C, and
/// therefore here.
pub(super) const STACK_SLOTS_MAX: usize = 8000;

/// The name of the registry entry with the contents of read-only tables, by the tables that scripts
/// see.
pub(super) const CONTENTS: &str = "contents";

/// The name of the registry entry with Lua's own `next`.
pub(super) const NEXT: &str = "next";

/// Every library, by its name.
pub(super) fn libraries(lua: &Lua, json: &JsonConfig) -> mlua::Result<Table> {
    let libraries = lua.create_table()?;
    libraries.raw_set("cjson", cjson::library(lua, json)?)?;
    libraries.raw_set("cmsgpack", cmsgpack::library(lua)?)?;
    libraries.raw_set("struct", structs::library(lua)?)?;
    libraries.raw_set("bit", bit::library(lua)?)?;
    Ok(libraries)
}

/// The table itself, or its contents if it is read-only.
fn contents(lua: &Lua, table: &Table) -> mlua::Result<Table> {
    if !table.has_metatable() {
        return Ok(table.clone());
    }
    match lua.named_registry_value::<Table>(CONTENTS)?.raw_get(table)? {
        Value::Table(contents) => Ok(contents),
        _ => Ok(table.clone()),
    }
}
