//! Commands that pick random members.

use bytes::Bytes;

use super::super::{Argv, Ctx, Outcome, count, pick};
use super::members::members;
use crate::error;
use crate::keyspace::{Class, Edit, Set};
use crate::reply::Reply;

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
    let (reply, popped) = match wanted {
        Some(0) => return Ok(Reply::Set(Vec::new())),
        Some(wanted) if wanted >= set.get().len() => (members(&std::mem::take(set.write())), None),
        _ => {
            let popped: Vec<Bytes> = (0..wanted.unwrap_or(1)).map(|_| pop(&mut set)).collect();
            let mut members = popped.iter().cloned().map(Reply::Bulk);
            let one = if wanted.is_none() { members.next() } else { None };
            (one.unwrap_or_else(|| Reply::Set(members.collect())), Some(popped))
        }
    };
    set.notify(Class::Set, "spop");
    set.answer();
    drop(set);
    match popped {
        None => ctx.replicate_as(&[&"DEL", &argv[1]]),
        Some(popped) => popped.iter().for_each(|member| ctx.replicate_as(&[&"SREM", &argv[1], member])),
    }
    Ok(reply)
}

/// `SRANDMEMBER key [count]`: a negative count may pick the same member again
pub(super) fn srandmember(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let wanted = match argv[2..] {
        [] => None,
        [wanted] => Some(pick::count(wanted)?),
        _ => return Err(error::SYNTAX),
    };
    let Some(mut set) = ctx.db().edit::<Set>(argv[1])? else {
        return Ok(pick::nothing(wanted));
    };
    let len = set.get().len();
    let Some(wanted) = wanted else {
        let idx = pick::one(&mut set, len);
        return Ok(Reply::Bulk(set.get().get(idx).to_bytes()));
    };
    let picked = pick::some(&mut set, len, wanted, |set, idx| set.get(idx).to_text().len())?;
    let picked = picked.into_iter().map(|idx| Reply::Bulk(set.get().get(idx).to_bytes()));
    Ok(Reply::Array(picked.collect()))
}

fn pop(set: &mut Edit<'_, Set>) -> Bytes {
    let len = set.get().len();
    let idx = pick::one(set, len);
    set.write().remove_at(idx)
}
