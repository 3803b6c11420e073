//! The reply of a command, before it is encoded.
//!
//! Commands return a [`Reply`], and only `resp` encodes it as RESP2 or RESP3. So a reply is the
//! same value for a socket, a script and a direct connection.

use std::iter::Peekable;
use std::vec::IntoIter;

use bytes::Bytes;

use crate::error::Error;

/// The protocol version of a client: RESP2 until it calls `HELLO 3`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2
    #[default]
    Resp2,
    /// RESP3
    Resp3,
}

impl Protocol {
    /// The version number, 2 or 3.
    pub fn version(self) -> i64 {
        if self == Protocol::Resp3 { 3 } else { 2 }
    }
}

/// A reply, with RESP3's types. RESP2 clients get the nearest older type: see
/// [`crate::resp::encode`].
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// `+OK`
    Status(Bytes),
    /// `-ERR …`
    Error(Error),
    /// `:1`
    Integer(i64),
    /// `$3 foo`
    Bulk(Bytes),
    /// The null bulk string: `$-1`, in RESP3 `_`.
    Nil,
    /// The null array: `*-1`, in RESP3 `_`.
    NilArray,
    /// `*2 …`
    Array(Vec<Reply>),
    /// `%1 …`, in RESP2 a flat array.
    Map(Vec<(Reply, Reply)>),
    /// `~1 …`, in RESP2 an array.
    Set(Vec<Reply>),
    /// `#t`, in RESP2 an integer.
    Boolean(bool),
    /// `,1.5`, in RESP2 a bulk string.
    Double(f64),
    /// `(12345678901234567890`, in RESP2 a bulk string.
    BigNumber(Bytes),
    /// `=8 txt:text`: a text with its format in three letters; in RESP2 a bulk string.
    Verbatim([u8; 3], Bytes),
    /// `>3 …`: a message that is not a reply; in RESP2 an array.
    Push(Vec<Reply>),
    /// Several replies to one command, or none. `SUBSCRIBE` returns one for each channel,
    /// `CLIENT REPLY OFF` returns none.
    Several(Vec<Reply>),
    /// A reply inside a transaction that later changed the protocol, or whether replies are wanted.
    /// It keeps the protocol of the moment when it was made.
    Settled(Protocol, Box<Reply>),
}

impl Reply {
    /// `+OK`
    pub const OK: Reply = Reply::status("OK");

    /// No reply: the client waits for one, or does not want it.
    pub const NOTHING: Reply = Reply::Several(Vec::new());

    /// Returns what a client gets that wants no replies: only the messages.
    pub fn only_pushes(self) -> Reply {
        match self {
            Reply::Push(_) | Reply::Settled(..) => self,
            Reply::Several(all) | Reply::Array(all) => {
                let pushes = all.into_iter().map(Reply::only_pushes);
                Reply::Several(pushes.filter(|push| *push != Reply::NOTHING).collect())
            }
            _ => Reply::NOTHING,
        }
    }

    /// Inserts messages into the reply, each in front of the part with its number.
    ///
    /// An array is a part itself, and its items are the next parts. Messages that come after the
    /// reply are left in `messages`.
    pub(crate) fn interspersed(self, messages: &mut Peekable<IntoIter<(usize, Reply)>>) -> Reply {
        self.interspersed_from(&mut 0, messages)
    }

    fn interspersed_from(
        self,
        parts: &mut usize,
        messages: &mut Peekable<IntoIter<(usize, Reply)>>,
    ) -> Reply {
        let before = std::iter::from_fn(|| messages.next_if(|(place, _)| *place <= *parts));
        let mut all: Vec<Reply> = before.map(|(_, message)| message).collect();
        *parts += 1;
        let reply = match self {
            Reply::Array(items) => {
                let items = items.into_iter().map(|item| item.interspersed_from(parts, messages));
                Reply::Array(items.collect())
            }
            other => other,
        };
        if all.is_empty() {
            return reply;
        }
        all.push(reply);
        Reply::Several(all)
    }

    /// Splits the reply from the messages that came with it or stand inside it.
    ///
    /// If there are only messages, the first one is the reply.
    pub(crate) fn split_messages(self) -> (Reply, Vec<Reply>) {
        let mut messages = Vec::new();
        (self.without_messages(&mut messages), messages)
    }

    fn without_messages(self, messages: &mut Vec<Reply>) -> Reply {
        match self {
            Reply::Several(all) => {
                let idx = all.iter().position(|reply| !matches!(reply, Reply::Push(_))).unwrap_or(0);
                let mut answer = Reply::NOTHING;
                for (nth, reply) in all.into_iter().enumerate() {
                    if nth == idx {
                        answer = reply.without_messages(messages);
                    } else {
                        messages.push(reply);
                    }
                }
                answer
            }
            Reply::Array(items) => {
                Reply::Array(items.into_iter().map(|item| item.without_messages(messages)).collect())
            }
            Reply::Settled(protocol, reply) => {
                Reply::Settled(protocol, Box::new(reply.without_messages(messages)))
            }
            other => other,
        }
    }

    /// A status with a static text.
    pub const fn status(text: &'static str) -> Reply {
        Reply::Status(Bytes::from_static(text.as_bytes()))
    }

    /// A bulk string with a copy of these bytes.
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Reply {
        Reply::Bulk(Bytes::copy_from_slice(bytes.as_ref()))
    }

    /// A bulk string, or nil.
    pub fn bulk_or_nil(bytes: Option<Bytes>) -> Reply {
        bytes.map_or(Reply::Nil, Reply::Bulk)
    }

    /// The integer 1 or 0, as Redis returns a truth value.
    pub fn truth(yes: bool) -> Reply {
        Reply::Integer(i64::from(yes))
    }

    /// About how many bytes of memory it takes.
    pub fn size(&self) -> usize {
        size_of::<Reply>()
            + match self {
                Reply::Status(text)
                | Reply::Bulk(text)
                | Reply::BigNumber(text)
                | Reply::Verbatim(_, text) => text.len(),
                Reply::Array(items) | Reply::Set(items) | Reply::Push(items) | Reply::Several(items) => {
                    items.iter().map(Reply::size).sum()
                }
                Reply::Map(pairs) => pairs.iter().map(|(key, value)| key.size() + value.size()).sum(),
                Reply::Error(error) => error.as_bytes().len(),
                Reply::Settled(_, reply) => reply.size(),
                Reply::Integer(_) | Reply::Nil | Reply::NilArray | Reply::Boolean(_) | Reply::Double(_) => 0,
            }
    }

    /// The integer of a length or a count.
    pub fn count(n: usize) -> Reply {
        Reply::Integer(n as i64)
    }
}

impl From<Result<Reply, Error>> for Reply {
    fn from(result: Result<Reply, Error>) -> Reply {
        result.unwrap_or_else(Reply::Error)
    }
}

/// Formats a float as Redis 7.0 does outside of RESP3: C's `%.17g`.
pub fn format_double(value: f64) -> String {
    const INTEGERS_MAX: f64 = 1e15;
    let is_integer =
        value.trunc() == value && value.abs() < INTEGERS_MAX && value.to_bits() != (-0.0_f64).to_bits();
    if is_integer { (value as i64).to_string() } else { format_significant(value, 17) }
}

/// Formats a float with at most this many significant digits: C's `%.*g`.
pub fn format_significant(value: f64, n_digits: usize) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan" } else { "nan" }.into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    // `{:e}` gives correctly rounded digits, and the exponent that decides between the two styles
    // of `%g`.
    let scientific = format!("{:.*e}", n_digits - 1, value);
    let (mantissa, exponent) = scientific.split_once('e').expect("{:e} prints an exponent");
    let exponent: i32 = exponent.parse().expect("{:e} prints a decimal exponent");
    let last = n_digits as i32 - 1;
    if (-4..=last).contains(&exponent) {
        let fixed = format!("{:.*}", (last - exponent) as usize, value);
        trim_fraction(&fixed).to_owned()
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trim_fraction(mantissa), exponent.abs())
    }
}

fn trim_fraction(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// A reply of pairs: a flat array in RESP2, an array of arrays in RESP3.
pub(crate) fn pairs(protocol: Protocol, pairs: impl Iterator<Item = (Reply, Reply)>) -> Reply {
    Reply::Array(match protocol {
        Protocol::Resp2 => pairs.flat_map(<[Reply; 2]>::from).collect(),
        Protocol::Resp3 => pairs.map(|(first, second)| Reply::Array(vec![first, second])).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::format_double;

    #[test]
    fn doubles_print_as_percent_17g() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (3.5, "3.5"),
            (0.1, "0.10000000000000001"),
            (1e17, "1e+17"),
            (1e16, "10000000000000000"),
            (123_456_789_012_345_678.0, "1.2345678901234568e+17"),
            (1.5e-5, "1.5e-05"),
            (1.1e-7, "1.1000000000000001e-07"),
            (0.0001, "0.0001"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(format_double(value), text);
        }
    }
}
