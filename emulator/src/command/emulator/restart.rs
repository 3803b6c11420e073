//! `EMULATOR RESTART`: what is left after a crash.

use std::time::Duration;

use super::super::argv::borrow;
use super::super::row::Table;
use super::super::{Argv, Ctx, Outcome, is_word};
use super::words::{MILLIS_MAX, number, unknown};
use crate::client::{CallContext, Client};
use crate::engine::{Engine, Loss};
use crate::error::Error;
use crate::replication::{Past, Unit};
use crate::reply::Reply;

/// `EMULATOR RESTART [LOSING <milliseconds | ALL | NONE>]`
///
/// Without `LOSING`, the settings `appendonly` and `appendfsync` decide what is lost.
pub(super) fn restart(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    const PLACE: &str = "EMULATOR RESTART LOSING: milliseconds, unless ALL or NONE,";
    let loss = match &argv[2..] {
        [] => ctx.engine.loss(),
        [word, all] if is_word(word, "losing") && is_word(all, "all") => Loss::All,
        [word, none] if is_word(word, "losing") && is_word(none, "none") => Loss::Nothing,
        [word, millis] if is_word(word, "losing") => Loss::Millis(number(millis, 0..=MILLIS_MAX, PLACE)?),
        [word, ..] => return Err(unknown("EMULATOR RESTART", word, &["LOSING milliseconds|ALL|NONE"])),
    };
    let past = past(ctx, loss)?;
    let table = ctx.table;
    ctx.engine.crash(ctx.client, |engine| {
        if let Some(Past { keyspace, libraries, units }) = past {
            engine.keyspace.replace(&keyspace);
            engine.load_libraries(&libraries);
            units.iter().for_each(|unit| load(table, engine, unit));
        }
    });
    Ok(Reply::OK)
}

/// What is on the disk. `None` if it is empty.
fn past(ctx: &Ctx<'_>, loss: Loss) -> Result<Option<Past>, Error> {
    let span = match loss {
        Loss::All => return Ok(None),
        Loss::Nothing => Duration::ZERO,
        Loss::Millis(millis) => Duration::from_millis(millis.unsigned_abs()),
    };
    let Some(journal) = &ctx.engine.replication.journal else { return Ok(None) };
    let past = journal.before_last(span, ctx.engine.now());
    past.map(Some).map_err(|known| {
        let known = known.as_millis();
        Error::new(format!(
            "ERR the writes of only the last {known} ms can be undone: LOSE fewer, ALL or NONE"
        ))
    })
}

/// Does again what one unit of writes has done.
fn load(table: &'static Table, engine: &mut Box<Engine>, unit: &Unit) {
    let mut client = Box::new(Client::nobody());
    client.context = CallContext::WithoutWaiting;
    for effect in unit.effects() {
        let argv = borrow(&effect.argv);
        client.db = effect.db;
        if let Ok(row) = table.resolve(&argv) {
            // It has worked before.
            _ = (row.run)(&mut Ctx { engine, client: &mut client, row, table }, &argv);
        }
    }
}
