//! Lua 5.1 as Redis 7.0 embeds it: the sandbox, the conversions in both directions, the error
//! texts.
//!
//! The module knows no commands. While a script runs, a [`Host`] runs the commands that it calls.
//! <https://redis.io/docs/latest/develop/programmability/lua-api/>

mod c_values;
mod raised;
mod budget;
mod host;
mod lrand48;
mod running;
mod pattern;
mod c_api;
mod spend;
mod args;
mod library;
mod random;
mod sha;
mod redis;
mod shebang;
mod register;
mod builtins;
mod native;
mod vm;
mod functions;
mod payload;
mod scripts;
#[cfg(test)]
mod fixture;

pub use budget::ScriptBudget;
pub use functions::{Functions, Libraries, ReadyFunction, RestorePolicy};
pub use host::{Host, Rules, ScriptCall};
pub(crate) use payload::{dump, restore};
pub use scripts::{Known, ReadyScript, Scripts, flags};
pub use sha::{Sha, sha1_hex};
pub use shebang::Mode;
