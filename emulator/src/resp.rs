//! The Redis serialization protocol. It decodes requests (arrays of bulk strings, and inline
//! commands) and encodes replies (RESP2 and RESP3).
//!
//! It knows no command. <https://redis.io/docs/latest/develop/reference/protocol-spec/>

use bytes::{Buf as _, Bytes, BytesMut};
use smallvec::SmallVec;

use crate::error::{self, Error};
pub use crate::reply::Protocol;
use crate::reply::{Reply, format_double};
use crate::{is_space, trim_start};

/// The bytes of an inline command or a header that may be kept until its end arrives (Redis:
/// `PROTO_INLINE_MAX_SIZE`).
const LINE_BYTES_MAX: usize = 64 * 1024;
/// The digits of the longest number in the header of a plain request. A bulk string of such a
/// length is within the [`Limits`] of every authenticated client.
const PLAIN_DIGITS_MAX: usize = 6;
/// The largest number of arguments in one command (Redis: `INT_MAX`). Memory grows with the
/// arguments received, not with the number claimed.
const ARGS_MAX: i64 = i32::MAX as i64;

/// The limits on what a client may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest bulk string, in bytes: `proto-max-bulk-len`, at least 1048576.
    pub bulk_bytes_max: usize,
    /// Whether the client has given the password. Before that, stricter limits hold.
    pub is_authenticated: bool,
}

impl Limits {
    /// The largest number of arguments before authentication.
    const STRANGER_ARGS_MAX: i64 = 10;
    /// The longest bulk string before authentication, in bytes.
    const STRANGER_BULK_BYTES_MAX: usize = 16 * 1024;
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { bulk_bytes_max: 512 * 1024 * 1024, is_authenticated: true }
    }
}

/// Parses the request at the front of `input`, if it is complete and plain: an array of bulk
/// strings, as clients send it. Returns its arguments and its length in bytes.
///
/// For everything else it returns `None`: a [`Decoder`] handles errors and the other forms.
pub fn plain_request(input: &[u8]) -> Option<(SmallVec<[&[u8]; 8]>, usize)> {
    let (count, mut end) = plain_header(input, 0, b'*')?;
    let mut argv = SmallVec::new();
    for _ in 0..count {
        let (len, start) = plain_header(input, end, b'$')?;
        argv.push(input.get(start..start + len)?);
        end = start + len + 2;
    }
    if argv.is_empty() || end > input.len() { None } else { Some((argv, end)) }
}

/// Returns the number in the header that begins at `start`, and the end of the header.
fn plain_header(input: &[u8], start: usize, marker: u8) -> Option<(usize, usize)> {
    let (&own_marker, digits) = input.get(start..)?.split_first()?;
    let len = digits.iter().take(PLAIN_DIGITS_MAX + 1).position(|&byte| byte == b'\r')?;
    let is_canonical = own_marker == marker
        && digits.get(len + 1) == Some(&b'\n')
        && match &digits[..len] {
            [b'0'] => true,
            [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
            _ => false,
        };
    let number =
        digits[..len].iter().fold(0, |number, &digit| number * 10 + usize::from(digit.wrapping_sub(b'0')));
    is_canonical.then_some((number, start + len + 3))
}

/// Decodes requests from a byte stream that may be cut anywhere.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The limits on requests.
    pub limits: Limits,
    /// The number of arguments still to come of the current array, and those read so far.
    missing: usize,
    argv: Vec<Bytes>,
    /// The length of the bulk string whose header has been read.
    bulk_len: Option<usize>,
    line: Line,
}

/// A line whose end has not arrived yet.
#[derive(Debug, Default)]
struct Line {
    /// How many of its bytes have been searched for its end. They are not searched again when more
    /// arrive.
    searched: usize,
    /// How many bytes have been searched in all.
    work: u64,
}

impl Decoder {
    /// Whether it stands at the beginning of a request.
    pub fn is_idle(&self) -> bool {
        self.missing == 0 && self.line.searched == 0
    }

    /// How many bytes it has searched for the ends of lines. If each byte is searched once, the
    /// time is linear.
    #[doc(hidden)]
    pub fn work(&self) -> u64 {
        self.line.work
    }

    /// Returns the next complete request in `input`, or `None` until more bytes arrive. An empty
    /// request (`*0`, a blank line) has no reply.
    ///
    /// # Errors
    /// A protocol error, after which Redis closes the connection.
    pub fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Vec<Bytes>>, Error> {
        loop {
            if self.missing == 0 {
                match input.first() {
                    None => return Ok(None),
                    Some(b'*') => {
                        let Some(line) = self.line.take_header(input, &error::PROTOCOL_MULTIBULK_TOO_BIG)?
                        else {
                            return Ok(None);
                        };
                        let count = parse_length(&line[1..])
                            .filter(|&n| n <= ARGS_MAX)
                            .ok_or(error::PROTOCOL_MULTIBULK_LENGTH)?;
                        if !self.limits.is_authenticated && count > Limits::STRANGER_ARGS_MAX {
                            return Err(error::PROTOCOL_MULTIBULK_UNAUTHENTICATED);
                        }
                        if count <= 0 {
                            return Ok(Some(Vec::new()));
                        }
                        self.missing = count as usize;
                        self.argv = Vec::with_capacity(self.missing.min(64));
                    }
                    Some(_) => {
                        let Some(line) = self.line.take_line(input, &error::PROTOCOL_INLINE_TOO_BIG)? else {
                            return Ok(None);
                        };
                        return split_words(&line).ok_or(error::PROTOCOL_QUOTES).map(Some);
                    }
                }
                continue;
            }
            let len = match self.bulk_len {
                Some(len) => len,
                None => {
                    let Some(&marker) = input.first() else { return Ok(None) };
                    let Some(line) = self.line.take_header(input, &error::PROTOCOL_BULK_TOO_BIG)? else {
                        return Ok(None);
                    };
                    if marker != b'$' {
                        return Err(error::expected_dollar(marker));
                    }
                    let len = parse_length(&line[1..])
                        .and_then(|len| usize::try_from(len).ok())
                        .filter(|&len| len <= self.limits.bulk_bytes_max)
                        .ok_or(error::PROTOCOL_BULK_LENGTH)?;
                    if !self.limits.is_authenticated && len > Limits::STRANGER_BULK_BYTES_MAX {
                        return Err(error::PROTOCOL_BULK_UNAUTHENTICATED);
                    }
                    *self.bulk_len.insert(len)
                }
            };
            if input.len() < len + 2 {
                return Ok(None);
            }
            self.argv.push(input.split_to(len).freeze());
            input.advance(2);
            self.bulk_len = None;
            self.missing -= 1;
            if self.missing == 0 {
                return Ok(Some(std::mem::take(&mut self.argv)));
            }
        }
    }
}

impl Line {
    /// Returns the next header without its end, or `None` until it is complete.
    ///
    /// It ends with a carriage return. Like Redis, this skips the next byte without a check.
    fn take_header(&mut self, input: &mut BytesMut, too_long: &Error) -> Result<Option<Bytes>, Error> {
        match self.end(input, b'\r', too_long)? {
            Some(end) if end + 2 <= input.len() => {
                self.searched = 0;
                let header = input.split_to(end).freeze();
                input.advance(2);
                Ok(Some(header))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Returns the next line without its end, or `None` until it is complete. `too_long` is the
    /// error for a line without an end.
    fn take_line(&mut self, input: &mut BytesMut, too_long: &Error) -> Result<Option<Bytes>, Error> {
        let Some(end) = self.end(input, b'\n', too_long)? else { return Ok(None) };
        self.searched = 0;
        let mut line = input.split_to(end + 1).freeze();
        line.truncate(if line[..end].ends_with(b"\r") { end - 1 } else { end });
        Ok(Some(line))
    }

    /// Returns the index of a line's end. Like Redis, it searches as in a C string, so not after a
    /// NUL. A complete line is never too long.
    fn end(&mut self, input: &[u8], end: u8, too_long: &Error) -> Result<Option<usize>, Error> {
        let ahead = &input[self.searched..];
        let stop = ahead.iter().position(|&byte| byte == end || byte == 0);
        let searched = stop.unwrap_or(ahead.len());
        self.work += searched as u64 + 1;
        // A byte that stops the search is searched again.
        self.searched += searched;
        let found = stop.map(|_| self.searched).filter(|&idx| input[idx] == end);
        if found.is_none() && input.len() > LINE_BYTES_MAX { Err(too_long.clone()) } else { Ok(found) }
    }
}

fn parse_length(digits: &[u8]) -> Option<i64> {
    crate::parse_integer(digits)
}

/// Splits a line into words, as an inline command into its arguments: `"…"` has escapes, `'…'` has
/// none.
///
/// Unusual spaces such as `\v` are skipped before a word, but do not end a word. Returns `None` for
/// unbalanced quotes.
pub(crate) fn split_words(line: &[u8]) -> Option<Vec<Bytes>> {
    let mut rest = trim_start(line);
    let mut argv = Vec::new();
    while !rest.is_empty() {
        let mut arg = Vec::new();
        while let Some((&byte, tail)) = rest.split_first() {
            rest = match byte {
                b'"' => unquote_double(tail, &mut arg)?,
                b'\'' => unquote_single(tail, &mut arg)?,
                b' ' | b'\n' | b'\r' | b'\t' | 0 => break,
                b => {
                    arg.push(b);
                    tail
                }
            };
            // A closing quote ends the argument, and must be followed by a space or by nothing.
            if matches!(byte, b'"' | b'\'') {
                if rest.first().is_some_and(|&next| !is_space(next)) {
                    return None;
                }
                break;
            }
        }
        argv.push(Bytes::from(arg));
        rest = trim_start(rest.strip_prefix(b"\0").unwrap_or(rest));
    }
    Some(argv)
}

fn unquote_double<'a>(mut rest: &'a [u8], arg: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'"', tail @ ..] => return Some(tail),
            [b'\\', b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digit = |d: &u8| (*d as char).to_digit(16).expect("checked to be a hex digit") as u8;
                arg.push(digit(high) * 16 + digit(low));
                tail
            }
            [b'\\', escaped, tail @ ..] => {
                arg.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                tail
            }
            [byte, tail @ ..] => {
                arg.push(*byte);
                tail
            }
            [] => return None,
        };
    }
}

fn unquote_single<'a>(mut rest: &'a [u8], arg: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'\'', tail @ ..] => return Some(tail),
            [b'\\', b'\'', tail @ ..] => {
                arg.push(b'\'');
                tail
            }
            [byte, tail @ ..] => {
                arg.push(*byte);
                tail
            }
            [] => return None,
        };
    }
}

/// Appends `reply` to `out` in the client's protocol.
pub fn encode(reply: &Reply, protocol: Protocol, out: &mut BytesMut) {
    let resp3 = protocol == Protocol::Resp3;
    match reply {
        Reply::Status(text) => line(out, b'+', text),
        Reply::Error(error) => line(out, b'-', error.as_bytes()),
        Reply::Integer(n) => header(out, b':', *n),
        Reply::Bulk(bytes) => bulk(out, bytes),
        Reply::Nil | Reply::NilArray if resp3 => out.extend_from_slice(b"_\r\n"),
        Reply::Nil => out.extend_from_slice(b"$-1\r\n"),
        Reply::NilArray => out.extend_from_slice(b"*-1\r\n"),
        Reply::Array(items) => sequence(out, b'*', items, protocol),
        Reply::Push(items) => sequence(out, if resp3 { b'>' } else { b'*' }, items, protocol),
        Reply::Set(items) => sequence(out, if resp3 { b'~' } else { b'*' }, items, protocol),
        Reply::Map(pairs) => {
            let (marker, len) = if resp3 { (b'%', pairs.len()) } else { (b'*', pairs.len() * 2) };
            header(out, marker, len as i64);
            for (key, value) in pairs {
                encode(key, protocol, out);
                encode(value, protocol, out);
            }
        }
        Reply::Boolean(yes) if resp3 => line(out, b'#', if *yes { b"t" } else { b"f" }),
        Reply::Boolean(yes) => header(out, b':', i64::from(*yes)),
        Reply::Double(value) if resp3 => line(out, b',', format_double(*value).as_bytes()),
        Reply::Double(value) => bulk(out, format_double(*value).as_bytes()),
        Reply::BigNumber(digits) if resp3 => line(out, b'(', digits),
        Reply::BigNumber(digits) => bulk(out, digits),
        Reply::Verbatim(format, text) if resp3 => {
            header(out, b'=', text.len() as i64 + 4);
            out.extend_from_slice(format);
            out.extend_from_slice(b":");
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        }
        Reply::Verbatim(_, text) => bulk(out, text),
        Reply::Several(replies) => replies.iter().for_each(|reply| encode(reply, protocol, out)),
        Reply::Settled(protocol, reply) => encode(reply, *protocol, out),
    }
}

fn sequence(out: &mut BytesMut, marker: u8, items: &[Reply], protocol: Protocol) {
    header(out, marker, items.len() as i64);
    for item in items {
        encode(item, protocol, out);
    }
}

/// Writes a line. Line breaks in the text become spaces, as in Redis: they would end the reply
/// early.
fn line(out: &mut BytesMut, marker: u8, text: &[u8]) {
    out.extend_from_slice(&[marker]);
    let start = out.len();
    out.extend_from_slice(text);
    for byte in &mut out[start..] {
        if matches!(byte, b'\r' | b'\n') {
            *byte = b' ';
        }
    }
    out.extend_from_slice(b"\r\n");
}

fn bulk(out: &mut BytesMut, bytes: &[u8]) {
    header(out, b'$', bytes.len() as i64);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn header(out: &mut BytesMut, marker: u8, n: i64) {
    let mut buffer = [0u8; 24];
    let mut start = buffer.len() - 2;
    buffer[start..].copy_from_slice(b"\r\n");
    let mut rest = n.unsigned_abs();
    loop {
        start -= 1;
        buffer[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if n < 0 {
        start -= 1;
        buffer[start] = b'-';
    }
    start -= 1;
    buffer[start] = marker;
    out.extend_from_slice(&buffer[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_comes_byte_by_byte_is_searched_once() {
        for start in [&b"PING "[..], b"*", b"*1\r\n$"] {
            let (mut decoder, mut input) = (Decoder::default(), BytesMut::new());
            let line = [start, &vec![b'1'; LINE_BYTES_MAX - start.len()]].concat();
            for byte in &line {
                input.extend_from_slice(&[*byte]);
                assert_eq!(decoder.decode(&mut input), Ok(None));
            }
            assert!(decoder.work() <= 2 * line.len() as u64, "{} bytes for {}", decoder.work(), line.len());
        }
    }

    /// Decodes `bytes` in pieces of every size. `expected` has the requests, each argument in
    /// quotes.
    #[track_caller]
    fn check(bytes: &[u8], expected: &[&str]) {
        for piece in 1..=bytes.len().max(1) {
            let (mut decoder, mut input, mut seen) = (Decoder::default(), BytesMut::new(), Vec::new());
            'pieces: for chunk in bytes.chunks(piece) {
                input.extend_from_slice(chunk);
                loop {
                    match decoder.decode(&mut input) {
                        Ok(None) => break,
                        Ok(Some(argv)) => seen.push(format!("{argv:?}")),
                        Err(error) => {
                            seen.push(error.to_string());
                            break 'pieces;
                        }
                    }
                }
            }
            assert_eq!(seen, expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn arrays_of_bulk_strings() {
        check(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nPING\r\n", &[r#"[b"GET", b"k"]"#, r#"[b"PING"]"#]);
        check(b"*0\r\n*-1\r\n\r\n*1\r\n$0\r\n\r\n", &["[]", "[]", "[]", r#"[b""]"#]);
    }

    #[test]
    fn inline_commands() {
        check(b"  SET k  \"a b\\x41\\n\" 'c\\'d'\r\n", &[r#"[b"SET", b"k", b"a bA\n", b"c'd"]"#]);
        check(b"\x0bSET a\x0cb \x0b \"c\"\x0bd\r\n", &[r#"[b"SET", b"a\x0cb", b"c", b"d"]"#]);
        check(b"PING\nPING\r\n", &[r#"[b"PING"]"#, r#"[b"PING"]"#]);
        check(b"SET k \"a\r\n", &["ERR Protocol error: unbalanced quotes in request"]);
        check(b"SET k \"a\"b\r\n", &["ERR Protocol error: unbalanced quotes in request"]);
    }

    #[test]
    fn malformed_arrays() {
        check(b"*x\r\n", &["ERR Protocol error: invalid multibulk length"]);
        check(b"*1\r\n!1\r\n", &["ERR Protocol error: expected '$', got '!'"]);
        check(b"*1\r\n$-1\r\n", &["ERR Protocol error: invalid bulk length"]);
        check(b"*1\r\n$536870913\r\n", &["ERR Protocol error: invalid bulk length"]);
    }

    #[test]
    fn who_gives_no_password_is_not_listened_to_for_long() {
        for (bytes, refusal) in [
            ("*10\r\n$16384\r\n", None),
            ("*11\r\n", Some(error::PROTOCOL_MULTIBULK_UNAUTHENTICATED)),
            ("*1\r\n$16385\r\n", Some(error::PROTOCOL_BULK_UNAUTHENTICATED)),
        ] {
            for is_authenticated in [false, true] {
                let limits = Limits { is_authenticated, ..Limits::default() };
                let mut decoder = Decoder { limits, ..Decoder::default() };
                let decoded = decoder.decode(&mut BytesMut::from(bytes));
                assert_eq!(decoded.err(), refusal.clone().filter(|_| !is_authenticated), "{bytes}");
            }
        }
    }

    #[test]
    fn plain_requests() {
        let is_canonical = |bytes: &[u8]| plain_request(bytes).is_some();
        assert!(is_canonical(b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n*1"));
        for other in [
            "*1\r\n$4\r\nPING\r",
            "*0\r\n",
            "*01\r\n$1\r\na\r\n",
            "*1\r\n$-1\r\n",
            "*1\r\n$123456789\r\n",
            "PING\r\n",
            "",
        ] {
            assert!(!is_canonical(other.as_bytes()), "{other}");
        }
    }

    proptest::proptest! {
        /// A plain request is equal to what the decoder makes of it.
        #[test]
        fn plain_requests_are_decoded_alike(bytes in "([*$][0-3]{0,2}\r\n?[a-z]{0,3}\r\n?){0,8}") {
            if let Some((argv, end)) = plain_request(bytes.as_bytes()) {
                let mut rest = BytesMut::from(bytes.as_bytes());
                let decoded = Decoder::default().decode(&mut rest).unwrap().unwrap();
                proptest::prop_assert_eq!(&argv[..], &crate::command::borrow(&decoded)[..]);
                proptest::prop_assert_eq!(&bytes.as_bytes()[end..], &rest[..]);
            }
        }

        #[test]
        fn integers_are_written_in_full(n in proptest::prelude::any::<i64>()) {
            for n in [n, 0, i64::MIN] {
                let mut out = BytesMut::new();
                encode(&Reply::Integer(n), Protocol::Resp2, &mut out);
                proptest::prop_assert_eq!(out, format!(":{n}\r\n"));
            }
        }
    }

    #[test]
    fn a_claim_takes_no_memory() {
        let (mut decoder, mut input) = (Decoder::default(), BytesMut::new());
        for claim in ["*1000000000\r\n", "$536870912\r\n"] {
            input.extend_from_slice(claim.as_bytes());
            assert_eq!(decoder.decode(&mut input), Ok(None));
        }
        assert!(decoder.argv.capacity() <= 64 && input.capacity() <= 1024);
    }

    #[test]
    fn lines_have_a_limit() {
        let mut input = BytesMut::from(&vec![b'a'; LINE_BYTES_MAX + 1][..]);
        assert_eq!(Decoder::default().decode(&mut input), Err(error::PROTOCOL_INLINE_TOO_BIG));
    }

    #[test]
    fn a_long_line_that_comes_whole_is_taken() {
        let mut input = BytesMut::from(&[&[b'a'; 2 * LINE_BYTES_MAX][..], b"\r\n"].concat()[..]);
        let argv = Decoder::default().decode(&mut input).unwrap().unwrap();
        assert_eq!((argv.len(), argv[0].len()), (1, 2 * LINE_BYTES_MAX));
    }

    #[test]
    fn no_line_ends_behind_a_nul() {
        check(b"PING\r\nECHO a\0b\r\nPING\r\n", &[r#"[b"PING"]"#]);
        check(b"*1\0\r\n$4\r\nPING\r\n", &[]);
        check(b"*1\r\n$4\0\r\nPING\r\n", &[]);
    }
}
