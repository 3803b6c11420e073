//! Members that chance picks.

use super::super::{Argv, Ctx, Outcome, count, integer};
use super::members;
use crate::error::{self, Error};
use crate::keyspace::{Class, Edit, Set};
use crate::reply::Reply;

/// Least count, and so most members with repetitions; Redis goes on until it has no memory left.
const REPEATED_MIN: i64 = -(1 << 20);

/// `SPOP key [count]`
pub(super) fn spop(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let wanted = match argv[2..] {
        [] => None,
        [wanted] => Some(count(wanted)?),
        _ => return Err(error::SYNTAX),
    };
    let Some(mut set) = ctx.db().edit::<Set>(argv[1])? else {
        return Ok(wanted.map_or(Reply::Nil, |_| Reply::Set(Vec::new())));
    };
    let reply = match wanted {
        Some(0) => return Ok(Reply::Set(Vec::new())),
        None => pop(&mut set),
        Some(wanted) if wanted >= set.get().len() => members(&std::mem::take(set.write())),
        Some(wanted) => Reply::Set((0..wanted).map(|_| pop(&mut set)).collect()),
    };
    set.notify(Class::Set, "spop");
    Ok(reply)
}

/// `SRANDMEMBER key [count]`: a negative count may pick the same member again
pub(super) fn srandmember(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let wanted = match argv[2..] {
        [] => None,
        [wanted] => Some(repeatable_count(wanted)?),
        _ => return Err(error::SYNTAX),
    };
    let Some(mut set) = ctx.db().edit::<Set>(argv[1])? else {
        return Ok(wanted.map_or(Reply::Nil, |_| Reply::Array(Vec::new())));
    };
    let Some(wanted) = wanted else {
        let idx = pick(&mut set);
        return Ok(Reply::Bulk(set.get().get(idx)));
    };
    let len = set.get().len();
    let picked = match wanted {
        0 => Vec::new(),
        ..0 => {
            let random = set.random();
            (wanted..0).map(|_| random.index(len)).collect()
        }
        _ if wanted >= len as i64 => (0..len).collect(),
        _ => set.random().distinct_indices(len, wanted as usize),
    };
    Ok(Reply::Array(picked.into_iter().map(|idx| Reply::Bulk(set.get().get(idx))).collect()))
}

fn repeatable_count(arg: &[u8]) -> Result<i64, Error> {
    match integer(arg)? {
        i64::MIN => Err(error::out_of_bounds(-i64::MAX, i64::MAX)),
        count if count < REPEATED_MIN => Err(error::out_of_bounds(REPEATED_MIN, i64::MAX)),
        count => Ok(count),
    }
}

fn pop(set: &mut Edit<'_, Set>) -> Reply {
    let idx = pick(set);
    Reply::Bulk(set.write().remove_at(idx))
}

/// A place in the set. Where there is but one, nothing is left to chance.
fn pick(set: &mut Edit<'_, Set>) -> usize {
    match set.get().len() {
        1 => 0,
        len => set.random().index(len),
    }
}
