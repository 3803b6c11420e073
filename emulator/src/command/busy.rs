//! What is answered without the engine, while a script runs long.

use super::{Argv, Flag, is_word, resolve};
use crate::busy::{Busy, Kind};
use crate::error;
use crate::reply::Reply;

/// What has been refused, as far as the client's transaction minds: later ones outdo earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refused {
    #[default]
    Nothing,
    /// A command: a transaction is spoilt.
    Command,
    /// `EXEC`: a transaction is over.
    Exec,
}

/// The reply to a command that nothing but the script that runs decides about. None if no script has run long, or if the command
/// has to wait for its end: of those that are allowed meanwhile, all but `SCRIPT KILL` and `FUNCTION KILL` need the client's state.
pub(crate) fn answer(busy: &Busy, argv: &Argv<'_>) -> Option<(Reply, Refused)> {
    let refusal = busy.refusal()?;
    let outcome = match resolve(argv) {
        Err(error) => Err(error),
        Ok(row) if row.name == "script|kill" => busy.kill(Kind::Script),
        Ok(row) if row.name == "function|kill" => busy.kill(Kind::Function),
        Ok(row) if row.flags.contains(&Flag::AllowBusy) => return None,
        Ok(_) => Err(refusal),
    };
    Some(match outcome {
        Ok(()) => (Reply::OK, Refused::Nothing),
        Err(error) if is_word(argv[0], "exec") => (Reply::Error(error::exec_abort(&error)), Refused::Exec),
        Err(error) => (Reply::Error(error), Refused::Command),
    })
}
