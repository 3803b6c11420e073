//! Combinations of sets, which are returned or stored under a key.

use smallvec::SmallVec;

use super::super::{Argv, Ctx, Outcome, integer_within, is_word};
use super::members;
use crate::error::{self, Error};
use crate::keyspace::{Class, Expiry, Limits, Set};
use crate::reply::Reply;

/// A combination of sets. A missing key is an empty set.
type Combine = fn(&[Set], &Limits) -> Set;

/// `SINTER key [key ...]`, SUNION and SDIFF
pub(super) fn combined(ctx: &mut Ctx<'_>, argv: &Argv<'_>, combine: Combine) -> Outcome {
    Ok(members(&combine(&lookup(ctx, &argv[1..])?, &Limits::default())))
}

/// `SINTERSTORE destination key [key ...]`, SUNIONSTORE and SDIFFSTORE: replaces the destination
/// and its time to live; an empty result removes the destination
pub(super) fn store(ctx: &mut Ctx<'_>, argv: &Argv<'_>, combine: Combine) -> Outcome {
    let inputs = lookup(ctx, &argv[2..])?;
    let result = combine(&inputs, &ctx.engine.keyspace.limits);
    let len = result.len();
    let event = ctx.row.name;
    // Redis writes its reply before the event. Only if nothing is left of an intersection because a
    // set is missing, the event comes first.
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

/// `SINTERCARD numkeys key [key ...] [LIMIT limit]`: a limit of 0 means no limit
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

/// Reads every key, even if the result is already known, because a key of the wrong type is an
/// error.
///
/// A missing key is an event also for the commands that store.
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

/// Returns the members of the first set that are in no other set.
///
/// Redis has two algorithms, and the encoding of the result shows which it used. One adds those
/// members of the first set that no other set has. The other adds all of them, and then removes
/// members.
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
