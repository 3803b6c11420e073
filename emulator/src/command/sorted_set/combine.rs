//! Combinations of sorted sets, stored under a key.

use bytes::Bytes;
use indexmap::IndexMap;
use smallvec::SmallVec;

use super::super::{Argv, Ctx, Outcome, integer, is_word};
use super::score;
use crate::error::{self, Error};
use crate::keyspace::{Expiry, Hasher, Set, Value, ZSet};
use crate::reply::Reply;

/// `ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]`
pub(super) fn zinterstore(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    store(ctx, argv, intersection)
}

/// `ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]`
pub(super) fn zunionstore(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    store(ctx, argv, union)
}

/// Replaces whatever the destination held, its time to live included; an empty result removes it.
fn store(ctx: &mut Ctx<'_>, argv: &Argv<'_>, combine: fn(&[Input], Aggregate) -> ZSet) -> Outcome {
    let numkeys = integer(argv[2])?;
    if numkeys < 1 {
        return Err(error::no_input_keys(ctx.row.name));
    }
    let (keys, options) = usize::try_from(numkeys)
        .ok()
        .and_then(|numkeys| argv[3..].split_at_checked(numkeys))
        .ok_or(error::SYNTAX)?;
    let mut db = ctx.db();
    let inputs = keys.iter().map(|key| match db.lookup(key) {
        None => Ok(ZSet::default()),
        Some(Value::ZSet(zset)) => Ok(zset.clone()),
        Some(Value::Set(set)) => Ok(scored(set)),
        Some(_) => Err(error::WRONG_TYPE),
    });
    let inputs: SmallVec<[ZSet; 2]> = inputs.collect::<Result<_, Error>>()?;
    let (weights, aggregate) = parse_options(options, keys.len())?;
    let inputs = inputs.into_iter().enumerate();
    let mut inputs: SmallVec<[Input; 2]> =
        inputs.map(|(idx, zset)| Input { zset, weight: weights.get(idx).copied().unwrap_or(1.0) }).collect();
    // The smallest goes first, as in Redis: with infinities the order of a sum can be seen.
    inputs.sort_by_key(|input| input.zset.len());
    let result = combine(&inputs, aggregate);
    let len = result.len();
    if len == 0 {
        db.remove(argv[1]);
    } else {
        db.insert(argv[1], Value::ZSet(result), Expiry::Never);
    }
    Ok(Reply::count(len))
}

/// A set as an input: every score is 1.
fn scored(set: &Set) -> ZSet {
    let mut zset = ZSet::default();
    for member in set.iter() {
        zset.insert(&member, 1.0);
    }
    zset
}

struct Input {
    zset: ZSet,
    weight: f64,
}

#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

/// Weights (none given: none) and the way of aggregation.
fn parse_options(mut options: &Argv<'_>, inputs: usize) -> Result<(SmallVec<[f64; 2]>, Aggregate), Error> {
    let (mut weights, mut aggregate) = (SmallVec::new(), Aggregate::Sum);
    while let Some((option, rest)) = options.split_first() {
        options = if is_word(option, "weights") && rest.len() >= inputs {
            let (given, rest) = rest.split_at(inputs);
            let given = given.iter().map(|weight| score::parse(weight).ok_or(error::WEIGHT_NOT_A_FLOAT));
            weights = given.collect::<Result<_, _>>()?;
            rest
        } else if let (true, Some((way, rest))) = (is_word(option, "aggregate"), rest.split_first()) {
            aggregate = match () {
                () if is_word(way, "sum") => Aggregate::Sum,
                () if is_word(way, "min") => Aggregate::Min,
                () if is_word(way, "max") => Aggregate::Max,
                () => return Err(error::SYNTAX),
            };
            rest
        } else {
            return Err(error::SYNTAX);
        };
    }
    Ok((weights, aggregate))
}

fn intersection(inputs: &[Input], aggregate: Aggregate) -> ZSet {
    let mut result = ZSet::default();
    let Some((first, others)) = inputs.split_first() else { return result };
    'members: for (member, score) in first.zset.range(0..first.zset.len()) {
        let mut total = zero_if_nan(score * first.weight);
        for other in others {
            let Some(score) = other.zset.score(member) else { continue 'members };
            total = aggregate.apply(total, score * other.weight);
        }
        result.insert(member, total);
    }
    result
}

fn union(inputs: &[Input], aggregate: Aggregate) -> ZSet {
    let mut totals: IndexMap<&Bytes, f64, Hasher> = IndexMap::default();
    for input in inputs {
        for (member, score) in input.zset.range(0..input.zset.len()) {
            let score = zero_if_nan(score * input.weight);
            totals.entry(member).and_modify(|total| *total = aggregate.apply(*total, score)).or_insert(score);
        }
    }
    let mut result = ZSet::default();
    for (member, total) in totals {
        result.insert(member, total);
    }
    result
}

impl Aggregate {
    /// The comparisons are Redis's: a NaN on the right (infinity times 0) leaves the left as it is.
    fn apply(self, total: f64, score: f64) -> f64 {
        match self {
            Aggregate::Sum => zero_if_nan(total + score),
            Aggregate::Min if score < total => score,
            Aggregate::Max if score > total => score,
            Aggregate::Min | Aggregate::Max => total,
        }
    }
}

/// What Redis makes of `inf + -inf` and of `0 * inf`.
fn zero_if_nan(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}
