//! The model's sorted set: members with their scores. They are sorted whenever their order is
//! needed.

use std::collections::BTreeMap;

use super::arguments::{Aggregate, Bound, Combination, Flags, LexBound, Range};

#[derive(Clone, Default)]
pub struct ZSet(BTreeMap<Vec<u8>, f64>);

/// The result of ZADD: how many members are new, how many have another score, and the last score
/// that it set.
#[derive(Default)]
pub struct Added {
    pub new: usize,
    pub changed: usize,
    pub last: Option<f64>,
}

impl ZSet {
    pub fn of(members: Vec<(Vec<u8>, f64)>) -> ZSet {
        ZSet(members.into_iter().collect())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.0.get(member).copied()
    }

    pub fn remove(&mut self, member: &[u8]) -> bool {
        self.0.remove(member).is_some()
    }

    pub fn has_one_score(&self) -> bool {
        self.0.values().zip(self.0.values().skip(1)).all(|(a, b)| a == b)
    }

    pub fn add(&mut self, flags: Flags, incr: bool, pairs: Vec<(f64, Vec<u8>)>) -> Result<Added, String> {
        let mut added = Added::default();
        for (given, member) in pairs {
            let old = self.score(&member);
            let new = if incr { old.unwrap_or(0.0) + given } else { given };
            if old.is_some() && flags.nx || old.is_none() && flags.xx {
                continue;
            }
            if new.is_nan() {
                return Err("ERR resulting score is not a number (NaN)".into());
            }
            if old.is_some_and(|old| flags.gt && new <= old || flags.lt && new >= old) {
                continue;
            }
            added.last = Some(new);
            match old {
                None => added.new += 1,
                Some(old) => added.changed += usize::from(old != new),
            }
            if old != Some(new) {
                self.0.insert(member, new);
            }
        }
        Ok(added)
    }

    /// The members by score. If scores are equal, they are ordered by their bytes.
    pub fn in_order(&self) -> Vec<(Vec<u8>, f64)> {
        let mut members: Vec<_> = self.0.clone().into_iter().collect();
        members.sort_by(|(_, a), (_, b)| a.partial_cmp(b).expect("no score is NaN"));
        members
    }

    pub fn rank(&self, member: &[u8], reverse: bool) -> Option<usize> {
        let rank = self.in_order().iter().position(|(other, _)| other == member)?;
        Some(if reverse { self.len() - 1 - rank } else { rank })
    }

    pub fn select(&self, range: Range, reverse: bool) -> Vec<(Vec<u8>, f64)> {
        let mut members = self.in_order();
        if reverse {
            members.reverse();
        }
        match range {
            Range::Rank(first, last) => {
                let len = members.len() as i64;
                let place = |rank: i64| if rank < 0 { rank.saturating_add(len) } else { rank };
                let (first, last) = (place(first.get()).max(0), place(last.get()));
                let ranked = (0..).zip(members).filter(|(rank, _)| (first..=last).contains(rank));
                ranked.map(|(_, member)| member).collect()
            }
            Range::Score(min, max) => {
                members.retain(|(_, score)| {
                    let is_above =
                        |bound, strict: bool| if strict { *score > bound } else { *score >= bound };
                    let is_below =
                        |bound, strict: bool| if strict { *score < bound } else { *score <= bound };
                    let (min, above) = end(min);
                    let (max, below) = end(max);
                    is_above(min, above) && is_below(max, below)
                });
                members
            }
            Range::Lex(min, max) => {
                members.retain(|(member, _)| {
                    let starts = match min {
                        LexBound::First => true,
                        LexBound::Last => false,
                        LexBound::Included(min) => *member >= min.bytes(),
                        LexBound::Excluded(min) => *member > min.bytes(),
                    };
                    let ends = match max {
                        LexBound::First => false,
                        LexBound::Last => true,
                        LexBound::Included(max) => *member <= max.bytes(),
                        LexBound::Excluded(max) => *member < max.bytes(),
                    };
                    starts && ends
                });
                members
            }
        }
    }
}

/// The number of a bound, and whether the bound itself is excluded.
fn end(bound: Bound) -> (f64, bool) {
    match bound {
        Bound::Included(score) => (score.get().unwrap_or_default(), false),
        Bound::Excluded(score) => (score.get().unwrap_or_default(), true),
    }
}

/// Combines sets with their weights. Redis starts with the smallest set, and infinite scores make
/// that order visible.
pub fn combine(how: Combination, mut inputs: Vec<(ZSet, f64)>, aggregate: Option<Aggregate>) -> ZSet {
    if how == Combination::Difference {
        let (first, _) = inputs.remove(0);
        let members = first.0.into_iter();
        return ZSet(
            members
                .filter(|(member, _)| inputs.iter().all(|(other, _)| other.score(member).is_none()))
                .collect(),
        );
    }
    inputs.sort_by_key(|(zset, _)| zset.len());
    let is_in_all = |member: &[u8]| inputs.iter().all(|(zset, _)| zset.score(member).is_some());
    let mut totals = BTreeMap::new();
    for (zset, weight) in &inputs {
        for (member, score) in &zset.0 {
            if how == Combination::Union || is_in_all(member) {
                let weighed = score * weight;
                let total = match totals.get(member) {
                    // Infinity times 0 is NaN and counts as 0. An intersection compares the NaN
                    // itself, so `MIN` and `MAX` ignore it.
                    None => number(weighed),
                    Some(total) if how == Combination::Union => apply(aggregate, *total, number(weighed)),
                    Some(total) => apply(aggregate, *total, weighed),
                };
                totals.insert(member.clone(), total);
            }
        }
    }
    ZSet(totals)
}

fn apply(aggregate: Option<Aggregate>, total: f64, score: f64) -> f64 {
    match aggregate {
        None | Some(Aggregate::Sum) => number(total + score),
        Some(Aggregate::Min) => total.min(score),
        Some(Aggregate::Max) => total.max(score),
    }
}

fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}
