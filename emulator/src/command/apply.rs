//! Runs the effects of a unit: on a replica, and after a restart.

use super::argv::{Argv, borrow};
use super::row::{Ctx, Table};
use crate::client::{CallContext, Client};
use crate::engine::Engine;
use crate::keyspace::DueKeys;
use crate::replication::Unit;

/// Runs the effects of one unit, each by `run`. Keys whose time is over stay until an effect
/// removes them.
pub(super) fn apply(
    table: &'static Table,
    engine: &mut Box<Engine>,
    unit: &Unit,
    run: impl Fn(&mut Ctx<'_>, &Argv<'_>),
) {
    let mut client = Box::new(Client::nobody());
    client.context = CallContext::WithoutWaiting;
    let due_keys = std::mem::replace(&mut engine.keyspace.due_keys, DueKeys::Alive);
    for effect in unit.effects() {
        let argv = borrow(&effect.argv);
        client.db = effect.db;
        if let Ok(row) = table.resolve(&argv) {
            run(&mut Ctx { engine, client: &mut client, row, table }, &argv);
        }
    }
    engine.keyspace.due_keys = due_keys;
}
