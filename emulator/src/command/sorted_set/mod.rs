//! Sorted set commands: members and their scores here, ranges and combinations in files of their own.

pub(super) mod score;
mod range;
mod combine;

use smallvec::SmallVec;

use super::Flag::{DenyOom, Fast, MovableKeys, ReadOnly, Write};
use super::{Argv, Ctx, KeySpec, Outcome, Row, is_word};
use crate::error::{self, Error};
use crate::keyspace::ZSet;
use crate::reply::Reply;

use combine::{zinterstore, zunionstore};
use range::{zcount, zrange, zrangebyscore, zremrangebyrank, zremrangebyscore, zrevrange, zrevrangebyscore};

const DELETED: &[KeySpec] = &[KeySpec::one(&["RW", "delete"])];
const LOOKED_AT: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];
const COMBINED: &[KeySpec] = &[KeySpec::one(&["OW", "update"]), KeySpec::numkeys(2, &["RO", "access"])];

pub(super) const ROWS: &[Row] = &[
    Row::new("zadd", -4, &[Write, DenyOom, Fast], |ctx, argv| add(ctx, argv, AddOptions::default()))
        .keys(&[KeySpec::one(&["RW", "update"])]),
    Row::new("zcard", 2, &[ReadOnly, Fast], zcard).keys(&[KeySpec::one(&["RO"])]),
    Row::new("zcount", 4, &[ReadOnly, Fast], zcount).keys(LOOKED_AT),
    Row::new("zincrby", 4, &[Write, DenyOom, Fast], |ctx, argv| {
        add(ctx, argv, AddOptions { incr: true, ..AddOptions::default() })
    })
    .keys(&[KeySpec::one(&["RW", "access", "update"])]),
    Row::new("zinterstore", -4, &[Write, DenyOom, MovableKeys], zinterstore).keys(COMBINED),
    Row::new("zrange", -4, &[ReadOnly], zrange).keys(LOOKED_AT),
    Row::new("zrangebyscore", -4, &[ReadOnly], zrangebyscore).keys(LOOKED_AT),
    Row::new("zrank", 3, &[ReadOnly, Fast], zrank).keys(LOOKED_AT),
    Row::new("zrem", -3, &[Write, Fast], zrem).keys(DELETED),
    Row::new("zremrangebyrank", 4, &[Write], zremrangebyrank).keys(DELETED),
    Row::new("zremrangebyscore", 4, &[Write], zremrangebyscore).keys(DELETED),
    Row::new("zrevrange", -4, &[ReadOnly], zrevrange).keys(LOOKED_AT),
    Row::new("zrevrangebyscore", -4, &[ReadOnly], zrevrangebyscore).keys(LOOKED_AT),
    Row::new("zrevrank", 3, &[ReadOnly, Fast], zrevrank).keys(LOOKED_AT),
    Row::new("zscore", 3, &[ReadOnly, Fast], zscore).keys(LOOKED_AT),
    Row::new("zunionstore", -4, &[Write, DenyOom, MovableKeys], zunionstore).keys(COMBINED),
];

/// `ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]`, and `ZINCRBY key increment member`
fn add(ctx: &mut Ctx<'_>, argv: &Argv<'_>, options: AddOptions) -> Outcome {
    let (options, pairs) = options.parse(&argv[2..])?;
    let scores = pairs.iter().map(|[score, _]| score::parse(score).ok_or(error::NOT_A_FLOAT));
    let scores: SmallVec<[f64; 4]> = scores.collect::<Result<_, _>>()?;
    let edit = if options.xx {
        ctx.db().edit::<ZSet>(argv[1])?
    } else {
        Some(ctx.db().edit_or_create::<ZSet>(argv[1])?)
    };
    let (mut added, mut updated, mut last) = (0, 0, None);
    if let Some(mut zset) = edit {
        for ([_, member], given) in pairs.iter().zip(scores) {
            let current = zset.get().score(member);
            let Some(score) = options.new_score(current, given)? else { continue };
            last = Some(score);
            match current {
                None => added += 1,
                Some(current) if current == score => continue,
                Some(_) => updated += 1,
            }
            zset.write().insert(member, score);
        }
    }
    Ok(match (options.incr, last) {
        (true, score) => score.map_or(Reply::Nil, Reply::Double),
        (false, _) => Reply::count(if options.ch { added + updated } else { added }),
    })
}

/// Scores as they were sent, each with its member.
type Pairs<'a, 'b> = &'a [[&'b [u8]; 2]];

#[derive(Clone, Copy, Default)]
struct AddOptions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
    ch: bool,
    incr: bool,
}

impl AddOptions {
    /// The options with those in front of `args`, and the pairs of score and member behind them.
    fn parse<'a, 'b>(mut self, mut args: &'a Argv<'b>) -> Result<(AddOptions, Pairs<'a, 'b>), Error> {
        while let Some((option, rest)) = args.split_first() {
            let flag = match () {
                () if is_word(option, "nx") => &mut self.nx,
                () if is_word(option, "xx") => &mut self.xx,
                () if is_word(option, "gt") => &mut self.gt,
                () if is_word(option, "lt") => &mut self.lt,
                () if is_word(option, "ch") => &mut self.ch,
                () if is_word(option, "incr") => &mut self.incr,
                () => break,
            };
            *flag = true;
            args = rest;
        }
        match args.as_chunks::<2>() {
            ([], _) | (_, [_, ..]) => Err(error::SYNTAX),
            _ if self.nx && self.xx => Err(error::ZADD_NX_AND_XX),
            _ if self.nx && (self.gt || self.lt) || self.gt && self.lt => Err(error::ZADD_GT_LT_NX),
            ([_, _, ..], _) if self.incr => Err(error::ZADD_INCR_PAIRS),
            (pairs, []) => Ok((self, pairs)),
        }
    }

    /// The score that a member gets, which may be the one it has; `None` if it is to be left alone.
    fn new_score(&self, current: Option<f64>, given: f64) -> Result<Option<f64>, Error> {
        let Some(current) = current else { return Ok((!self.xx).then_some(given)) };
        if self.nx {
            return Ok(None);
        }
        let score = if self.incr { current + given } else { given };
        if score.is_nan() {
            return Err(error::SCORE_NAN);
        }
        let is_refused = self.gt && score <= current || self.lt && score >= current;
        Ok((!is_refused).then_some(score))
    }
}

/// `ZCARD key`
fn zcard(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Ok(Reply::count(ctx.db().lookup_as::<ZSet>(argv[1])?.map_or(0, ZSet::len)))
}

/// `ZRANK key member`
fn zrank(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let rank = db.lookup_as::<ZSet>(argv[1])?.and_then(|zset| zset.rank(argv[2]));
    Ok(rank.map_or(Reply::Nil, Reply::count))
}

/// `ZREVRANK key member`
fn zrevrank(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let zset = db.lookup_as::<ZSet>(argv[1])?;
    let rank = zset.and_then(|zset| Some(zset.len() - 1 - zset.rank(argv[2])?));
    Ok(rank.map_or(Reply::Nil, Reply::count))
}

/// `ZREM key member [member ...]`
fn zrem(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let Some(mut zset) = ctx.db().edit::<ZSet>(argv[1])? else { return Ok(Reply::Integer(0)) };
    let mut removed = 0;
    for member in &argv[2..] {
        if zset.get().score(member).is_some() {
            removed += usize::from(zset.write().remove(member));
        }
    }
    Ok(Reply::count(removed))
}

/// `ZSCORE key member`
fn zscore(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let score = db.lookup_as::<ZSet>(argv[1])?.and_then(|zset| zset.score(argv[2]));
    Ok(score.map_or(Reply::Nil, Reply::Double))
}
