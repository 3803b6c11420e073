//! `FUNCTION DUMP` and `FUNCTION RESTORE`: libraries in the format of an RDB file, followed by its
//! version and checksum.
//! <https://rdb.fnordig.de/file_format.html>

use bytes::Bytes;

use super::functions::Libraries;
use crate::error::{self, Error};

/// The version of the format that Redis 7.0 writes.
const VERSION: u16 = 10;
/// The byte before the code of a library.
const OPCODE_FUNCTION: u8 = 245;
/// The bytes of the version and the checksum.
const FOOTER_BYTES: usize = 10;
/// The largest string that is decompressed, in bytes.
const STRING_BYTES_MAX: usize = 512 << 20;
/// How many bytes a byte of LZF expands to at most: a reference of 3 bytes expands to 264.
const EXPANSION_MAX: usize = 88;

const BROKEN: Error = Error::from_static("ERR failed loading functions payload");

/// The libraries as a payload. Strings are not compressed, and the length of each string shows
/// this.
pub(crate) fn dump(libraries: &Libraries) -> Vec<u8> {
    let mut payload = Vec::new();
    for library in libraries.values() {
        payload.push(OPCODE_FUNCTION);
        match library.code.len() {
            len @ ..0x40 => payload.push(len as u8),
            len @ 0x40..0x4000 => payload.extend_from_slice(&(0x4000 | len as u16).to_be_bytes()),
            len => {
                payload.push(0x80);
                payload.extend_from_slice(&(len as u32).to_be_bytes());
            }
        }
        payload.extend_from_slice(&library.code);
    }
    payload.extend_from_slice(&VERSION.to_le_bytes());
    payload.extend_from_slice(&crc64(&payload).to_le_bytes());
    payload
}

/// The codes of the libraries in a payload of `FUNCTION DUMP`, from the emulator or a real server.
///
/// # Errors
/// The errors of Redis.
pub(crate) fn restore(payload: &[u8]) -> Result<Vec<Bytes>, Error> {
    let (libraries, footer) =
        payload.len().checked_sub(FOOTER_BYTES).map(|end| payload.split_at(end)).ok_or(error::PAYLOAD)?;
    let (signed, checksum) = payload.split_at(payload.len() - 8);
    let version = u16::from_le_bytes([footer[0], footer[1]]);
    if version > VERSION || crc64(signed).to_le_bytes() != checksum {
        return Err(error::PAYLOAD);
    }
    let mut input = Input(libraries);
    let mut codes = Vec::new();
    while let Some((&opcode, rest)) = input.0.split_first() {
        input.0 = rest;
        if opcode != OPCODE_FUNCTION {
            return Err(Error::from_static("ERR given type is not a function"));
        }
        codes.push(input.string().ok_or(BROKEN)?.into());
    }
    Ok(codes)
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn string(&mut self) -> Option<Vec<u8>> {
        const COMPRESSED: u8 = 0xc3;
        if self.0.first() != Some(&COMPRESSED) {
            let length = self.length()?;
            return self.take(length).map(<[u8]>::to_vec);
        }
        self.0 = &self.0[1..];
        let compressed = self.length()?;
        let length = self.length()?;
        decompress(self.take(compressed)?, length)
    }

    fn length(&mut self) -> Option<usize> {
        let first = *self.take(1)?.first()?;
        match first {
            0..0x40 => Some(first.into()),
            0x40..0x80 => Some(usize::from(first & 0x3f) << 8 | usize::from(self.take(1)?[0])),
            0x80 => Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?) as usize),
            0x81 => u64::from_be_bytes(self.take(8)?.try_into().ok()?).try_into().ok(),
            _ => None,
        }
    }

    fn take(&mut self, length: usize) -> Option<&[u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

/// Decompresses LZF: runs of literal bytes, and references to earlier output.
fn decompress(mut input: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut output = Vec::with_capacity(reserve(input.len(), length)?);
    while let Some((&control, rest)) = input.split_first() {
        if control < 0x20 {
            let (literals, rest) = rest.split_at_checked(usize::from(control) + 1)?;
            output.extend_from_slice(literals);
            input = rest;
        } else {
            let (more, rest) = match control >> 5 {
                7 => rest.split_first().map(|(&more, rest)| (usize::from(more), rest))?,
                _ => (0, rest),
            };
            let (&low, rest) = rest.split_first()?;
            let distance = usize::from(control & 0x1f) << 8 | usize::from(low);
            let start = output.len().checked_sub(distance + 1)?;
            let n_copied = usize::from(control >> 5) + 2 + more;
            (start..start + n_copied).for_each(|idx| output.push(output[idx]));
            input = rest;
        }
        if output.len() > length {
            return None;
        }
    }
    (output.len() == length).then_some(output)
}

/// The length as a capacity, if so many compressed bytes can expand to it. Without this check a few
/// bytes could allocate much memory.
fn reserve(compressed: usize, length: usize) -> Option<usize> {
    let length_max = compressed.saturating_mul(EXPANSION_MAX).min(STRING_BYTES_MAX);
    (length <= length_max).then_some(length)
}

/// Redis's CRC-64: Jones's polynomial, bits reflected, no inversion.
fn crc64(bytes: &[u8]) -> u64 {
    const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;
    bytes.iter().fold(0, |crc, &byte| {
        (0..8)
            .fold(crc ^ u64::from(byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::{Input, STRING_BYTES_MAX, crc64, decompress, reserve};

    #[test]
    fn the_checksum_is_that_of_redis() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn memory_is_reserved_for_what_the_input_can_give() {
        assert_eq!(reserve(3, STRING_BYTES_MAX), None);
        assert_eq!(reserve(usize::MAX, STRING_BYTES_MAX + 1), None);
        assert_eq!(reserve(usize::MAX, STRING_BYTES_MAX), Some(STRING_BYTES_MAX));
        // A literal, and references that expand as much as possible.
        let dense = [&[0, b'x'][..], &[0xe0, 255, 0].repeat(1000)].concat();
        let length = 1 + 1000 * 264;
        assert_eq!(decompress(&dense, length), Some(vec![b'x'; length]));
        assert_eq!(decompress(&dense, length + 1), None);
        assert_eq!(decompress(&dense, length - 1), None);
    }

    #[test]
    fn lengths_that_are_too_long_are_broken() {
        let most = u64::MAX.to_be_bytes();
        let long = |first: &[u8]| [first, &[0x81], &most, &[0, b'x']].concat();
        assert_eq!(Input(&long(b"")).string(), None);
        assert_eq!(Input(&long(&[0xc3])).string(), None);
        assert_eq!(Input(&long(&[0xc3, 2])).string(), None);
        assert_eq!(Input(&[0xc3, 2, 1, 0, b'x']).string(), Some(b"x".to_vec()));
    }
}
