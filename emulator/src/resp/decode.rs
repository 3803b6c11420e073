//! Decodes requests: arrays of bulk strings, and inline commands.

use bytes::{Buf as _, Bytes, BytesMut};
use smallvec::SmallVec;

use super::words::split_words;
use crate::error::{self, Error};
use crate::parse::parse_integer;

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
    const UNAUTHENTICATED_ARGS_MAX: i64 = 10;
    /// The longest bulk string before authentication, in bytes.
    const UNAUTHENTICATED_BULK_BYTES_MAX: usize = 16 * 1024;
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
    let (count, mut rest) = plain_header(input, b'*').filter(|(count, _)| *count > 0)?;
    let mut argv = SmallVec::new();
    for _ in 0..count {
        let (len, start) = plain_header(rest, b'$')?;
        argv.push(start.get(..len)?);
        rest = start.get(len + 2..)?;
    }
    Some((argv, input.len() - rest.len()))
}

/// Splits off the header at the front of `input`. Returns its number, and the bytes after it.
fn plain_header(input: &[u8], marker: u8) -> Option<(usize, &[u8])> {
    let [own_marker, first @ b'0'..=b'9', rest @ ..] = input else { return None };
    if *own_marker != marker {
        return None;
    }
    let mut number = usize::from(first - b'0');
    for (idx, &byte) in rest.iter().take(PLAIN_DIGITS_MAX).enumerate() {
        match byte {
            // No digit follows a leading zero.
            b'0'..=b'9' if number > 0 => number = number * 10 + usize::from(byte - b'0'),
            b'\r' => return rest[idx..].strip_prefix(b"\r\n").map(|after| (number, after)),
            _ => return None,
        }
    }
    None
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
                        let count = parse_integer(&line[1..])
                            .filter(|&n| n <= ARGS_MAX)
                            .ok_or(error::PROTOCOL_MULTIBULK_LENGTH)?;
                        if !self.limits.is_authenticated && count > Limits::UNAUTHENTICATED_ARGS_MAX {
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
                    let len = parse_integer(&line[1..])
                        .and_then(|len| usize::try_from(len).ok())
                        .filter(|&len| len <= self.limits.bulk_bytes_max)
                        .ok_or(error::PROTOCOL_BULK_LENGTH)?;
                    if !self.limits.is_authenticated && len > Limits::UNAUTHENTICATED_BULK_BYTES_MAX {
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
    fn limits_are_stricter_before_authentication() {
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
    fn no_line_ends_after_a_nul() {
        check(b"PING\r\nECHO a\0b\r\nPING\r\n", &[r#"[b"PING"]"#]);
        check(b"*1\0\r\n$4\r\nPING\r\n", &[]);
        check(b"*1\r\n$4\0\r\nPING\r\n", &[]);
    }
}
