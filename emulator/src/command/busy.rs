//! What is answered without the engine, while a script runs long.

use super::{Argv, Flag, resolve};
use crate::busy::{Busy, Kind};
use crate::reply::Reply;

/// The reply to a command that nothing but the script that runs decides about. None if no script has run long, or if the command
/// has to wait for its end: of those that are allowed meanwhile, all but `SCRIPT KILL` and `FUNCTION KILL` need the client's state.
pub(crate) fn answer(busy: &Busy, argv: &Argv<'_>) -> Option<Reply> {
    let refusal = busy.refusal()?;
    let outcome = match resolve(argv) {
        Err(error) => Err(error),
        Ok(row) if row.name == "script|kill" => busy.kill(Kind::Script),
        Ok(row) if row.name == "function|kill" => busy.kill(Kind::Function),
        // `EXEC` is refused, but ends the transaction that the client's state knows of.
        Ok(row) if row.flags.contains(&Flag::AllowBusy) || row.name == "exec" => return None,
        Ok(_) => Err(refusal),
    };
    Some(outcome.map_or_else(Reply::Error, |()| Reply::OK))
}
