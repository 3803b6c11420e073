//! Ranges of a sorted set: by rank, by score, or by the bytes of members with equal scores.

use super::super::{Argv, Ctx, Outcome, integer, is_word};
use super::bounds::{By, Direction, Range};
use super::members::{members, store};
use crate::error::{self, Error};
use crate::keyspace::{Text, ZSet};
use crate::reply::Reply;

/// The settings that a command of the ZRANGE family fixes. `None` leaves a setting to the options.
#[derive(Clone, Copy)]
pub(super) struct Fixed {
    by: Option<By>,
    direction: Option<Direction>,
    with_scores: Option<bool>,
}

impl Fixed {
    const NOTHING: Fixed = Fixed { by: None, direction: None, with_scores: None };
    pub(super) const ZREVRANGE: Fixed = Fixed::of(By::Rank, Direction::Reverse);
    pub(super) const ZRANGEBYSCORE: Fixed = Fixed::of(By::Score, Direction::Forward);
    pub(super) const ZREVRANGEBYSCORE: Fixed = Fixed::of(By::Score, Direction::Reverse);
    pub(super) const ZRANGEBYLEX: Fixed = Fixed::of(By::Lex, Direction::Forward);
    pub(super) const ZREVRANGEBYLEX: Fixed = Fixed::of(By::Lex, Direction::Reverse);

    const fn of(by: By, direction: Direction) -> Fixed {
        Fixed { by: Some(by), direction: Some(direction), with_scores: None }
    }
}

/// `ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`
pub(super) fn zrange(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    range(ctx, argv, Fixed::NOTHING)
}

/// `ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]` and similar commands; those in
/// reverse take the maximum first
pub(super) fn range(ctx: &mut Ctx<'_>, argv: &Argv<'_>, fixed: Fixed) -> Outcome {
    let options = Options::parse(&argv[4..], fixed)?;
    let protocol = ctx.client.protocol;
    options.select(ctx, &argv[1..], |selected| {
        members(protocol, selected.map(|(member, score)| (member.to_bytes(), score)), options.with_scores)
    })
}

/// `ZRANGESTORE dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]`
pub(super) fn zrangestore(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let options = Options::parse(&argv[5..], Fixed { with_scores: Some(false), ..Fixed::NOTHING })?;
    let selected: Vec<(Text, f64)> = options.select(ctx, &argv[2..], |selected| {
        selected.map(|(member, score)| (member.clone(), score)).collect()
    })?;
    // Redis knows the number of members in advance only if the range is one of ranks.
    let len = if matches!(options.by, By::Rank) { selected.len() } else { 0 };
    let mut zset = ZSet::for_len(len, &ctx.engine.keyspace.limits);
    for (member, score) in selected {
        zset.insert(&member, score);
    }
    Ok(store(ctx, argv[1], zset))
}

/// `ZCOUNT key min max`, and ZLEXCOUNT
pub(super) fn count(ctx: &mut Ctx<'_>, argv: &Argv<'_>, by: By) -> Outcome {
    let range = Range::parse(by, argv[2], argv[3])?;
    let mut zset = ctx.db().members(argv[1])?;
    let (from, to) = range.places();
    Ok(Reply::count(zset.between(from, to).map_or(0, |zset| range.ranks(zset, Direction::Forward).len())))
}

/// `ZREMRANGEBYRANK key start stop`, ZREMRANGEBYSCORE and ZREMRANGEBYLEX
pub(super) fn remove(ctx: &mut Ctx<'_>, argv: &Argv<'_>, by: By) -> Outcome {
    let range = Range::parse(by, argv[2], argv[3])?;
    let event = ctx.row.name;
    let mut left = ctx.db().members(argv[1])?;
    let (from, to) = range.places();
    let Some(zset) = left.between(from, to) else { return Ok(Reply::Integer(0)) };
    let ranks = range.ranks(zset, Direction::Forward);
    let removed = ranks.len();
    if removed > 0 {
        left.remove_range(ranks);
        left.notify(event);
    }
    Ok(Reply::count(removed))
}

struct Options {
    by: By,
    direction: Direction,
    with_scores: bool,
    /// The number of members to skip. A negative number skips all.
    offset: i64,
    /// The number of members to take. A negative number takes all.
    count: i64,
}

impl Options {
    fn parse(mut args: &Argv<'_>, fixed: Fixed) -> Result<Options, Error> {
        let Fixed { mut by, mut direction, mut with_scores } = fixed;
        let (mut offset, mut count) = (0, -1);
        while let Some((option, rest)) = args.split_first() {
            args = rest;
            match rest {
                _ if fixed.with_scores.is_none() && is_word(option, "withscores") => with_scores = Some(true),
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
        let with_scores = with_scores.unwrap_or(false);
        match by {
            By::Rank if count != -1 => Err(error::LIMIT_WITHOUT_RANGE),
            By::Lex if with_scores => Err(error::WITHSCORES_WITH_BYLEX),
            _ => Ok(Options { by, direction, with_scores, offset, count }),
        }
    }

    /// Calls `take` with the members and scores that `key min max` selects. In reverse the
    /// arguments are `key max min`.
    fn select<R>(
        &self,
        ctx: &mut Ctx<'_>,
        args: &Argv<'_>,
        take: impl FnOnce(&mut dyn Iterator<Item = (&Text, f64)>) -> R,
    ) -> Result<R, Error> {
        let (min, max) = match (self.by, self.direction) {
            (By::Score | By::Lex, Direction::Reverse) => (args[2], args[1]),
            _ => (args[1], args[2]),
        };
        let range = Range::parse(self.by, min, max)?;
        let mut zset = ctx.db().reading().members(args[0])?;
        let (from, to) = range.places();
        let Some(zset) = zset.between(from, to) else { return Ok(take(&mut std::iter::empty())) };
        let members = zset.range(range.ranks(zset, self.direction));
        Ok(match self.direction {
            Direction::Forward => take(&mut self.limit(members)),
            Direction::Reverse => take(&mut self.limit(members.rev())),
        })
    }

    fn limit<I: Iterator>(&self, members: I) -> impl Iterator<Item = I::Item> + use<I> {
        // With ranks, the parser accepts LIMIT only if it takes all. Redis then ignores its offset,
        // too.
        let offset = if matches!(self.by, By::Rank) { 0 } else { self.offset };
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        members.skip(offset).take(count)
    }
}
