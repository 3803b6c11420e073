//! Requests must not depend on where the stream was cut, but for lines that are too long. An input is where to cut (see `Cuts`), then the stream; the upper
//! half of its first byte may put a line in front that is about to be too long.

#![no_main]

use bytes::{Bytes, BytesMut};
use emulator::Error;
use emulator::resp::Decoder;
use libfuzzer_sys::fuzz_target;
use lockstep_fuzz::commands::encode;
use lockstep_fuzz::cuts::Cuts;

/// A little less than the longest line: the mutator does not grow one by itself.
const LONG_LINE_BYTES: usize = 64 * 1024 - 8;
/// What follows a long line: the limit is near, and each piece makes the decoder look through the line again.
const AFTER_LONG_LINE_BYTES_MAX: usize = 24;

fuzz_target!(|data: &[u8]| {
    let long_line = match data.first().map(|first| first >> 4) {
        Some(13) => long_line(b""),
        Some(14) => long_line(b"*"),
        Some(15) => long_line(b"*1\r\n$"),
        _ => Vec::new(),
    };
    let mut stream = data;
    let cuts = Cuts::take_from(&mut stream);
    if !long_line.is_empty() {
        stream = &stream[..stream.len().min(AFTER_LONG_LINE_BYTES_MAX)];
    }

    let whole = decode([[long_line.as_slice(), stream].concat().as_slice()]);
    let in_pieces = decode([long_line.as_slice()].into_iter().chain(cuts.pieces(stream)));
    match &in_pieces {
        // A line that is too long is taken if it comes whole, as Redis does.
        (requests, Err(error)) if error.to_string().contains("too big") => {
            assert!(
                whole.0.starts_with(requests),
                "left: {requests:?} in pieces, right: {:?} in one piece",
                whole.0
            );
        }
        _ => assert_eq!(in_pieces, whole, "left: in pieces, right: in one piece"),
    }

    let (mut requests, _) = whole;
    requests.retain(|argv| !argv.is_empty());
    let again: Vec<u8> = requests.iter().flat_map(|argv| encode(argv)).collect();
    assert_eq!(decode([again.as_slice()]), (requests, Ok(BytesMut::new())), "left: decoded again");
});

/// The requests, and what ended them: an error, or the bytes that wait for more.
type Decoded = (Vec<Vec<Bytes>>, Result<BytesMut, Error>);

fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let (mut decoder, mut input, mut requests) = (Decoder::default(), BytesMut::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut input) {
                Ok(Some(argv)) => requests.push(argv),
                Ok(None) => break,
                Err(error) => return (requests, Err(error)),
            }
        }
    }
    (requests, Ok(input))
}

fn long_line(start: &[u8]) -> Vec<u8> {
    let mut line = start.to_vec();
    line.resize(start.len() + LONG_LINE_BYTES, b'1');
    line
}
