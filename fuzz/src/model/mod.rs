//! A model in plain Rust of strings, sorted sets and times to live, as the documentation of Redis
//! 7.0 describes them. It shares only the reply types with the emulator.

pub mod arguments;
pub mod op;
mod zset;
mod keys;
mod strings;
mod sorted_sets;

use std::collections::BTreeMap;

use emulator::{Error, Reply};

use arguments::{Key, Range};
use op::Op;
use zset::ZSet;

/// The most bytes of a string. SETRANGE refuses to go beyond it.
const STRING_BYTES_MAX: i64 = 512 << 20;
/// The longest string that the model asks for, unless Redis refuses the command.
const STRING_BYTES_WANTED: i64 = 1 << 10;

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

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
                self.set(op, *key, text, *must_exist, *get, *expiry)
            }
            Op::SetNx(key, text) => self.set_nx(*key, text),
            Op::SetEx(key, amount, unit, text) => self.set_ex(op, *key, *amount, *unit, text),
            Op::Get(key) => Ok(bulk(self.string(*key)?)),
            Op::GetSet(key, text) => self.get_set(*key, text),
            Op::GetEx(key, expiry) => self.get_ex(op, *key, *expiry),
            Op::GetDel(key) => self.get_del(*key),
            Op::StrLen(key) => Ok(count(self.string(*key)?.map_or(0, Vec::len))),
            Op::GetRange(key, start, end) => self.get_range(*key, *start, *end),
            Op::SetRange(key, offset, text) => self.set_range(*key, *offset, text),
            Op::Append(key, text) => self.append(*key, text),
            Op::Incr(key) => self.increment(*key, Some(1)),
            Op::Decr(key) => self.increment(*key, Some(-1)),
            Op::IncrBy(key, by) => self.increment(*key, Some(by.get())),
            Op::DecrBy(key, by) => self.increment(*key, by.get().checked_neg()),
            Op::MSet(pairs) => Ok(self.m_set(&pairs.0)),
            Op::MSetNx(pairs) => Ok(self.m_set_nx(&pairs.0)),
            Op::MGet(keys) => Ok(self.m_get(&keys.0)),
            Op::Expire { key, amount, unit, from, flags } => {
                self.expire(op, *key, (*amount, *unit, *from), *flags)
            }
            Op::Ttl(key, unit, from) => Ok(self.ttl(*key, *unit, *from)),
            Op::Persist(key) => Ok(self.persist(*key)),
            Op::Del(keys) => Ok(count(keys.0.iter().filter(|key| self.keys.remove(key).is_some()).count())),
            Op::Exists(keys) => Ok(count(keys.0.iter().filter(|key| self.keys.contains_key(key)).count())),
            Op::Rename { from, to, nx } => self.rename(*from, *to, *nx),
            Op::Copy { from, to, replace } => self.copy(*from, *to, *replace),
            Op::Type(key) => Ok(self.kind(*key)),
            Op::DbSize => Ok(count(self.keys.len())),
            Op::ZAdd { key, flags, ch, incr, pairs } => self.z_add(*key, *flags, *ch, *incr, &pairs.0),
            Op::ZIncrBy(key, by, member) => self.z_incr_by(*key, *by, *member),
            Op::ZScore(key, member) => Ok(score(self.zset(*key)?.score(&member.bytes()))),
            Op::ZMScore(key, members) => self.z_m_score(*key, &members.0),
            Op::ZRank { key, member, reverse } => self.z_rank(*key, *member, *reverse),
            Op::ZCard(key) => Ok(count(self.zset(*key)?.len())),
            Op::ZCount(key, range) => self.z_count(*key, *range),
            Op::ZRem(key, members) => self.z_rem(*key, &members.0),
            Op::ZPop { key, max, count } => self.z_pop(*key, *max, *count),
            Op::ZRange { key, range, reverse, limit, with_scores } => {
                self.z_range(*key, *range, *reverse, *limit, *with_scores)
            }
            Op::ZRangeStore { to, key, range, reverse } => self.z_range_store(*to, *key, *range, *reverse),
            Op::ZRemRange(key, range) => self.z_rem_range(*key, *range),
            Op::Combine { how, to, inputs, weights, aggregate } => {
                self.combine(*how, *to, &inputs.0, *weights, *aggregate)
            }
        }
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
