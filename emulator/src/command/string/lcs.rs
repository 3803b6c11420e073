//! `LCS`: the longest common subsequence of two strings.

use bytes::Bytes;

use super::super::{Argv, Ctx, Outcome, integer, is_word};
use super::part::PROTO_MAX_BULK_LEN;
use crate::error::{self, Error};
use crate::keyspace::Value;
use crate::reply::Reply;

/// `LCS key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]`
pub(super) fn lcs(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let texts = [argv[1], argv[2]].map(|key| match db.lookup(key) {
        None => Ok(Bytes::new()),
        Some(Value::String(text)) => Ok(text.to_bytes()),
        Some(_) => Err(error::LCS_NOT_STRINGS),
    });
    let [a, b] = texts;
    let (a, b) = (a?, b?);
    let options = Options::parse(&argv[3..])?;
    let table = Table::of(&a, &b, ctx.engine.config.size(PROTO_MAX_BULK_LEN))?;
    if options.is_len && !options.is_idx {
        return Ok(Reply::count(table.len()));
    }
    let matches = table.matches(&a, &b);
    if options.is_idx {
        return Ok(options.describe(&runs(&matches), table.len()));
    }
    Ok(Reply::Bulk(matches.iter().rev().map(|&(idx, _)| a[idx]).collect()))
}

#[derive(Default)]
struct Options {
    is_len: bool,
    is_idx: bool,
    with_match_len: bool,
    min_match_len: usize,
}

impl Options {
    fn parse(mut args: &Argv<'_>) -> Result<Options, Error> {
        let mut options = Options::default();
        while let Some((option, rest)) = args.split_first() {
            args = rest;
            match option {
                idx if is_word(idx, "idx") => options.is_idx = true,
                len if is_word(len, "len") => options.is_len = true,
                with if is_word(with, "withmatchlen") => options.with_match_len = true,
                min if is_word(min, "minmatchlen") && !rest.is_empty() => {
                    options.min_match_len = usize::try_from(integer(rest[0])?).unwrap_or(0);
                    args = &rest[1..];
                }
                _ => return Err(error::SYNTAX),
            }
        }
        if options.is_idx && options.is_len { Err(error::LCS_IDX_AND_LEN) } else { Ok(options) }
    }

    /// Makes the reply of `IDX`: the positions of the runs, from the last run to the first.
    fn describe(&self, runs: &[Run], len: usize) -> Reply {
        let range =
            |start: usize, len: usize| Reply::Array(vec![Reply::count(start), Reply::count(start + len - 1)]);
        let long_enough = runs.iter().filter(|run| run.len >= self.min_match_len);
        let runs = long_enough.map(|run| {
            let mut parts = vec![range(run.start.0, run.len), range(run.start.1, run.len)];
            parts.extend(self.with_match_len.then(|| Reply::count(run.len)));
            Reply::Array(parts)
        });
        Reply::Map(vec![
            (Reply::bulk("matches"), Reply::Array(runs.collect())),
            (Reply::bulk("len"), Reply::count(len)),
        ])
    }
}

/// The length of the longest common subsequence, for every two prefixes of the texts.
struct Table {
    lens: Vec<u32>,
    columns: usize,
}

impl Table {
    fn of(a: &[u8], b: &[u8], bytes_max: usize) -> Result<Table, Error> {
        let columns = b.len() + 1;
        let cells = (a.len() + 1).checked_mul(columns);
        let cells = cells.filter(|&cells| cells <= bytes_max / size_of::<u32>());
        let mut table = Table { lens: vec![0; cells.ok_or(error::LCS_TOO_LARGE)?], columns };
        for i in 1..=a.len() {
            for j in 1..columns {
                table.lens[i * columns + j] = if a[i - 1] == b[j - 1] {
                    table.at(i - 1, j - 1) + 1
                } else {
                    table.at(i - 1, j).max(table.at(i, j - 1))
                };
            }
        }
        Ok(table)
    }

    fn at(&self, i: usize, j: usize) -> u32 {
        self.lens[i * self.columns + j]
    }

    fn len(&self) -> usize {
        self.lens.last().map_or(0, |&len| len as usize)
    }

    /// The pairs of matching positions, from the last to the first.
    fn matches(&self, a: &[u8], b: &[u8]) -> Vec<(usize, usize)> {
        let (mut i, mut j) = (a.len(), b.len());
        let mut matches = Vec::with_capacity(self.len());
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                (i, j) = (i - 1, j - 1);
                matches.push((i, j));
            } else if self.at(i - 1, j) > self.at(i, j - 1) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        matches
    }
}

/// A run of matching positions that are consecutive in both texts.
struct Run {
    start: (usize, usize),
    len: usize,
}

fn runs(matches: &[(usize, usize)]) -> Vec<Run> {
    let neighbours = |later: &(usize, usize), earlier: &(usize, usize)| {
        later.0 == earlier.0 + 1 && later.1 == earlier.1 + 1
    };
    matches.chunk_by(neighbours).map(|run| Run { start: run[run.len() - 1], len: run.len() }).collect()
}
