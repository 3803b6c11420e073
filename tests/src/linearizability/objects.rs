//! Objects that Redis code often is meant to be: registers, counters, queues, sets and maps. Their
//! calls and answers are JSON values, as `Client::operation` records them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use serde_json::Value;

use super::model::Model;

/// A call of an operation by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The object. Empty if the code has only one.
    pub object: &'static str,
    /// The operation.
    pub name: &'static str,
    /// One argument, or an array of several. Null if there is none.
    pub args: Value,
}

impl Call {
    /// The arguments as a list.
    pub fn args(&self) -> &[Value] {
        match &self.args {
            Value::Null => &[],
            Value::Array(args) => args,
            arg => std::slice::from_ref(arg),
        }
    }
}

/// `push("a")`, or `jobs.push("a")` if it names its object.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args: Vec<String> = self.args().iter().map(Value::to_string).collect();
        let dot = if self.object.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{}({})", self.object, self.name, args.join(", "))
    }
}

/// An object with operations by name: the simplest way to write a [`Model`].
///
/// ```
/// use harness::linearizability::{Call, Must, Object};
///
/// /// Hands out each number once: `next()`.
/// #[derive(Debug)]
/// struct Sequence;
///
/// impl Object for Sequence {
///     type State = u64;
///
///     fn initial(&self) -> u64 {
///         0
///     }
///
///     fn apply(&self, last: &mut u64, call: &Call) -> Option<Must> {
///         (call.name == "next").then(|| {
///             *last += 1;
///             Must::Answer((*last).into())
///         })
///     }
/// }
/// ```
pub trait Object {
    /// The state of the object.
    type State: Clone + Ord;

    /// The initial state.
    fn initial(&self) -> Self::State;

    /// Does what the call says, and returns what its answer must be. `None` if there is no such
    /// operation, or if it does not take these arguments.
    fn apply(&self, state: &mut Self::State, call: &Call) -> Option<Must>;
}

/// What the answer to a call must be.
#[derive(Clone, Debug, PartialEq)]
pub enum Must {
    /// This value. Redis keeps texts and says 1 for true: `1`, `"1"` and `true` are equal.
    Answer(Value),
    /// Anything.
    Any,
}

impl<O: Object> Model for O {
    type State = O::State;
    type Call = Call;
    type Answer = Value;

    fn knows(&self, call: &Call) -> bool {
        self.apply(&mut Object::initial(self), call).is_some()
    }

    fn initial(&self) -> O::State {
        Object::initial(self)
    }

    fn step(&self, state: &O::State, _: usize, call: &Call, answer: Option<&Value>) -> Option<O::State> {
        let mut after = state.clone();
        let is_right = match (self.apply(&mut after, call)?, answer) {
            (Must::Answer(right), Some(answer)) => datum(&right) == datum(answer),
            (Must::Any, _) | (_, None) => true,
        };
        is_right.then_some(after)
    }
}

/// A value as Redis keeps it. `None` is a missing value.
type Datum = Option<String>;

fn datum(value: &Value) -> Datum {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Bool(is_true) => Some(i64::from(*is_true).to_string()),
        other => Some(other.to_string()),
    }
}

/// A value that is read and written: `write(value)`, `read()`, and `cas(old, new)`, whose answer is
/// whether the value was `old`. A missing value is null.
#[derive(Clone, Debug, Default)]
pub struct Register {
    /// The value at the start.
    pub initial: Value,
}

impl Object for Register {
    type State = Datum;

    fn initial(&self) -> Datum {
        datum(&self.initial)
    }

    fn apply(&self, value: &mut Datum, call: &Call) -> Option<Must> {
        match (call.name, call.args()) {
            ("read", []) => Some(Must::Answer(value.clone().into())),
            ("write", [new]) => {
                *value = datum(new);
                Some(Must::Any)
            }
            ("cas", [old, new]) => {
                let is_old = *value == datum(old);
                if is_old {
                    *value = datum(new);
                }
                Some(Must::Answer(is_old.into()))
            }
            _ => None,
        }
    }
}

/// A number: `add(amount)`, whose answer is the number after it, and `read()`. Both are integers.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    /// The number at the start.
    pub initial: i64,
}

impl Object for Counter {
    type State = i64;

    fn initial(&self) -> i64 {
        self.initial
    }

    fn apply(&self, number: &mut i64, call: &Call) -> Option<Must> {
        match (call.name, call.args()) {
            ("read", []) => {}
            ("add", [amount]) => *number = number.checked_add(datum(amount)?.parse().ok()?)?,
            _ => return None,
        }
        Some(Must::Answer((*number).into()))
    }
}

/// A queue, first in, first out: `push(item)`, and `pop()`, whose answer is the oldest item, or
/// null if there is none.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// The items at the start, the oldest first.
    pub initial: Vec<Value>,
}

impl Object for Queue {
    type State = VecDeque<Datum>;

    fn initial(&self) -> VecDeque<Datum> {
        self.initial.iter().map(datum).collect()
    }

    fn apply(&self, items: &mut VecDeque<Datum>, call: &Call) -> Option<Must> {
        match (call.name, call.args()) {
            ("push", [item]) => {
                items.push_back(datum(item));
                Some(Must::Any)
            }
            ("pop", []) => Some(Must::Answer(items.pop_front().flatten().into())),
            _ => None,
        }
    }
}

/// A set: `add(item)`, whose answer is whether it was not there before, `remove(item)`, whose
/// answer is whether it was, and `contains(item)`.
#[derive(Clone, Debug, Default)]
pub struct Set {
    /// The items at the start.
    pub initial: Vec<Value>,
}

impl Object for Set {
    type State = BTreeSet<Datum>;

    fn initial(&self) -> BTreeSet<Datum> {
        self.initial.iter().map(datum).collect()
    }

    fn apply(&self, items: &mut BTreeSet<Datum>, call: &Call) -> Option<Must> {
        let is_so = match (call.name, call.args()) {
            ("add", [item]) => items.insert(datum(item)),
            ("remove", [item]) => items.remove(&datum(item)),
            ("contains", [item]) => items.contains(&datum(item)),
            _ => return None,
        };
        Some(Must::Answer(is_so.into()))
    }
}

/// A map: `put(key, value)`, `get(key)`, whose answer is the value, or null if there is none, and
/// `remove(key)`, whose answer is whether there was one.
#[derive(Clone, Debug, Default)]
pub struct Map {
    /// The keys at the start, with their values.
    pub initial: Vec<(Value, Value)>,
}

impl Object for Map {
    type State = BTreeMap<Datum, Datum>;

    fn initial(&self) -> BTreeMap<Datum, Datum> {
        self.initial.iter().map(|(key, value)| (datum(key), datum(value))).collect()
    }

    fn apply(&self, values: &mut BTreeMap<Datum, Datum>, call: &Call) -> Option<Must> {
        Some(match (call.name, call.args()) {
            ("put", [key, value]) => {
                values.insert(datum(key), datum(value));
                Must::Any
            }
            ("get", [key]) => Must::Answer(values.get(&datum(key)).cloned().flatten().into()),
            ("remove", [key]) => Must::Answer(values.remove(&datum(key)).is_some().into()),
            _ => return None,
        })
    }
}
