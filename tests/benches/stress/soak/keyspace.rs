//! The keys and values of one client, and the replies of Redis to the commands on them. It knows
//! nothing of transactions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use redis::Value;

use super::arguments::{index, integer, name, number, range, text_range};
use super::expect::{Expect, array, int, is, ok, optional};
use super::scripts;
use crate::client::{bulk, error};

#[derive(Clone, Debug, Default)]
pub(super) struct Keyspace {
    items: BTreeMap<Vec<u8>, Item>,
}

#[derive(Clone, Debug)]
struct Item {
    data: Data,
    has_ttl: bool,
}

#[derive(Clone, Debug)]
enum Data {
    Text(Vec<u8>),
    List(VecDeque<Vec<u8>>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Set(BTreeSet<Vec<u8>>),
    /// Scores are integers, so that they print without special rules.
    Sorted(BTreeMap<Vec<u8>, i64>),
}

/// The text of an error.
type Refusal = String;

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
const OVERFLOW: &str = "ERR increment or decrement would overflow";
/// The drawn times to live are far longer than a sequence of commands on one key.
const LEFT_MS_MIN: i64 = super::draw::TTL_MS / 2;

/// The data at `$key`, or `None`. If the key has another type, it returns an error from the
/// function.
macro_rules! at {
    ($keyspace:expr, $key:expr, $kind:ident) => {
        match $keyspace.items.get_mut($key).map(|item| &mut item.data) {
            None => None,
            Some(Data::$kind(data)) => Some(data),
            Some(_) => return Err(WRONG_TYPE.into()),
        }
    };
}

/// The data at `$key` as with `at`, created if it does not exist.
macro_rules! made {
    ($keyspace:expr, $key:expr, $kind:ident) => {{
        let new = || Item { data: Data::$kind(Default::default()), has_ttl: false };
        match &mut $keyspace.items.entry($key.clone()).or_insert_with(new).data {
            Data::$kind(data) => data,
            _ => return Err(WRONG_TYPE.into()),
        }
    }};
}

impl Keyspace {
    /// Runs a command and returns the correct reply.
    pub(super) fn run(&mut self, argv: &[Vec<u8>]) -> Expect {
        let expect = self.call(argv).unwrap_or_else(|refusal| is(error(&refusal)));
        self.items.retain(|_, item| match &item.data {
            Data::Text(_) => true,
            Data::List(list) => !list.is_empty(),
            Data::Hash(hash) => !hash.is_empty(),
            Data::Set(set) => !set.is_empty(),
            Data::Sorted(sorted) => !sorted.is_empty(),
        });
        expect
    }

    fn call(&mut self, argv: &[Vec<u8>]) -> Result<Expect, Refusal> {
        let args = &argv[1..];
        let key = args.first().cloned().unwrap_or_default();
        let key = &key;
        Ok(match name(argv) {
            "NOSUCH" => return Err("ERR unknown command 'NOSUCH', with args beginning with: ".into()),
            "DEL" => int(args.iter().filter(|key| self.items.remove(*key).is_some()).count()),
            "EXISTS" => int(args.iter().filter(|key| self.items.contains_key(*key)).count()),
            "TYPE" => is(Value::SimpleString(self.kind(key).into())),
            "PEXPIRE" => match self.items.get_mut(key) {
                Some(item) => {
                    item.has_ttl = true;
                    int(1)
                }
                None => int(0),
            },
            "PERSIST" => {
                let ttl = self.items.get_mut(key).map(|item| std::mem::take(&mut item.has_ttl));
                int(usize::from(ttl == Some(true)))
            }
            "PTTL" => match self.items.get(key) {
                None => is(Value::Int(-2)),
                Some(Item { has_ttl: false, .. }) => is(Value::Int(-1)),
                Some(_) => Expect::Between(LEFT_MS_MIN, super::draw::TTL_MS),
            },
            "RENAME" => match self.items.remove(key) {
                Some(item) => {
                    self.items.insert(args[1].clone(), item);
                    ok()
                }
                None => return Err("ERR no such key".into()),
            },
            "EVAL" | "EVALSHA" | "FCALL" => self.script(args)?,
            name if name.starts_with('H') => self.hash(name, key, args)?,
            name if name.starts_with('Z') => self.sorted(name, key, args)?,
            name if name.starts_with('L') || name.starts_with('R') => self.list(name, key, args)?,
            name @ ("SADD" | "SREM" | "SCARD" | "SISMEMBER" | "SMEMBERS" | "SMOVE" | "SINTER") => {
                self.set(name, key, args)?
            }
            name => self.text(name, key, args)?,
        })
    }

    fn kind(&self, key: &[u8]) -> &'static str {
        match self.items.get(key).map(|item| &item.data) {
            None => "none",
            Some(Data::Text(_)) => "string",
            Some(Data::List(_)) => "list",
            Some(Data::Hash(_)) => "hash",
            Some(Data::Set(_)) => "set",
            Some(Data::Sorted(_)) => "zset",
        }
    }

    fn text(&mut self, name: &str, key: &Vec<u8>, args: &[Vec<u8>]) -> Result<Expect, Refusal> {
        Ok(match name {
            "GET" => optional(at!(self, key, Text)),
            "SET" => {
                let option = args.get(2).map(Vec::as_slice).unwrap_or_default();
                let exists = self.items.contains_key(key);
                if (option == b"NX" && exists) || (option == b"XX" && !exists) {
                    return Ok(is(Value::Nil));
                }
                let reply = if option == b"GET" { optional(at!(self, key, Text)) } else { ok() };
                let data = Data::Text(args[1].clone());
                self.items.insert(key.clone(), Item { data, has_ttl: option == b"PX" });
                reply
            }
            "GETDEL" => {
                let reply = optional(at!(self, key, Text));
                self.items.remove(key);
                reply
            }
            "MSET" => {
                for [key, value] in args.as_chunks::<2>().0 {
                    self.items.insert(key.clone(), Item { data: Data::Text(value.clone()), has_ttl: false });
                }
                ok()
            }
            "MGET" => {
                let one = |key| match self.items.get(key).map(|item| &item.data) {
                    Some(Data::Text(text)) => bulk(text),
                    _ => Value::Nil,
                };
                is(Value::Array(args.iter().map(one).collect()))
            }
            "APPEND" => {
                let text = made!(self, key, Text);
                text.extend_from_slice(&args[1]);
                int(text.len())
            }
            "STRLEN" => int(at!(self, key, Text).map_or(0, |text| text.len())),
            "SETRANGE" => {
                let (offset, part) = (number(&args[1]) as usize, &args[2]);
                let text = made!(self, key, Text);
                text.resize(text.len().max(offset + part.len()), 0);
                text[offset..offset + part.len()].copy_from_slice(part);
                int(text.len())
            }
            "GETRANGE" => {
                let text = at!(self, key, Text).map(std::mem::take).unwrap_or_default();
                let part = text[text_range(text.len(), &args[1], &args[2])].to_vec();
                if let Some(own) = at!(self, key, Text) {
                    *own = text;
                }
                is(bulk(part))
            }
            "INCRBY" | "DECRBY" => {
                let old = match at!(self, key, Text) {
                    Some(text) => integer(text).ok_or(NOT_AN_INTEGER)?,
                    None => 0,
                };
                let by = number(&args[1]);
                let new = if name == "INCRBY" { old.checked_add(by) } else { old.checked_sub(by) };
                let new = new.ok_or(OVERFLOW)?;
                *made!(self, key, Text) = new.to_string().into_bytes();
                is(Value::Int(new))
            }
            _ => unreachable!("{name} is not drawn"),
        })
    }

    fn hash(&mut self, name: &str, key: &Vec<u8>, args: &[Vec<u8>]) -> Result<Expect, Refusal> {
        Ok(match name {
            "HSET" => {
                let hash = made!(self, key, Hash);
                let pairs = args[1..].as_chunks::<2>().0;
                int(pairs
                    .iter()
                    .filter(|[field, value]| hash.insert(field.clone(), value.clone()).is_none())
                    .count())
            }
            "HSETNX" => {
                let hash = made!(self, key, Hash);
                let is_new = !hash.contains_key(&args[1]);
                if is_new {
                    hash.insert(args[1].clone(), args[2].clone());
                }
                int(usize::from(is_new))
            }
            "HGET" => optional(at!(self, key, Hash).and_then(|hash| hash.get_mut(&args[1]))),
            "HMGET" => {
                let hash = at!(self, key, Hash);
                let one = |field| hash.as_ref().and_then(|hash| hash.get(field)).map_or(Value::Nil, bulk);
                is(Value::Array(args[1..].iter().map(one).collect()))
            }
            "HDEL" => {
                int(at!(self, key, Hash).map_or(0, |hash| usize::from(hash.remove(&args[1]).is_some())))
            }
            "HLEN" => int(at!(self, key, Hash).map_or(0, |hash| hash.len())),
            "HEXISTS" => {
                int(usize::from(at!(self, key, Hash).is_some_and(|hash| hash.contains_key(&args[1]))))
            }
            "HGETALL" => Expect::Fields(at!(self, key, Hash).cloned().unwrap_or_default()),
            "HINCRBY" => {
                let old = match at!(self, key, Hash).and_then(|hash| hash.get(&args[1])) {
                    Some(value) => integer(value).ok_or("ERR hash value is not an integer")?,
                    None => 0,
                };
                let new = old.checked_add(number(&args[2])).ok_or(OVERFLOW)?;
                made!(self, key, Hash).insert(args[1].clone(), new.to_string().into_bytes());
                is(Value::Int(new))
            }
            _ => unreachable!("{name} is not drawn"),
        })
    }

    fn list(&mut self, name: &str, key: &Vec<u8>, args: &[Vec<u8>]) -> Result<Expect, Refusal> {
        Ok(match name {
            "RPUSH" => {
                let list = made!(self, key, List);
                list.extend(args[1..].iter().cloned());
                int(list.len())
            }
            "LPUSH" => {
                let list = made!(self, key, List);
                args[1..].iter().for_each(|element| list.push_front(element.clone()));
                int(list.len())
            }
            "LPOP" => optional(at!(self, key, List).and_then(VecDeque::pop_front).as_mut()),
            "RPOP" => optional(at!(self, key, List).and_then(VecDeque::pop_back).as_mut()),
            "LLEN" => int(at!(self, key, List).map_or(0, |list| list.len())),
            "LRANGE" => {
                let list = at!(self, key, List).cloned().unwrap_or_default();
                let range = range(list.len(), &args[1], &args[2]);
                is(array(list.range(range).cloned().collect()))
            }
            "LTRIM" => {
                if let Some(list) = at!(self, key, List) {
                    let range = range(list.len(), &args[1], &args[2]);
                    *list = list.range(range).cloned().collect();
                }
                ok()
            }
            "LINDEX" => {
                let list = at!(self, key, List);
                optional(list.and_then(|list| {
                    let idx = index(list.len(), &args[1])?;
                    list.get_mut(idx)
                }))
            }
            "LSET" => {
                let list = at!(self, key, List).ok_or("ERR no such key")?;
                let idx = index(list.len(), &args[1]).ok_or("ERR index out of range")?;
                list[idx].clone_from(&args[2]);
                ok()
            }
            "LREM" => {
                let Some(list) = at!(self, key, List) else { return Ok(int(0)) };
                let before = list.len();
                list.retain(|element| *element != args[2]);
                int(before - list.len())
            }
            "LMOVE" => {
                if at!(self, key, List).is_none() {
                    return Ok(is(Value::Nil));
                }
                at!(self, &args[1], List);
                let element = at!(self, key, List).and_then(VecDeque::pop_front).ok_or("ERR no such key")?;
                made!(self, args[1], List).push_back(element.clone());
                is(bulk(element))
            }
            _ => unreachable!("{name} is not drawn"),
        })
    }

    fn set(&mut self, name: &str, key: &Vec<u8>, args: &[Vec<u8>]) -> Result<Expect, Refusal> {
        Ok(match name {
            "SADD" => {
                let set = made!(self, key, Set);
                int(args[1..].iter().filter(|member| set.insert((*member).clone())).count())
            }
            "SREM" => {
                let Some(set) = at!(self, key, Set) else { return Ok(int(0)) };
                int(args[1..].iter().filter(|member| set.remove(*member)).count())
            }
            "SCARD" => int(at!(self, key, Set).map_or(0, |set| set.len())),
            "SISMEMBER" => int(usize::from(at!(self, key, Set).is_some_and(|set| set.contains(&args[1])))),
            "SMEMBERS" => Expect::Members(
                at!(self, key, Set).map(|set| set.iter().cloned().collect()).unwrap_or_default(),
            ),
            "SMOVE" => {
                if at!(self, key, Set).is_none() {
                    return Ok(int(0));
                }
                at!(self, &args[1], Set);
                let is_member = at!(self, key, Set).is_some_and(|set| set.remove(&args[2]));
                if is_member {
                    made!(self, args[1], Set).insert(args[2].clone());
                }
                int(usize::from(is_member))
            }
            "SINTER" => {
                let mine = at!(self, key, Set).cloned().unwrap_or_default();
                let other = at!(self, &args[1], Set).cloned().unwrap_or_default();
                Expect::Members(mine.intersection(&other).cloned().collect())
            }
            _ => unreachable!("{name} is not drawn"),
        })
    }

    fn sorted(&mut self, name: &str, key: &Vec<u8>, args: &[Vec<u8>]) -> Result<Expect, Refusal> {
        Ok(match name {
            "ZADD" => {
                let sorted = made!(self, key, Sorted);
                let pairs = args[1..].as_chunks::<2>().0;
                let added = pairs
                    .iter()
                    .filter(|[score, member]| sorted.insert(member.clone(), number(score)).is_none());
                int(added.count())
            }
            "ZINCRBY" => {
                let score = made!(self, key, Sorted).entry(args[2].clone()).or_default();
                *score += number(&args[1]);
                is(bulk(score.to_string()))
            }
            "ZREM" => {
                int(at!(self, key, Sorted).map_or(0, |sorted| usize::from(sorted.remove(&args[1]).is_some())))
            }
            "ZCARD" => int(at!(self, key, Sorted).map_or(0, |sorted| sorted.len())),
            "ZSCORE" => {
                let score = at!(self, key, Sorted).and_then(|sorted| sorted.get(&args[1]));
                is(score.map_or(Value::Nil, |score| bulk(score.to_string())))
            }
            "ZRANK" => {
                let ranked = at!(self, key, Sorted).map(|sorted| ranked(sorted)).unwrap_or_default();
                ranked.iter().position(|(_, member)| *member == args[1]).map_or(is(Value::Nil), int)
            }
            "ZRANGE" => {
                let ranked = at!(self, key, Sorted).map(|sorted| ranked(sorted)).unwrap_or_default();
                is(array(with_scores(&ranked[range(ranked.len(), &args[1], &args[2])])))
            }
            "ZCOUNT" => {
                let within = number(&args[1])..=number(&args[2]);
                int(at!(self, key, Sorted)
                    .map_or(0, |sorted| sorted.values().filter(|score| within.contains(score)).count()))
            }
            "ZPOPMIN" => {
                let Some(sorted) = at!(self, key, Sorted) else { return Ok(is(array(Vec::new()))) };
                let first = &ranked(sorted)[..1];
                sorted.remove(&first[0].1);
                is(array(with_scores(first)))
            }
            _ => unreachable!("{name} is not drawn"),
        })
    }

    /// `args` are the script, its number of keys, the keys and the rest.
    fn script(&mut self, args: &[Vec<u8>]) -> Result<Expect, Refusal> {
        let is_script = |script: &scripts::Script| {
            [script.source.as_bytes(), script.sha1().as_bytes(), script.function.as_bytes()]
                .contains(&&args[0][..])
        };
        let key = &args[2];
        Ok(if is_script(&scripts::COMPARE_AND_DELETE) {
            let is_equal = at!(self, key, Text).is_some_and(|text| *text == args[3]);
            if is_equal {
                self.items.remove(key);
            }
            int(usize::from(is_equal))
        } else if is_script(&scripts::INCREMENT_BOTH) {
            // The other key is shared by all clients, so the model has no value for it.
            self.call(&[b"INCRBY".to_vec(), key.clone(), b"1".to_vec()])?
        } else if is_script(&scripts::DUMP) {
            self.dump(&args[2..])
        } else {
            unreachable!("this script is not drawn")
        })
    }

    /// The number at this key.
    pub(super) fn number(&self, key: &[u8]) -> i64 {
        match self.items.get(key).map(|item| &item.data) {
            Some(Data::Text(text)) => integer(text).unwrap_or_default(),
            _ => 0,
        }
    }

    /// The result of the script `DUMP` for these keys.
    pub(super) fn dump(&self, keys: &[Vec<u8>]) -> Expect {
        let one = |key: &Vec<u8>| {
            let (kind, content) = match self.items.get(key).map(|item| &item.data) {
                None => ("none", Vec::new()),
                Some(Data::Text(text)) => ("string", vec![text.clone()]),
                Some(Data::List(list)) => ("list", list.iter().cloned().collect()),
                Some(Data::Set(set)) => ("set", set.iter().cloned().collect()),
                Some(Data::Hash(hash)) => {
                    ("hash", hash.iter().flat_map(|(field, value)| [field.clone(), value.clone()]).collect())
                }
                Some(Data::Sorted(sorted)) => ("zset", with_scores(&ranked(sorted))),
            };
            let has_ttl = self.items.get(key).is_some_and(|item| item.has_ttl);
            Value::Array(vec![bulk(kind), array(content), Value::Int(has_ttl.into())])
        };
        is(Value::Array(keys.iter().map(one).collect()))
    }
}

/// Members by score. If scores are equal, they are ordered by name.
fn ranked(sorted: &BTreeMap<Vec<u8>, i64>) -> Vec<(i64, Vec<u8>)> {
    let mut ranked: Vec<_> = sorted.iter().map(|(member, score)| (*score, member.clone())).collect();
    ranked.sort();
    ranked
}

fn with_scores(ranked: &[(i64, Vec<u8>)]) -> Vec<Vec<u8>> {
    ranked.iter().flat_map(|(score, member)| [member.clone(), score.to_string().into_bytes()]).collect()
}
