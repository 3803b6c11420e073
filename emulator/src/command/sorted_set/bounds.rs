//! The bounds of ranges: ranks, scores, or the bytes of members with equal scores.

use std::ops::{self, Bound};

use super::super::{index_range, integer};
use super::score;
use crate::error::{self, Error};
use crate::footprint::Place;
use crate::keyspace::{Encoding, Text, ZSet};

#[derive(Clone, Copy)]
pub(super) enum By {
    Rank,
    Score,
    Lex,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Reverse,
}

pub(super) enum Range<'a> {
    /// First and last rank. Negative ranks count from the end.
    Rank(i64, i64),
    Score(Bound<f64>, Bound<f64>),
    Lex(LexBound<'a>, LexBound<'a>),
}

impl<'a> Range<'a> {
    pub(super) fn parse(by: By, min: &'a [u8], max: &'a [u8]) -> Result<Range<'a>, Error> {
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

    /// The part of the sorted set on which this range depends.
    pub(super) fn places(&self) -> (Place<'static>, Place<'static>) {
        let Range::Score(min, max) = self else { return (Place::FIRST, Place::LAST) };
        let score = |bound: &Bound<f64>| match bound {
            Bound::Included(score) | Bound::Excluded(score) => Some(*score),
            Bound::Unbounded => None,
        };
        (score(min).map_or(Place::FIRST, Place::before), score(max).map_or(Place::LAST, Place::after))
    }

    /// Returns the ranks of the members in this range, in ascending order. The ranks of a range by
    /// rank count in its direction.
    pub(super) fn ranks(&self, zset: &ZSet, direction: Direction) -> ops::Range<usize> {
        let (start, end) = match self {
            Range::Rank(first, last) => return rank_range(*first, *last, zset.len(), direction),
            Range::Lex(min, max) if zset.encoding() == Encoding::ListPack => {
                return lex_walk(zset, min, max, direction);
            }
            Range::Score(min, max) => (
                zset.partition_point(|_, score| is_before(&score, min)),
                zset.partition_point(|_, score| !is_after(&score, max)),
            ),
            Range::Lex(min, max) => (
                zset.partition_point(|member, _| min.is_behind(member)),
                zset.partition_point(|member, _| !max.is_in_front_of(member)),
            ),
        };
        start..end.max(start)
    }
}

/// Walks through a listpack as Redis does, from the end at which the direction begins.
///
/// It skips members up to the first in the range, and takes members as long as they are in the
/// range. If all scores are equal, this is the range. If not, clients can see that it is a walk.
fn lex_walk(zset: &ZSet, min: &LexBound<'_>, max: &LexBound<'_>, direction: Direction) -> ops::Range<usize> {
    let len = zset.len();
    let members: Vec<&Text> = zset.range(0..len).map(|(member, _)| member).collect();
    let (Some(first), Some(last)) = (members.first(), members.last()) else { return 0..0 };
    if min.is_behind(last) || max.is_in_front_of(first) {
        return 0..0;
    }
    let walk = |members: &mut dyn Iterator<Item = &&Text>, direction: Direction| {
        let is_short_of = |member: &Text| match direction {
            Direction::Forward => min.is_behind(member),
            Direction::Reverse => max.is_in_front_of(member),
        };
        let is_past = |member: &Text| match direction {
            Direction::Forward => max.is_in_front_of(member),
            Direction::Reverse => min.is_behind(member),
        };
        let mut members = members.enumerate().skip_while(|(_, member)| is_short_of(member)).peekable();
        let start = members.peek().map_or(len, |(idx, _)| *idx);
        start..start + members.take_while(|(_, member)| !is_past(member)).count()
    };
    match direction {
        Direction::Forward => walk(&mut members.iter(), direction),
        Direction::Reverse => {
            let from_end = walk(&mut members.iter().rev(), direction);
            len - from_end.end..len - from_end.start
        }
    }
}

/// A bound in the order of members.
pub(super) enum LexBound<'a> {
    /// `-`: before all members.
    Lowest,
    /// `+`: after all members.
    Highest,
    At(Bound<&'a [u8]>),
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

    /// Whether this minimum excludes a member.
    fn is_behind(&self, member: &[u8]) -> bool {
        match self {
            LexBound::Lowest => false,
            LexBound::Highest => true,
            LexBound::At(bound) => is_before(&member, bound),
        }
    }

    /// Whether this maximum excludes a member.
    fn is_in_front_of(&self, member: &[u8]) -> bool {
        match self {
            LexBound::Lowest => true,
            LexBound::Highest => false,
            LexBound::At(bound) => is_after(&member, bound),
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

fn rank_range(first: i64, last: i64, len: usize, direction: Direction) -> ops::Range<usize> {
    let ranks = index_range(first, last, len);
    match direction {
        Direction::Forward => ranks,
        Direction::Reverse => len - ranks.end..len - ranks.start,
    }
}
