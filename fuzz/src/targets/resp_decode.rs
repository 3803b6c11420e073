//! Requests must not depend on where the stream is cut, except for lines that are too long. The
//! decoder must search each byte only once. If requests are encoded and decoded again, they must be
//! equal.
//!
//! An input is where to cut (see `Cuts`), then the stream. The upper half of its first byte may add
//! a line before the stream that is almost too long. It may also repeat the stream many times.

use bytes::{Bytes, BytesMut};
use emulator::Error;
use emulator::resp::{Decoder, plain_request};

use crate::commands::encode;
use crate::cuts::Cuts;

/// A little less than the longest line, because mutations rarely grow a line that far.
const LONG_LINE_BYTES: usize = 64 * 1024 - 8;
/// The most bytes after a long line: the limit is near.
const AFTER_LONG_LINE_BYTES_MAX: usize = 24;
/// The most bytes of a repeated stream.
const LONG_STREAM_BYTES_MAX: usize = 16 * 1024;
/// How often the decoder may visit a byte: at the start of a search, during it, and at its stop and
/// its continuation. If a decoder searched from the start for each piece, a line of n bytes would
/// take n * n / 2 visits.
const WORK_MAX: u64 = 4;

pub fn check(data: &[u8]) {
    let kind = data.first().map_or(0, |first| first >> 4);
    let long_line = match kind {
        13 => long_line(b""),
        14 => long_line(b"*"),
        15 => long_line(b"*1\r\n$"),
        _ => Vec::new(),
    };
    let mut stream = data;
    let cuts = Cuts::take_from(&mut stream);
    let repeated = stream.repeat(if kind == 12 { LONG_STREAM_BYTES_MAX / stream.len().max(1) } else { 1 });
    let mut stream = &repeated[..];
    if !long_line.is_empty() {
        stream = &stream[..stream.len().min(AFTER_LONG_LINE_BYTES_MAX)];
    }

    let whole = decode([[long_line.as_slice(), stream].concat().as_slice()]);
    let in_pieces = decode([long_line.as_slice()].into_iter().chain(cuts.pieces(stream)));
    match &in_pieces {
        // If a line that is too long comes in one piece, the decoder accepts it, as Redis does.
        (requests, Err(error)) if error.to_string().contains("too big") => {
            assert!(
                whole.0.starts_with(requests),
                "left: {requests:?} in pieces, right: {:?} in one piece",
                whole.0
            );
        }
        _ => assert_eq!(in_pieces, whole, "left: in pieces, right: in one piece"),
    }
    if let Some((argv, len)) = plain_request(stream) {
        assert_eq!(
            decode([&stream[..len]]),
            (vec![owned(&argv)], Ok(BytesMut::new())),
            "left: not the plain way"
        );
    }

    let (mut requests, _) = whole;
    requests.retain(|argv| !argv.is_empty());
    let again: Vec<u8> = requests.iter().flat_map(|argv| encode(argv)).collect();
    assert_eq!(decode([again.as_slice()]), (requests, Ok(BytesMut::new())), "left: decoded again");
}

/// The requests and the end of decoding: an error, or the bytes of an incomplete request.
type Decoded = (Vec<Vec<Bytes>>, Result<BytesMut, Error>);

fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let (mut decoder, mut input, mut requests) = (Decoder::default(), BytesMut::new(), Vec::new());
    let (mut n_bytes, mut n_calls) = (0, 0);
    for piece in pieces {
        input.extend_from_slice(piece);
        n_bytes += piece.len() as u64;
        loop {
            n_calls += 1;
            let decoded = decoder.decode(&mut input);
            assert!(
                decoder.work() <= WORK_MAX * (n_bytes + n_calls),
                "{} for {n_bytes} bytes",
                decoder.work()
            );
            match decoded {
                Ok(Some(argv)) => requests.push(argv),
                Ok(None) => break,
                Err(error) => return (requests, Err(error)),
            }
        }
    }
    (requests, Ok(input))
}

fn owned(argv: &[&[u8]]) -> Vec<Bytes> {
    argv.iter().map(|arg| Bytes::copy_from_slice(arg)).collect()
}

fn long_line(start: &[u8]) -> Vec<u8> {
    let mut line = start.to_vec();
    line.resize(start.len() + LONG_LINE_BYTES, b'1');
    line
}
