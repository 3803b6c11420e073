//! `LPOS`: the positions of an element.

use super::super::{Argv, Ctx, Outcome, integer, integer_within, is_word};
use crate::error::{self, Error};
use crate::keyspace::List;
use crate::reply::Reply;

/// `LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]`
pub(super) fn lpos(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let options = Options::parse(&argv[3..])?;
    let mut db = ctx.db();
    let list = db.lookup_as::<List>(argv[1])?;
    let matches = list.map_or_else(Vec::new, |list| options.find(list, argv[2]));
    Ok(match options.count {
        None => matches.first().copied().map_or(Reply::Nil, Reply::count),
        Some(_) => Reply::Array(matches.into_iter().map(Reply::count).collect()),
    })
}

struct Options {
    /// The match to begin with. If it is negative, matches are counted and searched from the tail.
    rank: i64,
    /// How many matches are returned: 0 means all, `None` means one that is not in an array.
    count: Option<i64>,
    /// How many elements are compared: 0 means all.
    maxlen: usize,
}

impl Options {
    fn parse(options: &Argv<'_>) -> Result<Options, Error> {
        let mut parsed = Options { rank: 1, count: None, maxlen: 0 };
        let (pairs, rest) = options.as_chunks::<2>();
        for [option, value] in pairs {
            match () {
                () if is_word(option, "rank") => parsed.rank = integer(value)?,
                () if is_word(option, "count") => {
                    parsed.count = Some(integer_within(value, 0..=i64::MAX, error::COUNT_NEGATIVE)?);
                }
                () if is_word(option, "maxlen") => {
                    parsed.maxlen = integer_within(value, 0..=i64::MAX, error::MAXLEN_NEGATIVE)? as usize;
                }
                () => return Err(error::SYNTAX),
            }
            if parsed.rank == 0 {
                return Err(error::RANK_ZERO);
            }
        }
        if rest.is_empty() { Ok(parsed) } else { Err(error::SYNTAX) }
    }

    fn find(&self, list: &List, wanted: &[u8]) -> Vec<usize> {
        let looked_at = if self.maxlen == 0 { list.len() } else { self.maxlen.min(list.len()) };
        let places = |(idx, element): (usize, &[u8])| (element == wanted).then_some(idx);
        // The lowest rank has no positive counterpart. For it, Redis skips no match and has no
        // limit.
        let limit = match self.count {
            None => 1,
            Some(0) => usize::MAX,
            Some(_) if self.rank == i64::MIN => usize::MAX,
            Some(count) => count as usize,
        };
        let skipped = self.rank.checked_abs().map_or(0, |rank| rank as usize - 1);
        if self.rank > 0 {
            let elements = (0..looked_at).zip(list.iter());
            elements.filter_map(places).skip(skipped).take(limit).collect()
        } else {
            let elements = (list.len() - looked_at..list.len()).rev().zip(list.iter().rev());
            elements.filter_map(places).skip(skipped).take(limit).collect()
        }
    }
}
