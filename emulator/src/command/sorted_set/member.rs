//! Commands on members and their scores.

use smallvec::SmallVec;

use super::super::{Argv, Ctx, Outcome, is_word, pick, scan};
use super::members::members;
use super::score;
use crate::error::{self, Error};
use crate::footprint::Place;
use crate::keyspace::{Text, ZSet};
use crate::reply::{Reply, format_double};

/// The largest score that a listpack stores as an integer: 2^62.
const INTEGER_MAX: f64 = (1_i64 << 62) as f64;

/// `ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]`, and
/// `ZINCRBY key increment member`
pub(super) fn add(ctx: &mut Ctx<'_>, argv: &Argv<'_>, options: AddOptions) -> Outcome {
    let (options, pairs) = options.parse(&argv[2..])?;
    let scores = pairs.iter().map(|[score, _]| score::parse(score).ok_or(error::NOT_A_FLOAT));
    let scores: SmallVec<[f64; 4]> = scores.collect::<Result<_, _>>()?;
    let mut zset = ctx.db().members(argv[1])?;
    let (mut added, mut updated, mut last) = (0, 0, None);
    for ([_, member], given) in pairs.iter().zip(scores) {
        let current = zset.score(member);
        let Some(score) = options.new_score(current, given)? else { continue };
        last = Some(score);
        match current {
            None => added += 1,
            Some(current) if current == score => continue,
            Some(_) => updated += 1,
        }
        zset.insert(member, score);
    }
    if added + updated > 0 {
        zset.answer();
        zset.notify(if options.incr { "zincr" } else { "zadd" });
    }
    Ok(match (options.incr, last) {
        (true, score) => score.map_or(Reply::Nil, Reply::Double),
        (false, _) => Reply::count(if options.ch { added + updated } else { added }),
    })
}

/// Pairs of a score, as it was sent, and a member.
type Pairs<'a, 'b> = &'a [[&'b [u8]; 2]];

#[derive(Clone, Copy, Default)]
pub(super) struct AddOptions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
    ch: bool,
    incr: bool,
}

impl AddOptions {
    pub(super) const INCR: AddOptions =
        AddOptions { nx: false, xx: false, gt: false, lt: false, ch: false, incr: true };

    /// Parses the options at the front of `args`, and the pairs of score and member after them.
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

    /// Returns the new score of a member, which may equal the old one. `None` if the member is not
    /// to be changed.
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
pub(super) fn zcard(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut zset = ctx.db().members(argv[1])?;
    Ok(Reply::count(zset.between(Place::FIRST, Place::LAST).map_or(0, ZSet::len)))
}

/// `ZMSCORE key member [member ...]`
pub(super) fn zmscore(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut zset = ctx.db().members(argv[1])?;
    let scores = argv[2..].iter().map(|member| zset.score(member));
    Ok(Reply::Array(scores.map(|score| score.map_or(Reply::Nil, Reply::Double)).collect()))
}

/// `ZRANDMEMBER key [count [WITHSCORES]]`: a negative count may pick the same member again
pub(super) fn zrandmember(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let (wanted, with_scores) = pick::options(&argv[2..], "withscores")?;
    let Some(mut zset) = ctx.db().edit::<ZSet>(argv[1])? else { return Ok(pick::nothing(wanted)) };
    let len = zset.get().len();
    let picked = match wanted {
        None => vec![pick::one(&mut zset, len)],
        Some(wanted) => pick::some(&mut zset, len, wanted, |zset, idx| {
            zset.nth(len - 1 - idx).map_or(0, |(member, _)| member.len())
        })?,
    };
    // If all members are requested, Redis returns them from the last to the first.
    let ranks = picked.into_iter().map(|idx| len - 1 - idx);
    let picked: Vec<(Text, f64)> = ranks.filter_map(|rank| zset.get().nth(rank)).map(own).collect();
    drop(zset);
    Ok(match wanted {
        None => Reply::bulk_or_nil(picked.into_iter().next().map(|(member, _)| member.into())),
        Some(_) => members(ctx.client.protocol, picked.into_iter(), with_scores),
    })
}

/// `ZRANK key member`
pub(super) fn zrank(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let rank = ctx.db().members(argv[1])?.rank(argv[2]);
    Ok(rank.map_or(Reply::Nil, Reply::count))
}

/// `ZREVRANK key member`
pub(super) fn zrevrank(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let rank = ctx.db().members(argv[1])?.reverse_rank(argv[2]);
    Ok(rank.map_or(Reply::Nil, Reply::count))
}

/// `ZREM key member [member ...]`
pub(super) fn zrem(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut zset = ctx.db().members(argv[1])?;
    let removed = argv[2..].iter().filter(|member| zset.remove(member)).count();
    if removed > 0 {
        zset.notify("zrem");
    }
    Ok(Reply::count(removed))
}

/// `ZSCAN key cursor [MATCH pattern] [COUNT count]`
pub(super) fn zscan(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let cursor = scan::cursor(argv[2])?;
    let mut db = ctx.db();
    let Some(zset) = db.lookup_as::<ZSet>(argv[1])? else { return Ok(scan::nothing()) };
    let options = scan::Options::parse(&argv[3..])?;
    let page = options.page_of(zset.encoding(), cursor, zset.len());
    let places = page.places.clone();
    // A listpack is scanned in order. Other encodings are scanned by places, which stay the same
    // when a score changes.
    let (members, print): (Vec<_>, fn(f64) -> String) = if zset.encoding().is_compact() {
        (zset.range(places).collect(), format_compact)
    } else {
        (places.filter_map(|place| zset.at(place)).collect(), format_double)
    };
    let members = members.into_iter().filter(|(member, _)| options.matches(member));
    // The scores are texts here, also in RESP3.
    let found = members.flat_map(|(member, score)| [Reply::bulk(member), Reply::bulk(print(score))]);
    Ok(page.reply(found.collect()))
}

/// `ZSCORE key member`
pub(super) fn zscore(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let score = ctx.db().members(argv[1])?.score(argv[2]);
    Ok(score.map_or(Reply::Nil, Reply::Double))
}

/// Formats a score as a listpack stores it: as an integer if possible.
fn format_compact(score: f64) -> String {
    let is_integer = score.fract() == 0.0 && score.abs() <= INTEGER_MAX;
    if is_integer { (score as i64).to_string() } else { format_double(score) }
}

fn own((member, score): (&Text, f64)) -> (Text, f64) {
    (member.clone(), score)
}
