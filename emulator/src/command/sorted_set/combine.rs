//! Combinations of sorted sets, which are returned, counted or stored under a key. In a set that is
//! an input, every score is 1.

use indexmap::IndexMap;
use ordered_float::OrderedFloat;
use smallvec::SmallVec;

use super::super::{Argv, Ctx, Outcome, integer, integer_within, is_word};
use super::{members, score, store};
use crate::error::{self, Error};
use crate::keyspace::{Hasher, Limits, Text, Value, ZSet};
use crate::reply::Reply;

/// A combination of inputs. It returns the members in any order.
type Combine = fn(&[Input], Aggregate) -> Vec<(Text, f64)>;

/// `ZINTER numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]
/// [WITHSCORES]`, ZUNION, and ZDIFF with fewer options
pub(super) fn combined(
    ctx: &mut Ctx<'_>,
    argv: &Argv<'_>,
    combine: Combine,
    words: &'static [&'static str],
) -> Outcome {
    let (inputs, options) = parse(ctx, &argv[1..], words)?;
    let mut result = combine(&inputs, options.aggregate);
    result.sort_unstable_by(|(a, a_score), (b, b_score)| {
        (OrderedFloat(*a_score), a).cmp(&(OrderedFloat(*b_score), b))
    });
    Ok(members(ctx, result.into_iter(), options.with_scores))
}

/// `ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM |
/// MIN | MAX>]`, ZUNIONSTORE, and ZDIFFSTORE without options
pub(super) fn combined_store(
    ctx: &mut Ctx<'_>,
    argv: &Argv<'_>,
    combine: Combine,
    words: &'static [&'static str],
) -> Outcome {
    let (inputs, options) = parse(ctx, &argv[2..], words)?;
    let result = combine(&inputs, options.aggregate);
    let zset = ZSet::of(result, &ctx.engine.keyspace.limits);
    Ok(store(ctx, argv[1], zset))
}

/// `ZINTERCARD numkeys key [key ...] [LIMIT limit]`: a limit of 0 means no limit
pub(super) fn zintercard(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let (inputs, options) = parse(ctx, &argv[1..], &["limit"])?;
    let len = intersection(&inputs, options.aggregate).len();
    Ok(Reply::count(if options.limit == 0 { len } else { len.min(options.limit) }))
}

pub(super) fn intersection(inputs: &[Input], aggregate: Aggregate) -> Vec<(Text, f64)> {
    let inputs = smallest_first(inputs);
    let Some((first, others)) = inputs.split_first() else { return Vec::new() };
    let totals = first.members().filter_map(|(member, score)| {
        let total = zero_if_nan(score * first.weight);
        let total = others.iter().try_fold(total, |total, other| {
            other.zset.score(member).map(|score| aggregate.apply(total, score * other.weight))
        });
        Some((member.clone(), total?))
    });
    totals.collect()
}

pub(super) fn union(inputs: &[Input], aggregate: Aggregate) -> Vec<(Text, f64)> {
    let mut totals: IndexMap<Text, f64, Hasher> = IndexMap::default();
    for input in smallest_first(inputs) {
        for (member, score) in input.members() {
            let score = zero_if_nan(score * input.weight);
            match totals.get_mut(member) {
                Some(total) => *total = aggregate.apply(*total, score),
                None => _ = totals.insert(member.clone(), score),
            }
        }
    }
    totals.into_iter().collect()
}

/// Returns the members of the first input that are in no other input.
pub(super) fn difference(inputs: &[Input], _: Aggregate) -> Vec<(Text, f64)> {
    let Some((first, others)) = inputs.split_first() else { return Vec::new() };
    let is_only_there = |member: &Text| others.iter().all(|other| other.zset.score(member).is_none());
    let members = first.members().filter(|(member, _)| is_only_there(member));
    members.map(|(member, score)| (member.clone(), score)).collect()
}

/// Sorts the inputs as Redis does. With infinite scores, clients can see the order of a sum.
fn smallest_first(inputs: &[Input]) -> SmallVec<[&Input; 2]> {
    let mut inputs: SmallVec<[&Input; 2]> = inputs.iter().collect();
    inputs.sort_by_key(|input| input.zset.len());
    inputs
}

/// A sorted set that is combined with others, and its weight.
pub(super) struct Input {
    zset: ZSet,
    weight: f64,
}

impl Input {
    fn members(&self) -> impl Iterator<Item = (&Text, f64)> {
        self.zset.range(0..self.zset.len())
    }
}

/// The function that combines the scores of a member in several inputs.
#[derive(Clone, Copy)]
pub(super) enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn parse(way: &[u8]) -> Result<Aggregate, Error> {
        match () {
            () if is_word(way, "sum") => Ok(Aggregate::Sum),
            () if is_word(way, "min") => Ok(Aggregate::Min),
            () if is_word(way, "max") => Ok(Aggregate::Max),
            () => Err(error::SYNTAX),
        }
    }

    /// Combines two scores. The comparisons are Redis's: if the right score is NaN (infinity times
    /// 0), the left one stays.
    fn apply(self, total: f64, score: f64) -> f64 {
        match self {
            Aggregate::Sum => zero_if_nan(total + score),
            Aggregate::Min if score < total => score,
            Aggregate::Max if score > total => score,
            Aggregate::Min | Aggregate::Max => total,
        }
    }
}

/// Replaces NaN by 0, as Redis does for `inf + -inf` and `0 * inf`.
fn zero_if_nan(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

struct Options {
    aggregate: Aggregate,
    with_scores: bool,
    limit: usize,
}

/// Parses `numkeys key [key ...]` and the options in `words`. Redis reads the keys before it checks
/// the options.
fn parse(
    ctx: &mut Ctx<'_>,
    args: &Argv<'_>,
    words: &[&str],
) -> Result<(SmallVec<[Input; 2]>, Options), Error> {
    let numkeys = integer(args[0])?;
    if numkeys < 1 {
        return Err(error::no_input_keys(ctx.row.name));
    }
    let (keys, mut args) = usize::try_from(numkeys)
        .ok()
        .and_then(|numkeys| args[1..].split_at_checked(numkeys))
        .ok_or(error::SYNTAX)?;
    let mut db = ctx.db().reading();
    let inputs = keys.iter().map(|key| {
        let zset = match db.lookup(key) {
            None => ZSet::default(),
            Some(Value::ZSet(zset)) => (**zset).clone(),
            Some(Value::Set(set)) => {
                ZSet::of(set.iter().map(|member| (member.into(), 1.0)), &Limits::default())
            }
            Some(_) => return Err(error::WRONG_TYPE),
        };
        Ok(Input { zset, weight: 1.0 })
    });
    let mut inputs: SmallVec<[Input; 2]> = inputs.collect::<Result<_, Error>>()?;
    let mut options = Options { aggregate: Aggregate::Sum, with_scores: false, limit: 0 };
    while let Some((option, rest)) = args.split_first() {
        let word = words.iter().find(|word| is_word(option, word));
        args = match (word, rest) {
            (Some(&"withscores"), rest) => {
                options.with_scores = true;
                rest
            }
            (Some(&"weights"), rest) if rest.len() >= inputs.len() => {
                let (weights, rest) = rest.split_at(inputs.len());
                for (input, weight) in inputs.iter_mut().zip(weights) {
                    input.weight = score::parse(weight).ok_or(error::WEIGHT_NOT_A_FLOAT)?;
                }
                rest
            }
            (Some(&"aggregate"), [way, rest @ ..]) => {
                options.aggregate = Aggregate::parse(way)?;
                rest
            }
            (Some(&"limit"), [limit, rest @ ..]) => {
                options.limit = integer_within(limit, 0..=i64::MAX, error::LIMIT_NEGATIVE)? as usize;
                rest
            }
            _ => return Err(error::SYNTAX),
        };
    }
    Ok((inputs, options))
}
