//! The values that a key can hold.

use std::fmt;

use super::{Hash, Limits, List, Member, Set, Text, ZSet};
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
/// not for programs.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::String(text) => write!(f, "\"{}\"", text.escape_ascii()),
            Value::List(items) => write!(f, "[{}]", join(items.iter())),
            Value::Set(members) => write!(f, "{{{}}}", join(members.iter().map(Member::to_bytes))),
            Value::Hash(hash) => {
                let fields = hash.iter().map(|(k, v)| format!("{}: {}", k.escape_ascii(), v.escape_ascii()));
                write!(f, "{{{}}}", fields.collect::<Vec<_>>().join(", "))
            }
            Value::ZSet(zset) => {
                let members = zset.range(0..zset.len());
                let members = members.map(|(m, s)| format!("{} {}", m.escape_ascii(), format_double(s)));
                write!(f, "[{}]", members.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

fn join<T: AsRef<[u8]>>(items: impl Iterator<Item = T>) -> String {
    items.map(|item| item.as_ref().escape_ascii().to_string()).collect::<Vec<_>>().join(", ")
}
