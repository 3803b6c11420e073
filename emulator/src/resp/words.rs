//! The words of a line: the arguments of an inline command.

use bytes::Bytes;

use crate::parse::{is_space, trim_start};

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
