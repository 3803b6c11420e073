//! Runs commands under faults.

use super::argv::Argv;
use super::perform::{hold_back, is_control, perform};
use super::row::Table;
use super::transactions;
use crate::client::{Client, Closing};
use crate::engine::Engine;
use crate::fault::Effect;
use crate::reply::Reply;

/// Runs a command. If a fault strikes it, it runs only as far as the fault lets it.
pub(super) fn perform_under_faults(
    table: &'static Table,
    engine: &mut Box<Engine>,
    client: &mut Box<Client>,
    argv: &Argv<'_>,
) -> Reply {
    let is_exempt = is_control(engine, argv);
    let effect = if is_exempt { None } else { engine.faults.strike(&client.name, argv) };
    match effect {
        Some(Effect::DropBefore) => drop_connection(engine, client),
        Some(Effect::DropAfter) => {
            perform(table, engine, client, argv);
            drop_connection(engine, client)
        }
        Some(Effect::LoseReply) => {
            client.is_cut_off = true;
            perform(table, engine, client, argv)
        }
        Some(Effect::Delay(span)) if client.can_wait() => {
            let arrival = engine.keyspace.instant() + span;
            hold_back(table, engine, client, argv, Some(arrival))
        }
        Some(Effect::Twice) => {
            let first = perform(table, engine, client, argv);
            if client.is_blocked { first } else { perform(table, engine, client, argv) }
        }
        Some(Effect::Error(error)) => Reply::Error(transactions::refuse(engine, client, argv, error.into())),
        Some(Effect::Delay(_)) | None => perform(table, engine, client, argv),
    }
}

fn drop_connection(engine: &mut Box<Engine>, client: &mut Box<Client>) -> Reply {
    engine.unblock(client.slot);
    client.is_blocked = false;
    engine.forget(client);
    client.close(Closing::Now);
    Reply::NOTHING
}
