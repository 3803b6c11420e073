//! The check that each target runs on an input. The first paragraph of each file states what must
//! hold.

pub mod command;
pub mod connection;
pub mod eval;
pub mod function_restore;
pub mod glob_config;
pub mod lua_libraries;
pub mod resp_decode;
pub mod schedule;

/// The check of a target. It panics if the property does not hold for the input.
pub type Check = fn(&[u8]);

/// All targets by name.
pub const TARGETS: [(&str, Check); 8] = [
    ("command", command::check),
    ("connection", connection::check),
    ("eval", eval::check),
    ("function_restore", function_restore::check),
    ("glob_config", glob_config::check),
    ("lua_libraries", lua_libraries::check),
    ("resp_decode", resp_decode::check),
    ("schedule", schedule::check),
];
