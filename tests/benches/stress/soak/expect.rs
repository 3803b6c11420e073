//! The correct replies to a command.

use std::collections::BTreeMap;

use redis::Value;

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
