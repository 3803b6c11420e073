//! The libraries that Redis gives to scripts beside Lua's own.

mod bit;
mod cjson;
mod cmsgpack;
mod string;
mod structs;
mod table;

use mlua::{Lua, Table, Value};

pub(super) use cjson::Config as JsonConfig;
pub(super) use string::{functions as string_functions, gsub};
pub(super) use table::functions as table_functions;

/// How many slots C gives to one function on Lua's stack: what nests deeper is an error there, and so here.
pub(super) const STACK_SLOTS_MAX: usize = 8000;

/// Under this name the Lua state keeps the contents of read-only tables, by the tables that scripts see.
pub(super) const CONTENTS: &str = "contents";

/// Under this name it keeps Lua's own `next`.
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

/// The table itself, or what stands behind one that is read-only.
fn contents(lua: &Lua, table: &Table) -> mlua::Result<Table> {
    if !table.has_metatable() {
        return Ok(table.clone());
    }
    match lua.named_registry_value::<Table>(CONTENTS)?.raw_get(table)? {
        Value::Table(contents) => Ok(contents),
        _ => Ok(table.clone()),
    }
}
