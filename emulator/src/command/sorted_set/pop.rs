//! Commands that pop members from either end.

use super::super::multi_pop::{PopEnd, multi_pop};
use super::super::{Argv, Ctx, Outcome, count, is_word};
use crate::error::{self, Error};
use crate::keyspace::{Class, Edit, Text, ZSet};
use crate::reply::{Reply, pairs};

#[derive(Clone, Copy)]
pub(super) enum End {
    Min,
    Max,
}

impl End {
    fn event(self) -> &'static str {
        match self {
            End::Min => "zpopmin",
            End::Max => "zpopmax",
        }
    }
}

/// `ZPOPMIN key [count]`, and ZPOPMAX
pub(super) fn zpop(ctx: &mut Ctx<'_>, argv: &Argv<'_>, end: End) -> Outcome {
    let wanted = match argv[2..] {
        [] => None,
        [wanted] => Some(count(wanted)?),
        _ => return Err(error::SYNTAX),
    };
    let protocol = ctx.client.protocol;
    let Some(zset) = ctx.db().edit::<ZSet>(argv[1])? else { return Ok(Reply::Array(Vec::new())) };
    let taken = take(zset, end, wanted.unwrap_or(1), 1).into_iter();
    Ok(match wanted {
        Some(_) => pairs(protocol, taken),
        None => Reply::Array(taken.flat_map(<[Reply; 2]>::from).collect()),
    })
}

/// `ZMPOP numkeys key [key ...] <MIN | MAX> [COUNT count]`
pub(super) fn zmpop(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    multi_pop::<End>(ctx, &argv[1..])
}

/// Pops one member of a sorted set. The reply begins with the key; `None` if the sorted set does
/// not exist.
pub(super) fn pop_one_from(ctx: &mut Ctx<'_>, key: &[u8], end: End) -> Result<Option<Reply>, Error> {
    let Some(zset) = ctx.db().edit::<ZSet>(key)? else { return Ok(None) };
    let taken = take(zset, end, 1, 2).into_iter().flat_map(<[Reply; 2]>::from);
    ctx.replicate_as(&[&end.event().to_ascii_uppercase(), &key]);
    Ok(Some(Reply::Array(std::iter::once(Reply::bulk(key)).chain(taken).collect())))
}

impl PopEnd for End {
    type Value = ZSet;

    /// `MIN` or `MAX`
    fn parse(word: &[u8]) -> Result<End, Error> {
        match () {
            () if is_word(word, "min") => Ok(End::Min),
            () if is_word(word, "max") => Ok(End::Max),
            () => Err(error::SYNTAX),
        }
    }

    fn pop_from(self, ctx: &mut Ctx<'_>, key: &[u8], count: usize) -> Result<Option<Reply>, Error> {
        let Some(zset) = ctx.db().edit::<ZSet>(key)? else { return Ok(None) };
        let taken = take(zset, self, count, 3).into_iter();
        ctx.replicate_as(&[&self.event().to_ascii_uppercase(), &key, &taken.len().to_string()]);
        let taken = taken.map(|(member, score)| Reply::Array(vec![member, score])).collect();
        Ok(Some(Reply::Array(vec![Reply::bulk(key), Reply::Array(taken)])))
    }
}

/// Pops up to this many members, each with its score. `parts` is the number of parts of the reply
/// before them.
fn take(mut zset: Edit<'_, ZSet>, end: End, count: usize, parts: usize) -> Vec<(Reply, Reply)> {
    let len = zset.get().len();
    let count = count.min(len);
    let collect = |members: &mut dyn Iterator<Item = (&Text, f64)>| -> Vec<(Text, f64)> {
        members.map(|(member, score)| (member.clone(), score)).collect()
    };
    let (ranks, taken) = match end {
        End::Min => (0..count, collect(&mut zset.get().range(0..count))),
        End::Max => (len - count..len, collect(&mut zset.get().range(len - count..len).rev())),
    };
    if !taken.is_empty() {
        zset.write().remove_range(ranks);
        zset.answer_in_part(parts);
        zset.notify(Class::ZSet, end.event());
        zset.answer();
    }
    taken.into_iter().map(|(member, score)| (Reply::Bulk(member.into()), Reply::Double(score))).collect()
}
