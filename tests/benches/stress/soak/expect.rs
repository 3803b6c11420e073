//! The correct replies to a command.

use std::collections::BTreeMap;

use redis::Value;

use crate::client::bulk;

#[derive(Clone, Debug)]
pub(super) enum Expect {
    Is(Value),
    /// These elements, in any order.
    Members(Vec<Vec<u8>>),
    /// These fields, each followed by its value, in any order of fields.
    Fields(BTreeMap<Vec<u8>, Vec<u8>>),
    Between(i64, i64),
    /// One reply for each command of a transaction.
    Each(Vec<Expect>),
}

impl Expect {
    pub(super) fn allows(&self, reply: &Value) -> bool {
        match (self, reply) {
            (Expect::Is(expected), reply) => expected == reply,
            (Expect::Between(min, max), Value::Int(number)) => (min..=max).contains(&number),
            (Expect::Members(expected), Value::Array(items)) => {
                let mut items: Vec<_> = items.iter().map(bytes).collect();
                items.sort();
                items == expected.iter().map(|member| Some(&member[..])).collect::<Vec<_>>()
            }
            (Expect::Fields(expected), Value::Array(items)) => {
                let (pairs, rest) = items.as_chunks::<2>();
                rest.is_empty()
                    && pairs.len() == expected.len()
                    && pairs.iter().all(|[field, value]| {
                        bytes(field).and_then(|field| expected.get(field)).map(|value| &value[..])
                            == bytes(value)
                    })
            }
            (Expect::Each(expected), Value::Array(items)) => {
                expected.len() == items.len()
                    && expected.iter().zip(items).all(|(expected, item)| expected.allows(item))
            }
            _ => false,
        }
    }
}

fn bytes(reply: &Value) -> Option<&[u8]> {
    if let Value::BulkString(bytes) = reply { Some(bytes) } else { None }
}

pub(super) fn is(reply: Value) -> Expect {
    Expect::Is(reply)
}

pub(super) fn ok() -> Expect {
    is(Value::Okay)
}

pub(super) fn int(number: usize) -> Expect {
    is(Value::Int(number as i64))
}

pub(super) fn optional(bytes: Option<&mut Vec<u8>>) -> Expect {
    is(bytes.map_or(Value::Nil, bulk))
}

pub(super) fn array(items: Vec<Vec<u8>>) -> Value {
    Value::Array(items.into_iter().map(Value::BulkString).collect())
}
