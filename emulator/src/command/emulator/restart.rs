//! `EMULATOR RESTART`: what is left after a crash.

use std::time::Duration;

use super::super::apply::apply;
use super::super::{Argv, Ctx, Outcome, is_word};
use super::words::{MILLIS_MAX, number, unknown};
use crate::engine::Loss;
use crate::error::Error;
use crate::replication::Past;
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
            for unit in units {
                // It has worked before.
                apply(table, engine, &unit, |ctx, argv| _ = (ctx.row.run)(ctx, argv));
            }
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
