//! Ranges of a sorted set: by rank, by score, by the bytes of members that share one score.

use std::ops::Bound;

use bytes::Bytes;

use super::super::{Argv, Ctx, Outcome, index_range, integer, is_word};
use super::score;
use crate::error::{self, Error};
use crate::keyspace::ZSet;
use crate::reply::Reply;
use crate::resp::Protocol;

/// `ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`
pub(super) fn zrange(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    select(ctx, argv, None, None)
}

/// `ZREVRANGE key start stop [WITHSCORES]`
pub(super) fn zrevrange(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    select(ctx, argv, Some(By::Rank), Some(Direction::Reverse))
}

/// `ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]`
pub(super) fn zrangebyscore(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    select(ctx, argv, Some(By::Score), Some(Direction::Forward))
}

/// `ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]`
pub(super) fn zrevrangebyscore(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    select(ctx, argv, Some(By::Score), Some(Direction::Reverse))
}

/// `ZCOUNT key min max`
pub(super) fn zcount(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let range = Range::parse(By::Score, argv[2], argv[3])?;
    let mut db = ctx.db();
    let zset = db.lookup_as::<ZSet>(argv[1])?;
    Ok(Reply::count(zset.map_or(0, |zset| range.ranks(zset, Direction::Forward).len())))
}

/// `ZREMRANGEBYRANK key start stop`
pub(super) fn zremrangebyrank(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    remove(ctx, argv, By::Rank)
}

/// `ZREMRANGEBYSCORE key min max`
pub(super) fn zremrangebyscore(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    remove(ctx, argv, By::Score)
}

fn remove(ctx: &mut Ctx<'_>, argv: &Argv<'_>, by: By) -> Outcome {
    let range = Range::parse(by, argv[2], argv[3])?;
    let Some(mut zset) = ctx.db().edit::<ZSet>(argv[1])? else { return Ok(Reply::Integer(0)) };
    let ranks = range.ranks(zset.get(), Direction::Forward);
    let members: Vec<Bytes> = zset.get().range(ranks).map(|(member, _)| member.clone()).collect();
    if !members.is_empty() {
        let zset = zset.write();
        for member in &members {
            zset.remove(member);
        }
    }
    Ok(Reply::count(members.len()))
}

/// The ZRANGE family: what a command does not fix (`None`) its options may choose.
fn select(ctx: &mut Ctx<'_>, argv: &Argv<'_>, by: Option<By>, direction: Option<Direction>) -> Outcome {
    let options = Options::parse(&argv[4..], by, direction)?;
    let (min, max) = match (options.by, options.direction) {
        (By::Score | By::Lex, Direction::Reverse) => (argv[3], argv[2]),
        _ => (argv[2], argv[3]),
    };
    let range = Range::parse(options.by, min, max)?;
    let protocol = ctx.client.protocol;
    let mut db = ctx.db();
    let Some(zset) = db.lookup_as::<ZSet>(argv[1])? else { return Ok(Reply::Array(Vec::new())) };
    let members = zset.range(range.ranks(zset, options.direction));
    Ok(match options.direction {
        Direction::Forward => options.emit(members, protocol),
        Direction::Reverse => options.emit(members.rev(), protocol),
    })
}

#[derive(Clone, Copy)]
enum By {
    Rank,
    Score,
    Lex,
}

#[derive(Clone, Copy)]
enum Direction {
    Forward,
    Reverse,
}

struct Options {
    by: By,
    direction: Direction,
    with_scores: bool,
    /// Members to skip; a negative number skips them all.
    offset: i64,
    /// Members to take; a negative number takes them all.
    count: i64,
}

impl Options {
    fn parse(
        mut args: &Argv<'_>,
        mut by: Option<By>,
        mut direction: Option<Direction>,
    ) -> Result<Options, Error> {
        let (mut with_scores, mut offset, mut count) = (false, 0, -1);
        while let Some((option, rest)) = args.split_first() {
            args = rest;
            match rest {
                _ if is_word(option, "withscores") => with_scores = true,
                [skip, take, rest @ ..] if is_word(option, "limit") => {
                    (offset, count) = (integer(skip)?, integer(take)?);
                    args = rest;
                }
                _ if direction.is_none() && is_word(option, "rev") => direction = Some(Direction::Reverse),
                _ if by.is_none() && is_word(option, "bylex") => by = Some(By::Lex),
                _ if by.is_none() && is_word(option, "byscore") => by = Some(By::Score),
                _ => return Err(error::SYNTAX),
            }
        }
        let (by, direction) = (by.unwrap_or(By::Rank), direction.unwrap_or(Direction::Forward));
        match by {
            By::Rank if count != -1 => Err(error::LIMIT_WITHOUT_RANGE),
            By::Lex if with_scores => Err(error::WITHSCORES_WITH_BYLEX),
            _ => Ok(Options { by, direction, with_scores, offset, count }),
        }
    }

    fn emit<'a>(&self, members: impl Iterator<Item = (&'a Bytes, f64)>, protocol: Protocol) -> Reply {
        // LIMIT with ranks got by the parser only as "take all": Redis ignores its offset, too.
        let offset = if matches!(self.by, By::Rank) { 0 } else { self.offset };
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        let members =
            members.skip(offset).take(count).map(|(member, score)| (Reply::Bulk(member.clone()), score));
        Reply::Array(match (self.with_scores, protocol) {
            (false, _) => members.map(|(member, _)| member).collect(),
            (true, Protocol::Resp2) => {
                members.flat_map(|(member, score)| [member, Reply::Double(score)]).collect()
            }
            (true, Protocol::Resp3) => {
                members.map(|(member, score)| Reply::Array(vec![member, Reply::Double(score)])).collect()
            }
        })
    }
}

enum Range<'a> {
    /// First and last rank; negative ones count from the end.
    Rank(i64, i64),
    Score(Bound<f64>, Bound<f64>),
    Lex(LexBound<'a>, LexBound<'a>),
}

/// A place in the order of members, between any two of them.
enum LexBound<'a> {
    /// `-`: in front of all.
    Lowest,
    /// `+`: behind all.
    Highest,
    At(Bound<&'a [u8]>),
}

impl<'a> Range<'a> {
    fn parse(by: By, min: &'a [u8], max: &'a [u8]) -> Result<Range<'a>, Error> {
        match by {
            By::Rank => Ok(Range::Rank(integer(min)?, integer(max)?)),
            By::Score => score_bound(min)
                .zip(score_bound(max))
                .map(|(min, max)| Range::Score(min, max))
                .ok_or(error::MIN_OR_MAX_NOT_A_FLOAT),
            By::Lex => LexBound::parse(min)
                .zip(LexBound::parse(max))
                .map(|(min, max)| Range::Lex(min, max))
                .ok_or(error::MIN_OR_MAX_NOT_A_STRING),
        }
    }

    /// The ranks, counted in ascending order, of the members in this range. A range by rank counts in its direction.
    fn ranks(&self, zset: &ZSet, direction: Direction) -> std::ops::Range<usize> {
        let (start, end) = match self {
            Range::Rank(first, last) => return rank_range(*first, *last, zset.len(), direction),
            Range::Score(min, max) => (
                zset.partition_point(|_, score| is_before(&score, min)),
                zset.partition_point(|_, score| !is_after(&score, max)),
            ),
            Range::Lex(min, max) => (
                zset.partition_point(|member, _| match min {
                    LexBound::Lowest => false,
                    LexBound::Highest => true,
                    LexBound::At(bound) => is_before(&member, bound),
                }),
                zset.partition_point(|member, _| match max {
                    LexBound::Lowest => false,
                    LexBound::Highest => true,
                    LexBound::At(bound) => !is_after(&member, bound),
                }),
            ),
        };
        start..end.max(start)
    }
}

impl<'a> LexBound<'a> {
    fn parse(text: &'a [u8]) -> Option<LexBound<'a>> {
        match text {
            b"-" => Some(LexBound::Lowest),
            b"+" => Some(LexBound::Highest),
            [b'(', member @ ..] => Some(LexBound::At(Bound::Excluded(member))),
            [b'[', member @ ..] => Some(LexBound::At(Bound::Included(member))),
            _ => None,
        }
    }
}

fn score_bound(text: &[u8]) -> Option<Bound<f64>> {
    match text.strip_prefix(b"(") {
        Some(score) => score::parse_bound(score).map(Bound::Excluded),
        None => score::parse_bound(text).map(Bound::Included),
    }
}

fn is_before<T: PartialOrd>(value: &T, min: &Bound<T>) -> bool {
    match min {
        Bound::Included(min) => value < min,
        Bound::Excluded(min) => value <= min,
        Bound::Unbounded => false,
    }
}

fn is_after<T: PartialOrd>(value: &T, max: &Bound<T>) -> bool {
    match max {
        Bound::Included(max) => value > max,
        Bound::Excluded(max) => value >= max,
        Bound::Unbounded => false,
    }
}

fn rank_range(first: i64, last: i64, len: usize, direction: Direction) -> std::ops::Range<usize> {
    let ranks = index_range(first, last, len);
    match direction {
        Direction::Forward => ranks,
        Direction::Reverse => len - ranks.end..len - ranks.start,
    }
}
