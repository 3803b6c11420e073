//! Runs commands of other clients between two steps of a long script.

use super::argv::Argv;
use super::perform::perform;
use super::row::Table;
use crate::client::Slot;
use crate::engine::Engine;
use crate::reply::Reply;

/// Runs a command inside the execution of a script, if the command is allowed meanwhile.
///
/// The time does not move on. Messages to other clients are sent when the script ends.
pub(super) fn call(table: &'static Table, engine: &mut Box<Engine>, slot: Slot, argv: &Argv<'_>) -> Reply {
    // A key that is watched from now on was not changed by the earlier steps of the script.
    engine.watches.notice(&mut engine.keyspace);
    let outer = engine.outbox.begin_inner();
    let mut client = engine.clients.take(slot);
    client.active_at = engine.keyspace.instant();
    let failures = engine.stats.failures;
    let reply = perform(table, engine, &mut client, argv);
    engine.stats.served_another(failures);
    let reply = engine.post(&mut client, reply);
    engine.clients.put_back(client);
    engine.outbox.drop_inner(outer);
    reply
}
