//! Encodes replies, for RESP2 and RESP3.

use bytes::BytesMut;

use super::Protocol;
use crate::reply::{Reply, format_double};

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

    proptest::proptest! {
        #[test]
        fn integers_are_written_in_full(n in proptest::prelude::any::<i64>()) {
            for n in [n, 0, i64::MIN] {
                let mut out = BytesMut::new();
                encode(&Reply::Integer(n), Protocol::Resp2, &mut out);
                proptest::prop_assert_eq!(out, format!(":{n}\r\n"));
            }
        }
    }
}
