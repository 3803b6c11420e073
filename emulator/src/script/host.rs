//! The server as scripts see it. A script knows no other part of it.

use std::any::Any;

use bytes::Bytes;

use crate::error::Error;
use crate::log::LogLevel;
use crate::reply::Reply;
use crate::resp::Protocol;

/// Runs the commands that a script calls.
pub trait Host: Any + Send {
    /// Runs one command and returns its reply. Returns an error for commands that scripts, or this
    /// script, may not call.
    fn call(&mut self, argv: &[&[u8]], rules: Rules) -> Reply;

    /// Whether a script has no limit of time.
    fn may_be_busy(&self) -> bool;

    /// Called regularly while a script runs: runs the jobs that other clients left.
    ///
    /// # Errors
    /// The script must end now.
    fn yield_to_clients(&mut self) -> Result<(), Error>;

    /// Whether the commands so far have left more than so many entries in the footprint.
    fn has_footprint_over(&mut self, entries_max: usize) -> bool;

    /// Logs a line.
    fn log(&self, level: LogLevel, text: Vec<u8>);

    /// Whether the server has the command of this argv.
    fn knows(&self, argv: &[&[u8]]) -> bool;
}

/// The rules for the commands that a script calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// The protocol whose types the script gets: `redis.setresp`.
    pub protocol: Protocol,
    /// Whether the script may not write, for example because of `#!lua flags=no-writes`.
    pub is_read_only: bool,
    /// Whether the effects are not sent to replicas: `redis.set_repl`.
    pub spares_replicas: bool,
}

/// A command that a script or a function has called, and the reply that it got.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptCall {
    /// The name and the arguments of the command.
    pub argv: Vec<Bytes>,
    /// The reply, before it became a value of Lua.
    pub reply: Reply,
}
