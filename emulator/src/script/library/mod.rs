//! The libraries that Redis provides to scripts in addition to Lua's own.

mod state;
mod bit;
mod cjson;
mod cmsgpack;
mod string;
mod structs;
mod table;

use mlua::{Lua, Table};

pub(super) use cjson::Config as JsonConfig;
pub(super) use state::{CONTENTS, NEXT};
pub(super) use string::functions as string_functions;
pub(super) use table::functions as table_functions;

/// Every library, by its name.
pub(super) fn libraries(lua: &Lua, json: &JsonConfig) -> mlua::Result<Table> {
    let libraries = lua.create_table()?;
    libraries.raw_set("cjson", cjson::library(lua, json)?)?;
    libraries.raw_set("cmsgpack", cmsgpack::library(lua)?)?;
    libraries.raw_set("struct", structs::library(lua)?)?;
    libraries.raw_set("bit", bit::library(lua)?)?;
    Ok(libraries)
}
