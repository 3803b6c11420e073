//! Combinations of sets, which are returned or stored under a key.

use smallvec::SmallVec;

use super::super::{Argv, Ctx, Outcome, integer_within, is_word};
use super::members::members;
use crate::error::{self, Error};
use crate::keyspace::{Class, Expiry, Limits, Member, Set, Value, ValueType};
use crate::reply::Reply;

/// Sets that are combined. A missing key is an empty set.
type Inputs<'a> = SmallVec<[Option<&'a Set>; 2]>;

/// A combination of sets.
type Combine = fn(&[Option<&Set>], &Limits) -> Set;

/// `SINTER key [key ...]`, SUNION and SDIFF
pub(super) fn combined(ctx: &mut Ctx<'_>, argv: &Argv<'_>, combine: Combine) -> Outcome {
    Ok(members(&combine(&lookup(ctx, &argv[1..])?, &Limits::default())))
}

/// `SINTERSTORE destination key [key ...]`, SUNIONSTORE and SDIFFSTORE: replaces the destination
/// and its time to live; an empty result removes the destination
pub(super) fn store(ctx: &mut Ctx<'_>, argv: &Argv<'_>, combine: Combine) -> Outcome {
    let (limits, event) = (ctx.engine.keyspace.limits, ctx.row.name);
    let inputs = lookup(ctx, &argv[2..])?;
    let result = combine(&inputs, &limits);
    let len = result.len();
    // Redis writes its reply before the event. Only if nothing is left of an intersection because a
    // set is missing, the event comes first.
    let answers_last = event == "sinterstore" && inputs.iter().any(Option::is_none);
    drop(inputs);
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
    let limit = if limit == 0 { usize::MAX } else { limit };
    Ok(Reply::count(common(&lookup(ctx, keys)?).take(limit).count()))
}

/// Reads every key, even if the result is already known, because a key of the wrong type is an
/// error.
///
/// A missing key is an event also for the commands that store.
fn lookup<'c>(ctx: &'c mut Ctx<'_>, keys: &Argv<'_>) -> Result<Inputs<'c>, Error> {
    let values = ctx.db().reading().lookup_all(keys, |value| matches!(value, Value::Set(_)))?;
    Ok(values.into_iter().map(|value| value.and_then(Set::of)).collect())
}

/// The members that all sets have, in the order of the smallest one.
fn common<'a>(inputs: &[Option<&'a Set>]) -> impl Iterator<Item = Member<'a>> {
    let sets: Option<SmallVec<[&'a Set; 2]>> = inputs.iter().copied().collect();
    let mut others = sets.unwrap_or_default();
    others.sort_by_key(|set| set.len());
    let smallest = (!others.is_empty()).then(|| others.remove(0));
    let members = smallest.into_iter().flat_map(Set::iter);
    members.filter(move |member| others.iter().all(|other| other.contains_member(*member)))
}

pub(super) fn intersection(inputs: &[Option<&Set>], limits: &Limits) -> Set {
    Set::from_members(common(inputs), limits)
}

pub(super) fn union(inputs: &[Option<&Set>], limits: &Limits) -> Set {
    Set::from_members(inputs.iter().flatten().flat_map(|input| input.iter()), limits)
}

/// Returns the members of the first set that are in no other set.
///
/// Redis has two algorithms, and the encoding of the result shows which it used. One adds those
/// members of the first set that no other set has. The other adds all of them, and then removes
/// members.
pub(super) fn difference(inputs: &[Option<&Set>], limits: &Limits) -> Set {
    let Some((Some(first), others)) = inputs.split_first() else { return Set::default() };
    let others: SmallVec<[&Set; 2]> = others.iter().copied().flatten().collect();
    let lookups = first.len() * (1 + others.len());
    let removals = first.len() + others.iter().map(|other| other.len()).sum::<usize>();
    if lookups / 2 <= removals {
        let is_alone = |member: &Member<'_>| !others.iter().any(|other| other.contains_member(*member));
        return Set::from_members(first.iter().filter(is_alone), limits);
    }
    let mut result = Set::from_members(first.iter(), limits);
    for member in others.iter().flat_map(|other| other.iter()) {
        result.remove(&member.to_text());
    }
    result
}
