//! What each target does with an input. Its first paragraph says what must hold.

pub mod command;
pub mod connection;
pub mod eval;
pub mod function_restore;
pub mod glob_config;
pub mod lua_libraries;
pub mod resp_decode;
pub mod schedule;

/// What a target does with an input: it panics if something does not hold.
pub type Check = fn(&[u8]);

/// All, by name.
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
