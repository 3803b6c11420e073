//! Applies on a replica what its primary sends.

use super::argv::borrow;
use super::run::run;
use super::{Reply, TABLE};
use crate::client::{CallContext, Client};
use crate::engine::Engine;
use crate::keyspace::DueKeys;
use crate::replication::Unit;

/// Does everything that replication requires by now: a replica applies the effects that have
/// arrived.
pub(crate) fn catch_up(engine: &mut Box<Engine>) {
    if engine.is_alone() || engine.is_amid_script {
        return;
    }
    // Read first: what was sent before the end is received then.
    let end = engine.link_end();
    for sent in engine.receive_units() {
        engine.execution(None, |engine| {
            apply(engine, &sent.unit);
            engine.forward_applied(sent);
            Reply::NOTHING
        });
    }
    engine.look_at_links(end);
}

/// Runs the effects of one unit.
fn apply(engine: &mut Box<Engine>, unit: &Unit) {
    let mut client = Box::new(Client::nobody());
    client.context = CallContext::WithoutWaiting;
    engine.keyspace.due_keys = DueKeys::Alive;
    for effect in unit.effects() {
        let argv = borrow(&effect.argv);
        client.db = effect.db;
        if let Ok(row) = TABLE.resolve(&argv) {
            run(&TABLE, engine, &mut client, row, &argv);
        }
    }
    engine.keyspace.due_keys = DueKeys::Hidden;
}
