//! Commands of other clients, between two steps of a script that runs long.

use super::{Argv, perform};
use crate::client::Slot;
use crate::engine::Engine;
use crate::reply::Reply;

/// Runs a command inside the execution of the script, if it is one of those that are allowed meanwhile. The time does not move on,
/// and what others are to be told waits for the script's end.
pub(super) fn call(engine: &mut Box<Engine>, slot: Slot, argv: &Argv<'_>) -> Reply {
    // What is watched from now on has not been changed by what the script has done before.
    engine.watches.notice(&engine.keyspace);
    let postscripts_of_script = std::mem::take(&mut engine.postscripts);
    let mut client = engine.clients.take(slot);
    client.active_at = engine.keyspace.instant();
    let failures = engine.stats.failures;
    let reply = perform(engine, &mut client, argv);
    engine.stats.served_another(failures);
    let reply = engine.post(&mut client, reply);
    engine.clients.put_back(client);
    engine.postscripts = postscripts_of_script;
    reply
}
