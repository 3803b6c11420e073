//! The values that a key can hold.

use std::fmt;

use super::encoding::{Encoding, Limits};
use super::hash::Hash;
use super::list::List;
use super::set::Set;
use super::text::{Escaped, Text};
use super::zset::ZSet;
use crate::reply::format_double;

/// A value of any type. Most values are strings, so a `Value` is as small as a string.
#[derive(Clone, Debug, Hash)]
pub enum Value {
    /// A string.
    String(Text),
    /// A list.
    List(Box<List>),
    /// A set.
    Set(Box<Set>),
    /// A hash.
    Hash(Box<Hash>),
    /// A sorted set.
    ZSet(Box<ZSet>),
}

impl Value {
    /// The name of the type, as `TYPE` replies it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::String(_) => "string",
            Value::List(_) => "list",
            Value::Set(_) => "set",
            Value::Hash(_) => "hash",
            Value::ZSet(_) => "zset",
        }
    }
}

/// A Rust type that holds one type of value.
pub trait ValueType: Default + Into<Value> {
    /// The value, if it is of this type.
    fn of(value: &Value) -> Option<&Self>;
    /// The value, if it is of this type.
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    /// Whether a key with this value must be removed: empty collections are removed, strings never
    /// are.
    fn is_empty(&self) -> bool;
    /// Sets the limits that apply from now on.
    fn limit(&mut self, limits: &Limits);
}

macro_rules! kind {
    ($type:ty, $variant:ident, $keep:expr, $is_empty:expr, $limit:expr) => {
        impl From<$type> for Value {
            fn from(inner: $type) -> Value {
                Value::$variant($keep(inner))
            }
        }

        impl ValueType for $type {
            fn of(value: &Value) -> Option<&Self> {
                if let Value::$variant(inner) = value { Some(inner) } else { None }
            }
            fn of_mut(value: &mut Value) -> Option<&mut Self> {
                if let Value::$variant(inner) = value { Some(inner) } else { None }
            }
            fn is_empty(&self) -> bool {
                let is_empty: fn(&$type) -> bool = $is_empty;
                is_empty(self)
            }
            fn limit(&mut self, limits: &Limits) {
                let limit: fn(&mut $type, &Limits) = $limit;
                limit(self, limits);
            }
        }
    };
}

kind!(Text, String, std::convert::identity, |_| false, |_, _| {});
kind!(List, List, Box::new, List::is_empty, |_, _| {});
kind!(Set, Set, Box::new, |set| set.is_empty(), Set::limit);
kind!(Hash, Hash, Box::new, |hash| hash.is_empty(), Hash::limit);
kind!(ZSet, ZSet, Box::new, |zset| zset.len() == 0, ZSet::limit);

/// `"text"`, `[item, item]`, `{member, member}`, `{field: value}`, `[member score]`: for people,
/// not for programs. A precision limits the bytes of each string, as with [`Escaped`].
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::String(text) => {
                f.write_str("\"")?;
                Escaped(text).fmt(f)?;
                f.write_str("\"")
            }
            Value::List(items) => list(f, "[]", items.iter(), |f, item| Escaped(item).fmt(f)),
            Value::Set(members) => {
                list(f, "{}", members.iter(), |f, member| Escaped(&member.to_bytes()).fmt(f))
            }
            Value::Hash(hash) => list(f, "{}", hash.iter(), |f, (field, value)| {
                Escaped(field).fmt(f)?;
                f.write_str(": ")?;
                Escaped(value).fmt(f)
            }),
            Value::ZSet(zset) => list(f, "[]", zset.range(0..zset.len()), |f, (member, score)| {
                Escaped(member).fmt(f)?;
                write!(f, " {}", format_double(score))
            }),
        }
    }
}

/// Writes items between brackets, with commas.
fn list<T>(
    f: &mut fmt::Formatter<'_>,
    brackets: &str,
    items: impl Iterator<Item = T>,
    write: impl Fn(&mut fmt::Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    let (open, close) = brackets.split_at(1);
    f.write_str(open)?;
    for (nth, item) in items.enumerate() {
        f.write_str(if nth == 0 { "" } else { ", " })?;
        write(f, item)?;
    }
    f.write_str(close)
}

impl Encoding {
    /// The encoding of a value that was just created.
    pub fn of(value: &Value) -> Encoding {
        match value {
            Value::String(text) if is_integer(text) => Encoding::Int,
            Value::String(text) => Encoding::of_text(text),
            Value::List(_) => Encoding::QuickList,
            Value::Set(set) => set.encoding(),
            Value::Hash(hash) => hash.encoding(),
            Value::ZSet(zset) => zset.encoding(),
        }
    }

    /// Whether a value is one of the integers that every Redis server creates when it starts.
    pub(super) fn is_shared(value: &Value) -> bool {
        let Value::String(digits) = value else { return false };
        crate::parse::parse_integer(digits).is_some_and(|integer| (0..SHARED_INTEGERS).contains(&integer))
    }

    /// The encoding that no longer follows from the value after an edit: a string stays raw.
    /// Collections store their own encoding.
    pub(super) fn after_edit(value: &Value) -> Option<Encoding> {
        matches!(value, Value::String(_)).then_some(Encoding::Raw)
    }
}

fn is_integer(text: &[u8]) -> bool {
    text.len() <= INTEGER_BYTES_MAX && crate::parse::parse_integer(text).is_some()
}

/// Redis shares the integers from 0 up to, but not including, this one.
const SHARED_INTEGERS: i64 = 10_000;
/// The longest string that can be an integer, in bytes.
const INTEGER_BYTES_MAX: usize = 20;
