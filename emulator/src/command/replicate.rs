//! Applies on a replica what its primary sends.

use std::sync::Arc;

use super::run::run;
use super::{Reply, TABLE, apply};
use crate::engine::{Engine, Snapshot};
use crate::keyspace::DueKeys;
use crate::replication::Unit;

/// Does everything that replication requires by now: a replica applies the effects that have
/// arrived.
pub(crate) fn catch_up(engine: &mut Box<Engine>) {
    if engine.is_alone() || engine.is_amid_script {
        return;
    }
    // Read first: what was sent before the end, or before an order to take over, is received then.
    let (end, orders) = (engine.link_end(), engine.take_orders());
    for sent in engine.receive_units() {
        engine.execution(None, |engine| {
            apply(engine, &sent.unit);
            engine.forward_applied(sent);
            Reply::NOTHING
        });
    }
    engine.look_at_links(end, orders);
}

/// Becomes a server that has followed another one and takes over, as one execution. It has what the
/// snapshot has, but for scripts, and then the effects.
pub(crate) fn take_over(engine: &mut Box<Engine>, snapshot: &Snapshot, units: &[Arc<Unit>]) {
    engine.execution(None, |engine| {
        engine.flush_scripts();
        load_and_apply(engine, snapshot, units);
        Reply::NOTHING
    });
}

/// Gets what a replica has got, as one execution: what the snapshot has, but for scripts, and then
/// the effects. It keeps its own scripts.
pub(crate) fn receive(engine: &mut Box<Engine>, snapshot: &Snapshot, units: &[Arc<Unit>]) {
    engine.execution(None, |engine| {
        load_and_apply(engine, snapshot, units);
        Reply::NOTHING
    });
}

fn load_and_apply(engine: &mut Box<Engine>, snapshot: &Snapshot, units: &[Arc<Unit>]) {
    // A replica removes no key by itself.
    let due_keys = std::mem::replace(&mut engine.keyspace.due_keys, DueKeys::Alive);
    engine.load(snapshot);
    units.iter().for_each(|unit| apply(engine, unit));
    engine.keyspace.due_keys = due_keys;
}

fn apply(engine: &mut Box<Engine>, unit: &Unit) {
    apply::apply(&TABLE, engine, unit, |ctx, argv| {
        run(ctx.table, ctx.engine, ctx.client, ctx.row, argv);
    });
}
