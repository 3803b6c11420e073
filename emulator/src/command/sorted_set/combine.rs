//! Combinations of sorted sets, which are returned, counted or stored under a key. In a set that is
//! an input, every score is 1.

use indexmap::IndexMap;
use ordered_float::OrderedFloat;
use smallvec::SmallVec;

use super::super::{Argv, Ctx, Outcome, integer, integer_within, is_word};
use super::members::{members, store};
use super::score;
use crate::error::{self, Error};
use crate::keyspace::{Hasher, Member, Set, Text, Value, ValueType, ZSet};
use crate::reply::Reply;

/// A combination of inputs. It returns the members in any order.
type Combine = fn(&[Input<'_>], Aggregate) -> Vec<(Text, f64)>;

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
    drop(inputs);
    result.sort_unstable_by(|(a, a_score), (b, b_score)| {
        (OrderedFloat(*a_score), a).cmp(&(OrderedFloat(*b_score), b))
    });
    Ok(members(ctx.client.protocol, result.into_iter(), options.with_scores))
}

/// `ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM |
/// MIN | MAX>]`, ZUNIONSTORE, and ZDIFFSTORE without options
pub(super) fn combined_store(
    ctx: &mut Ctx<'_>,
    argv: &Argv<'_>,
    combine: Combine,
    words: &'static [&'static str],
) -> Outcome {
    let limits = ctx.engine.keyspace.limits;
    let (inputs, options) = parse(ctx, &argv[2..], words)?;
    let zset = ZSet::of(combine(&inputs, options.aggregate), &limits);
    drop(inputs);
    Ok(store(ctx, argv[1], zset))
}

/// `ZINTERCARD numkeys key [key ...] [LIMIT limit]`: a limit of 0 means no limit
pub(super) fn zintercard(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let (inputs, options) = parse(ctx, &argv[1..], &["limit"])?;
    let limit = if options.limit == 0 { usize::MAX } else { options.limit };
    Ok(Reply::count(common(&inputs, options.aggregate).take(limit).count()))
}

pub(super) fn intersection(inputs: &[Input<'_>], aggregate: Aggregate) -> Vec<(Text, f64)> {
    common(inputs, aggregate).map(|(member, total)| (member.to_text(), total)).collect()
}

/// The members that all inputs have, with their combined scores.
fn common<'a>(inputs: &[Input<'a>], aggregate: Aggregate) -> impl Iterator<Item = (Member<'a>, f64)> {
    let mut others = smallest_first(inputs);
    let first = (!others.is_empty()).then(|| others.remove(0));
    let members = first.into_iter().flat_map(|first| first.members().map(move |own| (own, first.weight)));
    members.filter_map(move |((member, score), weight)| {
        let total = zero_if_nan(score * weight);
        let total = others.iter().try_fold(total, |total, other| {
            other.score(member).map(|score| aggregate.apply(total, score * other.weight))
        });
        Some((member, total?))
    })
}

pub(super) fn union(inputs: &[Input<'_>], aggregate: Aggregate) -> Vec<(Text, f64)> {
    let mut totals: IndexMap<Text, f64, Hasher> = IndexMap::default();
    for input in smallest_first(inputs) {
        for (member, score) in input.members() {
            let score = zero_if_nan(score * input.weight);
            let totals = totals.entry(member.to_text());
            totals.and_modify(|total| *total = aggregate.apply(*total, score)).or_insert(score);
        }
    }
    totals.into_iter().collect()
}

/// Returns the members of the first input that are in no other input.
pub(super) fn difference(inputs: &[Input<'_>], _: Aggregate) -> Vec<(Text, f64)> {
    let Some((first, others)) = inputs.split_first() else { return Vec::new() };
    let is_only_there = |member: Member<'_>| others.iter().all(|other| other.score(member).is_none());
    let members = first.members().filter(|(member, _)| is_only_there(*member));
    members.map(|(member, score)| (member.to_text(), score)).collect()
}

/// Sorts the inputs as Redis does. With infinite scores, clients can see the order of a sum.
fn smallest_first<'a>(inputs: &[Input<'a>]) -> SmallVec<[Input<'a>; 2]> {
    let mut inputs: SmallVec<[Input<'a>; 2]> = inputs.iter().copied().collect();
    inputs.sort_by_key(Input::len);
    inputs
}

/// A sorted set or a set that is combined with others, and its weight. A missing key is neither.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    zset: Option<&'a ZSet>,
    set: Option<&'a Set>,
    weight: f64,
}

impl<'a> Input<'a> {
    fn of(value: Option<&'a Value>) -> Input<'a> {
        Input {
            zset: value.and_then(<ZSet as ValueType>::of),
            set: value.and_then(<Set as ValueType>::of),
            weight: 1.0,
        }
    }

    fn len(&self) -> usize {
        self.zset.map_or(0, ZSet::len) + self.set.map_or(0, Set::len)
    }

    fn score(&self, member: Member<'_>) -> Option<f64> {
        let is_member = self.set.is_some_and(|set| set.contains_member(member));
        if is_member { Some(SCORE_IN_SET) } else { self.zset?.score(&member.to_text()) }
    }

    fn members(&self) -> impl Iterator<Item = (Member<'a>, f64)> + use<'a> {
        let scored = self.zset.into_iter().flat_map(|zset| zset.range(0..zset.len()));
        let scored = scored.map(|(member, score)| (Member::Text(member), score));
        let unscored = self.set.into_iter().flat_map(Set::iter).map(|member| (member, SCORE_IN_SET));
        scored.chain(unscored)
    }
}

/// The score of every member of a set.
const SCORE_IN_SET: f64 = 1.0;

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
fn parse<'c>(
    ctx: &'c mut Ctx<'_>,
    args: &Argv<'_>,
    words: &[&str],
) -> Result<(SmallVec<[Input<'c>; 2]>, Options), Error> {
    let numkeys = integer(args[0])?;
    if numkeys < 1 {
        return Err(error::no_input_keys(ctx.row.name));
    }
    let (keys, mut args) = usize::try_from(numkeys)
        .ok()
        .and_then(|numkeys| args[1..].split_at_checked(numkeys))
        .ok_or(error::SYNTAX)?;
    let is_input = |value: &Value| matches!(value, Value::ZSet(_) | Value::Set(_));
    let values = ctx.db().reading().lookup_all(keys, is_input)?;
    let mut inputs: SmallVec<[Input<'c>; 2]> = values.into_iter().map(Input::of).collect();
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
