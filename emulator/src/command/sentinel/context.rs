//! What the commands of Sentinels have in common.

use super::super::Ctx;
use crate::clock::Timestamp;
use crate::error::Error;
use crate::reply::Reply;
use crate::sentinel::{Deed, Sentinel};

pub(super) const NO_SUCH_MASTER: Error = Error::from_static("ERR No such master with that name");

/// The state of the Sentinel, and the time.
pub(super) fn state<'a>(ctx: &'a mut Ctx<'_>) -> (&'a mut Sentinel, Timestamp) {
    let now = ctx.engine.now();
    let sentinel = ctx.engine.sentinel.as_deref_mut();
    (sentinel.expect("only a Sentinel has these commands"), now)
}

/// Publishes events, and answers.
pub(super) fn done(ctx: &mut Ctx<'_>, deeds: Vec<Deed>, reply: Reply) -> Reply {
    ctx.engine.perform_deeds(deeds);
    reply
}

/// The error for an argument that a command does not take.
pub(super) fn invalid(what: &str, arg: &[u8], name: &[u8]) -> Error {
    let (arg, name) = (String::from_utf8_lossy(arg), String::from_utf8_lossy(name));
    Error::new(format!("ERR Invalid argument '{arg}' for SENTINEL {what} '{name}'"))
}

/// The error for an option that a command does not know.
pub(super) fn unknown_option(what: &str, name: &[u8]) -> Error {
    let name = String::from_utf8_lossy(name);
    Error::new(format!("ERR Unknown option or number of arguments for SENTINEL {what} '{name}'"))
}
