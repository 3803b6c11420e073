//! The commands on sorted sets.

use emulator::Reply;

use super::arguments::{Aggregate, Bound, Combination, Flags, Key, Member, Number, Range, Score};
use super::zset::{self, ZSet};
use super::{Answer, Entry, Model, Value, WRONG_TYPE, count, members, score};

const NOT_A_FLOAT: &str = "ERR value is not a valid float";

impl Model {
    pub(super) fn z_add(
        &mut self,
        key: Key,
        flags: Flags,
        ch: bool,
        incr: bool,
        pairs: &[(Score, Member)],
    ) -> Answer {
        if flags.nx && flags.xx {
            return Err("ERR XX and NX options at the same time are not compatible".into());
        }
        if flags.nx && (flags.gt || flags.lt) || flags.gt && flags.lt {
            return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
        }
        if incr && pairs.len() > 1 {
            return Err("ERR INCR option supports a single increment-element pair".into());
        }
        let pairs = pairs.iter().map(|(score, member)| Some((score.get()?, member.bytes())));
        let pairs: Vec<_> = pairs.collect::<Option<_>>().ok_or(NOT_A_FLOAT)?;
        let added = self.zset_mut(key, |zset| zset.add(flags, incr, pairs))??;
        Ok(match (incr, added.last) {
            (true, score) => score.map_or(Reply::Nil, Reply::Double),
            (false, _) => count(if ch { added.new + added.changed } else { added.new }),
        })
    }

    pub(super) fn z_incr_by(&mut self, key: Key, by: Score, member: Member) -> Answer {
        let pairs = vec![(by.get().ok_or(NOT_A_FLOAT)?, member.bytes())];
        let added = self.zset_mut(key, |zset| zset.add(Flags::default(), true, pairs))??;
        Ok(added.last.map_or(Reply::Nil, Reply::Double))
    }

    pub(super) fn z_m_score(&self, key: Key, members: &[Member]) -> Answer {
        let zset = self.zset(key)?;
        Ok(Reply::Array(members.iter().map(|member| score(zset.score(&member.bytes()))).collect()))
    }

    pub(super) fn z_rank(&self, key: Key, member: Member, reverse: bool) -> Answer {
        let rank = self.zset(key)?.rank(&member.bytes(), reverse);
        Ok(rank.map_or(Reply::Nil, count))
    }

    pub(super) fn z_count(&self, key: Key, range: Range) -> Answer {
        is_valid(range)?;
        Ok(count(self.zset(key)?.select(range, false).len()))
    }

    pub(super) fn z_rem(&mut self, key: Key, members: &[Member]) -> Answer {
        self.zset_mut(key, |zset| count(members.iter().filter(|member| zset.remove(&member.bytes())).count()))
    }

    pub(super) fn z_pop(&mut self, key: Key, max: bool, count: Option<Number>) -> Answer {
        let wanted = count.map_or(1, Number::get);
        let wanted = usize::try_from(wanted).map_err(|_| "ERR value is out of range, must be positive")?;
        self.zset_mut(key, |zset| {
            let all = zset.select(Range::Rank(Number::Small(0), Number::Small(-1)), max);
            let popped: Vec<_> = all.into_iter().take(wanted).collect();
            popped.iter().for_each(|(member, _)| _ = zset.remove(member));
            members(popped, true)
        })
    }

    pub(super) fn z_range(
        &self,
        key: Key,
        range: Range,
        reverse: bool,
        limit: Option<(Number, Number)>,
        with_scores: bool,
    ) -> Answer {
        let is_limited = limit.is_some_and(|(_, count)| count.get() != -1);
        if is_limited && matches!(range, Range::Rank(..)) {
            return Err(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
                    .into(),
            );
        }
        if with_scores && matches!(range, Range::Lex(..)) {
            return Err("ERR syntax error, WITHSCORES not supported in combination with BYLEX".into());
        }
        is_valid(range)?;
        let mut selected = self.zset(key)?.select(range, reverse);
        if let (Some((offset, count)), false) = (limit, matches!(range, Range::Rank(..))) {
            let offset = usize::try_from(offset.get()).unwrap_or(usize::MAX);
            let count = usize::try_from(count.get()).unwrap_or(usize::MAX);
            selected = selected.into_iter().skip(offset).take(count).collect();
        }
        Ok(members(selected, with_scores))
    }

    pub(super) fn z_range_store(&mut self, to: Key, key: Key, range: Range, reverse: bool) -> Answer {
        is_valid(range)?;
        let selected = self.zset(key)?.select(range, reverse);
        Ok(self.store(to, ZSet::of(selected)))
    }

    pub(super) fn z_rem_range(&mut self, key: Key, range: Range) -> Answer {
        is_valid(range)?;
        self.zset_mut(key, |zset| {
            let selected = zset.select(range, false);
            selected.iter().for_each(|(member, _)| _ = zset.remove(member));
            count(selected.len())
        })
    }

    pub(super) fn combine(
        &mut self,
        how: Combination,
        to: Option<Key>,
        inputs: &[(Key, Score)],
        weights: bool,
        aggregate: Option<Aggregate>,
    ) -> Answer {
        let zsets = inputs.iter().map(|(key, _)| self.zset(*key)).collect::<Result<Vec<_>, _>>()?;
        let weigh = weights && how != Combination::Difference;
        let factors = inputs.iter().map(|(_, weight)| if weigh { weight.get() } else { Some(1.0) });
        let factors: Vec<f64> = factors.collect::<Option<_>>().ok_or("ERR weight value is not a float")?;
        let combined = zset::combine(how, zsets.into_iter().zip(factors).collect(), aggregate);
        Ok(match to {
            Some(key) => self.store(key, combined),
            None => members(combined.in_order(), true),
        })
    }

    pub(super) fn zset(&self, key: Key) -> Result<ZSet, String> {
        match self.keys.get(&key).map(|entry| &entry.value) {
            None => Ok(ZSet::default()),
            Some(Value::ZSet(zset)) => Ok(zset.clone()),
            Some(Value::String(_)) => Err(WRONG_TYPE.into()),
        }
    }

    /// Changes a sorted set. If it is empty afterwards, the key is deleted.
    fn zset_mut<R>(&mut self, key: Key, change: impl FnOnce(&mut ZSet) -> R) -> Result<R, String> {
        let mut zset = self.zset(key)?;
        let result = change(&mut zset);
        let deadline_ms = self.deadline(key);
        self.keys.remove(&key);
        if zset.len() > 0 {
            self.keys.insert(key, Entry { value: Value::ZSet(zset), deadline_ms });
        }
        Ok(result)
    }

    fn store(&mut self, key: Key, zset: ZSet) -> Reply {
        let len = zset.len();
        self.keys.remove(&key);
        if len > 0 {
            self.keys.insert(key, Entry { value: Value::ZSet(zset), deadline_ms: None });
        }
        count(len)
    }
}

fn is_valid(range: Range) -> Result<(), String> {
    let is_number = |bound: Bound| {
        let (Bound::Included(score) | Bound::Excluded(score)) = bound;
        score.get().is_some()
    };
    match range {
        Range::Score(min, max) if !(is_number(min) && is_number(max)) => {
            Err("ERR min or max is not a float".into())
        }
        _ => Ok(()),
    }
}
