//! A model in plain Rust of strings, sorted sets and times to live, as the documentation of Redis
//! 7.0 describes them. It shares only the reply types with the emulator.

pub mod op;
mod zset;

use std::collections::BTreeMap;

use emulator::{Error, Reply};

use op::{Bound, Combination, Expiry, Flags, Key, Number, Op, Range, Start, Text, Unit};
use zset::ZSet;

/// The most bytes of a string. SETRANGE refuses to go beyond it.
const STRING_BYTES_MAX: i64 = 512 << 20;
/// The longest string that the model asks for, unless Redis refuses the command.
const STRING_BYTES_WANTED: i64 = 1 << 10;

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
const NOT_A_FLOAT: &str = "ERR value is not a valid float";

/// One database and its time.
pub struct Model {
    now_ms: i64,
    keys: BTreeMap<Key, Entry>,
}

#[derive(Clone)]
struct Entry {
    value: Value,
    deadline_ms: Option<i64>,
}

#[derive(Clone)]
enum Value {
    String(Vec<u8>),
    ZSet(ZSet),
}

/// The reply of a command, or the text of its error.
type Answer = Result<Reply, String>;

impl Model {
    pub fn at(now_ms: i64) -> Model {
        Model { now_ms, keys: BTreeMap::new() }
    }

    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// Whether the documentation of Redis defines the command here, and whether the command needs
    /// little memory.
    pub fn takes(&self, op: &Op) -> bool {
        match op {
            // If the scores differ, a range by the bytes of members is undefined.
            Op::ZRange { key, range: Range::Lex(..), .. }
            | Op::ZRangeStore { key, range: Range::Lex(..), .. }
            | Op::ZRemRange(key, Range::Lex(..))
            | Op::ZCount(key, Range::Lex(..)) => self.keys.get(key).is_none_or(|entry| match &entry.value {
                Value::ZSet(zset) => zset.has_one_score(),
                Value::String(_) => true,
            }),
            Op::ZCount(_, Range::Rank(..)) => false,
            Op::SetRange(_, offset, _) => !(STRING_BYTES_WANTED..STRING_BYTES_MAX).contains(&offset.get()),
            _ => true,
        }
    }

    /// Moves the clock or runs a command.
    pub fn run(&mut self, op: &Op) -> Reply {
        let span_ms = match op {
            Op::Advance(span_ms) => Some(i64::from(*span_ms)),
            Op::AdvanceSeconds(span_s) => Some(i64::from(*span_s) * 1000),
            _ => None,
        };
        if let Some(span_ms) = span_ms {
            // No key expires here, because keys expire only at the next command. The clock may be
            // set back before it.
            self.now_ms += span_ms;
            return Reply::NOTHING;
        }
        let now_ms = self.now_ms;
        self.keys.retain(|_, entry| entry.deadline_ms.is_none_or(|deadline_ms| deadline_ms >= now_ms));
        self.answer(op).unwrap_or_else(|text| Reply::Error(Error::new(text)))
    }

    fn answer(&mut self, op: &Op) -> Answer {
        match op {
            Op::Advance(_) | Op::AdvanceSeconds(_) => Ok(Reply::NOTHING),
            Op::Set { key, text, must_exist, get, expiry } => {
                let deadline_ms = match expiry {
                    Expiry::None => None,
                    Expiry::Keep => self.deadline(*key),
                    Expiry::At(amount, unit, from) => Some(self.positive(op, *amount, *unit, *from)?),
                };
                let old = if *get { bulk(self.string(*key)?) } else { Reply::OK };
                let is_wanted = must_exist.is_none_or(|must| self.keys.contains_key(key) == must);
                if is_wanted {
                    self.put(*key, text.bytes(), deadline_ms);
                }
                Ok(if is_wanted || *get { old } else { Reply::Nil })
            }
            Op::SetNx(key, text) => {
                let is_free = !self.keys.contains_key(key);
                if is_free {
                    self.put(*key, text.bytes(), None);
                }
                Ok(truth(is_free))
            }
            Op::SetEx(key, amount, unit, text) => {
                let deadline_ms = self.positive(op, *amount, *unit, Start::Now)?;
                self.put(*key, text.bytes(), Some(deadline_ms));
                Ok(Reply::OK)
            }
            Op::Get(key) => Ok(bulk(self.string(*key)?)),
            Op::GetSet(key, text) => {
                let old = bulk(self.string(*key)?);
                self.put(*key, text.bytes(), None);
                Ok(old)
            }
            Op::GetEx(key, expiry) => {
                let Some(old) = self.string(*key)?.cloned() else { return Ok(Reply::Nil) };
                match expiry {
                    Expiry::None => {}
                    Expiry::Keep => self.set_deadline(*key, None),
                    Expiry::At(amount, unit, from) => {
                        let deadline_ms = self.positive(op, *amount, *unit, *from)?;
                        self.set_deadline(*key, Some(deadline_ms));
                    }
                }
                Ok(bulk(Some(&old)))
            }
            Op::GetDel(key) => {
                let old = bulk(self.string(*key)?);
                self.keys.remove(key);
                Ok(old)
            }
            Op::StrLen(key) => Ok(count(self.string(*key)?.map_or(0, Vec::len))),
            Op::GetRange(key, start, end) => {
                let text = self.string(*key)?.cloned().unwrap_or_default();
                let (start, end, len) = (start.get(), end.get(), text.len() as i64);
                if start < 0 && end < 0 && start > end {
                    return Ok(bulk(Some(&Vec::new())));
                }
                let place = |idx: i64| if idx < 0 { (len + idx).max(0) } else { idx };
                let (start, end) = (place(start), place(end).min(len - 1));
                let part = if start > end { &[][..] } else { &text[start as usize..=end as usize] };
                Ok(bulk(Some(&part.to_vec())))
            }
            Op::SetRange(key, offset, text) => {
                let (offset, text) = (offset.get(), text.bytes());
                if offset < 0 {
                    return Err("ERR offset is out of range".into());
                }
                let old = self.string(*key)?.cloned();
                let len = old.as_ref().map_or(0, Vec::len);
                if text.is_empty() {
                    return Ok(count(len));
                }
                if offset.saturating_add(text.len() as i64) > STRING_BYTES_MAX {
                    return Err("ERR string exceeds maximum allowed size (proto-max-bulk-len)".into());
                }
                let (mut new, offset) = (old.unwrap_or_default(), offset as usize);
                new.resize(new.len().max(offset + text.len()), 0);
                new[offset..offset + text.len()].copy_from_slice(&text);
                Ok(count(self.put_keeping(*key, new)))
            }
            Op::Append(key, text) => {
                let mut new = self.string(*key)?.cloned().unwrap_or_default();
                new.extend(text.bytes());
                Ok(count(self.put_keeping(*key, new)))
            }
            Op::Incr(key) => self.increment(*key, Some(1)),
            Op::Decr(key) => self.increment(*key, Some(-1)),
            Op::IncrBy(key, by) => self.increment(*key, Some(by.get())),
            Op::DecrBy(key, by) => self.increment(*key, by.get().checked_neg()),
            Op::MSet(pairs) => {
                self.put_all(&pairs.0);
                Ok(Reply::OK)
            }
            Op::MSetNx(pairs) => {
                let are_free = pairs.0.iter().all(|(key, _)| !self.keys.contains_key(key));
                if are_free {
                    self.put_all(&pairs.0);
                }
                Ok(truth(are_free))
            }
            Op::MGet(keys) => {
                let texts = keys.0.iter().map(|key| bulk(self.string(*key).unwrap_or_default()));
                Ok(Reply::Array(texts.collect()))
            }
            Op::Expire { key, amount, unit, from, flags } => {
                self.expire(op, *key, (*amount, *unit, *from), *flags)
            }
            Op::Ttl(key, unit, from) => {
                let Some(entry) = self.keys.get(key) else { return Ok(Reply::Integer(-2)) };
                let Some(deadline_ms) = entry.deadline_ms else { return Ok(Reply::Integer(-1)) };
                let millis =
                    if *from == Start::Now { deadline_ms.saturating_sub(self.now_ms) } else { deadline_ms };
                // Rounded to the nearest second.
                let seconds = (i128::from(millis) + 500) / 1000;
                Ok(Reply::Integer(if *unit == Unit::Millis { millis } else { seconds as i64 }))
            }
            Op::Persist(key) => {
                let had_deadline = self.deadline(*key).is_some();
                self.set_deadline(*key, None);
                Ok(truth(had_deadline))
            }
            Op::Del(keys) => Ok(count(keys.0.iter().filter(|key| self.keys.remove(key).is_some()).count())),
            Op::Exists(keys) => Ok(count(keys.0.iter().filter(|key| self.keys.contains_key(key)).count())),
            Op::Rename { from, to, nx } => {
                let entry = self.keys.get(from).cloned().ok_or("ERR no such key")?;
                if *nx && self.keys.contains_key(to) {
                    return Ok(truth(false));
                }
                self.keys.remove(from);
                self.keys.insert(*to, entry);
                Ok(if *nx { truth(true) } else { Reply::OK })
            }
            Op::Copy { from, to, replace } => {
                if from == to {
                    return Err("ERR source and destination objects are the same".into());
                }
                let is_free = *replace || !self.keys.contains_key(to);
                match self.keys.get(from).cloned() {
                    Some(entry) if is_free => {
                        self.keys.insert(*to, entry);
                        Ok(truth(true))
                    }
                    _ => Ok(truth(false)),
                }
            }
            Op::Type(key) => Ok(Reply::status(match self.keys.get(key).map(|entry| &entry.value) {
                None => "none",
                Some(Value::String(_)) => "string",
                Some(Value::ZSet(_)) => "zset",
            })),
            Op::DbSize => Ok(count(self.keys.len())),
            Op::ZAdd { key, flags, ch, incr, pairs } => {
                if flags.nx && flags.xx {
                    return Err("ERR XX and NX options at the same time are not compatible".into());
                }
                if flags.nx && (flags.gt || flags.lt) || flags.gt && flags.lt {
                    return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
                }
                if *incr && pairs.0.len() > 1 {
                    return Err("ERR INCR option supports a single increment-element pair".into());
                }
                let pairs = pairs.0.iter().map(|(score, member)| Some((score.get()?, member.bytes())));
                let pairs: Vec<_> = pairs.collect::<Option<_>>().ok_or(NOT_A_FLOAT)?;
                let added = self.zset_mut(*key, |zset| zset.add(*flags, *incr, pairs))??;
                Ok(match (*incr, added.last) {
                    (true, score) => score.map_or(Reply::Nil, Reply::Double),
                    (false, _) => count(if *ch { added.new + added.changed } else { added.new }),
                })
            }
            Op::ZIncrBy(key, by, member) => {
                let pairs = vec![(by.get().ok_or(NOT_A_FLOAT)?, member.bytes())];
                let added = self.zset_mut(*key, |zset| zset.add(Flags::default(), true, pairs))??;
                Ok(added.last.map_or(Reply::Nil, Reply::Double))
            }
            Op::ZScore(key, member) => Ok(score(self.zset(*key)?.score(&member.bytes()))),
            Op::ZMScore(key, members) => {
                let zset = self.zset(*key)?;
                Ok(Reply::Array(members.0.iter().map(|member| score(zset.score(&member.bytes()))).collect()))
            }
            Op::ZRank { key, member, reverse } => {
                let rank = self.zset(*key)?.rank(&member.bytes(), *reverse);
                Ok(rank.map_or(Reply::Nil, count))
            }
            Op::ZCard(key) => Ok(count(self.zset(*key)?.len())),
            Op::ZCount(key, range) => {
                is_valid(*range)?;
                Ok(count(self.zset(*key)?.select(*range, false).len()))
            }
            Op::ZRem(key, members) => self.zset_mut(*key, |zset| {
                count(members.0.iter().filter(|member| zset.remove(&member.bytes())).count())
            }),
            Op::ZPop { key, max, count } => {
                let wanted = count.map_or(1, Number::get);
                let wanted =
                    usize::try_from(wanted).map_err(|_| "ERR value is out of range, must be positive")?;
                self.zset_mut(*key, |zset| {
                    let all = zset.select(Range::Rank(Number::Small(0), Number::Small(-1)), *max);
                    let popped: Vec<_> = all.into_iter().take(wanted).collect();
                    popped.iter().for_each(|(member, _)| _ = zset.remove(member));
                    members(popped, true)
                })
            }
            Op::ZRange { key, range, reverse, limit, with_scores } => {
                let is_limited = limit.is_some_and(|(_, count)| count.get() != -1);
                if is_limited && matches!(range, Range::Rank(..)) {
                    return Err("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX".into());
                }
                if *with_scores && matches!(range, Range::Lex(..)) {
                    return Err("ERR syntax error, WITHSCORES not supported in combination with BYLEX".into());
                }
                is_valid(*range)?;
                let mut selected = self.zset(*key)?.select(*range, *reverse);
                if let (Some((offset, count)), false) = (limit, matches!(range, Range::Rank(..))) {
                    let offset = usize::try_from(offset.get()).unwrap_or(usize::MAX);
                    let count = usize::try_from(count.get()).unwrap_or(usize::MAX);
                    selected = selected.into_iter().skip(offset).take(count).collect();
                }
                Ok(members(selected, *with_scores))
            }
            Op::ZRangeStore { to, key, range, reverse } => {
                is_valid(*range)?;
                let selected = self.zset(*key)?.select(*range, *reverse);
                Ok(self.store(*to, ZSet::of(selected)))
            }
            Op::ZRemRange(key, range) => {
                is_valid(*range)?;
                self.zset_mut(*key, |zset| {
                    let selected = zset.select(*range, false);
                    selected.iter().for_each(|(member, _)| _ = zset.remove(member));
                    count(selected.len())
                })
            }
            Op::Combine { how, to, inputs, weights, aggregate } => {
                let zsets = inputs.0.iter().map(|(key, _)| self.zset(*key)).collect::<Result<Vec<_>, _>>()?;
                let weigh = *weights && *how != Combination::Difference;
                let factors = inputs.0.iter().map(|(_, weight)| if weigh { weight.get() } else { Some(1.0) });
                let factors: Vec<f64> =
                    factors.collect::<Option<_>>().ok_or("ERR weight value is not a float")?;
                let combined = zset::combine(*how, zsets.into_iter().zip(factors).collect(), *aggregate);
                Ok(match to {
                    Some(key) => self.store(*key, combined),
                    None => members(combined.in_order(), true),
                })
            }
        }
    }

    fn expire(
        &mut self,
        op: &Op,
        key: Key,
        (amount, unit, from): (Number, Unit, Start),
        flags: Flags,
    ) -> Answer {
        if flags.nx && (flags.xx || flags.gt || flags.lt) {
            return Err("ERR NX and XX, GT or LT options at the same time are not compatible".into());
        }
        if flags.gt && flags.lt {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        let new = self.moment(amount, unit, from).ok_or_else(|| invalid_expire(op))?;
        let Some(entry) = self.keys.get(&key) else { return Ok(truth(false)) };
        let is_refused = match entry.deadline_ms {
            None => flags.xx || flags.gt,
            Some(old) => flags.nx || flags.gt && new <= old || flags.lt && new >= old,
        };
        if !is_refused {
            self.set_deadline(key, Some(new));
        }
        Ok(truth(!is_refused))
    }

    /// The time in milliseconds since the epoch; `None` if it does not fit.
    fn moment(&self, amount: Number, unit: Unit, from: Start) -> Option<i64> {
        let factor = if unit == Unit::Seconds { 1000 } else { 1 };
        let start_ms = if from == Start::Now { self.now_ms } else { 0 };
        i64::try_from(i128::from(amount.get()) * factor).ok()?.checked_add(start_ms)
    }

    fn positive(&self, op: &Op, amount: Number, unit: Unit, from: Start) -> Result<i64, String> {
        let moment = self.moment(amount, unit, from).filter(|_| amount.get() > 0);
        moment.ok_or_else(|| invalid_expire(op))
    }

    fn increment(&mut self, key: Key, by: Option<i64>) -> Answer {
        let by = by.ok_or("ERR decrement would overflow")?;
        let text = self.string(key)?.cloned().unwrap_or_else(|| b"0".into());
        let old = std::str::from_utf8(&text).ok().and_then(|text| text.parse::<i64>().ok());
        // Redis accepts a number only in the form in which Redis writes it.
        let old = old.filter(|old| old.to_string().as_bytes() == text).ok_or(NOT_AN_INTEGER)?;
        let new = old.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
        self.put_keeping(key, new.to_string().into());
        Ok(Reply::Integer(new))
    }

    fn string(&self, key: Key) -> Result<Option<&Vec<u8>>, String> {
        match self.keys.get(&key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(Value::ZSet(_)) => Err(WRONG_TYPE.into()),
        }
    }

    fn put(&mut self, key: Key, text: Vec<u8>, deadline_ms: Option<i64>) {
        self.keys.insert(key, Entry { value: Value::String(text), deadline_ms });
    }

    fn put_all(&mut self, pairs: &[(Key, Text)]) {
        pairs.iter().for_each(|(key, text)| self.put(*key, text.bytes(), None));
    }

    /// Stores a string and keeps the deadline. Returns the length of the string.
    fn put_keeping(&mut self, key: Key, text: Vec<u8>) -> usize {
        let len = text.len();
        self.put(key, text, self.deadline(key));
        len
    }

    fn deadline(&self, key: Key) -> Option<i64> {
        self.keys.get(&key)?.deadline_ms
    }

    /// Sets the deadline. If it has already passed, the key is deleted.
    fn set_deadline(&mut self, key: Key, deadline_ms: Option<i64>) {
        if deadline_ms.is_some_and(|deadline_ms| deadline_ms <= self.now_ms) {
            self.keys.remove(&key);
        } else if let Some(entry) = self.keys.get_mut(&key) {
            entry.deadline_ms = deadline_ms;
        }
    }

    fn zset(&self, key: Key) -> Result<ZSet, String> {
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

fn invalid_expire(op: &Op) -> String {
    format!("ERR invalid expire time in '{}' command", op.name().unwrap_or_default())
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

fn bulk(text: Option<&Vec<u8>>) -> Reply {
    text.map_or(Reply::Nil, |text| Reply::Bulk(text.clone().into()))
}

fn count(n: usize) -> Reply {
    Reply::Integer(n as i64)
}

fn truth(yes: bool) -> Reply {
    Reply::Integer(yes.into())
}

fn score(score: Option<f64>) -> Reply {
    score.map_or(Reply::Nil, Reply::Double)
}

fn members(members: Vec<(Vec<u8>, f64)>, with_scores: bool) -> Reply {
    let items = members.into_iter().flat_map(|(member, score)| {
        [Some(Reply::Bulk(member.into())), with_scores.then_some(Reply::Double(score))]
    });
    Reply::Array(items.flatten().collect())
}
