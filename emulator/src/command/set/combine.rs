//! Combinations of sets, answered or stored under a key.

use smallvec::SmallVec;

use super::super::{Argv, Ctx, Outcome, integer_within, is_word};
use super::members;
use crate::error::{self, Error};
use crate::keyspace::{Class, Expiry, Limits, Set};
use crate::reply::Reply;

/// What is made of sets; a missing key is an empty one.
type Combine = fn(&[Set], &Limits) -> Set;

/// `SINTER key [key ...]`, SUNION and SDIFF
pub(super) fn combined(ctx: &mut Ctx<'_>, argv: &Argv<'_>, combine: Combine) -> Outcome {
    Ok(members(&combine(&lookup(ctx, &argv[1..])?, &Limits::default())))
}

/// `SINTERSTORE destination key [key ...]`, SUNIONSTORE and SDIFFSTORE: replaces whatever the destination held, its time to
/// live included; an empty result removes it.
pub(super) fn store(ctx: &mut Ctx<'_>, argv: &Argv<'_>, combine: Combine) -> Outcome {
    let inputs = lookup(ctx, &argv[2..])?;
    let result = combine(&inputs, &ctx.engine.keyspace.limits);
    let len = result.len();
    let event = ctx.row.name;
    // Redis answers last only where nothing is left of an intersection because one of its sets is missing.
    let answers_last = event == "sinterstore" && inputs.iter().any(Set::is_empty);
    let mut db = ctx.db();
    if len > 0 {
        db.insert(argv[1], result.into(), Expiry::Never);
        db.answer();
        db.notify(Class::Set, event, argv[1]);
    } else if db.remove(argv[1]) {
        if !answers_last {
            db.answer();
        }
        db.notify(Class::Generic, "del", argv[1]);
    }
    Ok(Reply::count(len))
}

/// `SINTERCARD numkeys key [key ...] [LIMIT limit]`: a limit of 0 is none
pub(super) fn sintercard(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let numkeys = integer_within(argv[1], 1..=i64::MAX, error::NUMKEYS_NOT_POSITIVE)?;
    let (keys, options) = argv[2..].split_at_checked(numkeys as usize).ok_or(error::NUMKEYS_TOO_MANY)?;
    let (pairs, rest) = options.as_chunks::<2>();
    let mut limit = 0;
    for [option, value] in pairs {
        if !is_word(option, "limit") {
            return Err(error::SYNTAX);
        }
        limit = integer_within(value, 0..=i64::MAX, error::LIMIT_NEGATIVE)? as usize;
    }
    if !rest.is_empty() {
        return Err(error::SYNTAX);
    }
    let len = intersection(&lookup(ctx, keys)?, &Limits::default()).len();
    Ok(Reply::count(if limit == 0 { len } else { len.min(limit) }))
}

/// Every key is looked at, also where the result is known before: one of the wrong kind is an error. A missing one is an event
/// also for those that store.
fn lookup(ctx: &mut Ctx<'_>, keys: &Argv<'_>) -> Result<SmallVec<[Set; 2]>, Error> {
    let mut db = ctx.db().reading();
    keys.iter().map(|key| Ok(db.lookup_as::<Set>(key)?.cloned().unwrap_or_default())).collect()
}

pub(super) fn intersection(inputs: &[Set], limits: &Limits) -> Set {
    let Some(smallest) = inputs.iter().min_by_key(|input| input.len()) else { return Set::default() };
    let common = smallest.iter().filter(|member| inputs.iter().all(|input| input.contains(member)));
    Set::of(common, limits)
}

pub(super) fn union(inputs: &[Set], limits: &Limits) -> Set {
    Set::of(inputs.iter().flat_map(Set::iter), limits)
}

/// What is in the first and in none of the others. Redis has two ways, and the result's encoding tells which it took: the
/// members of the first are added one by one unless another has them, or they are all added, and then removed.
pub(super) fn difference(inputs: &[Set], limits: &Limits) -> Set {
    let Some((first, others)) = inputs.split_first() else { return Set::default() };
    let existing = inputs.iter().filter(|input| !input.is_empty());
    let (lookups, removals) =
        existing.fold((0, 0), |(lookups, removals), input| (lookups + first.len(), removals + input.len()));
    if lookups / 2 <= removals {
        let own = first.iter().filter(|member| !others.iter().any(|other| other.contains(member)));
        return Set::of(own, limits);
    }
    let mut result = Set::of(first.iter(), limits);
    for member in others.iter().flat_map(Set::iter) {
        result.remove(&member);
    }
    result
}
