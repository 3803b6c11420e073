//! FUNCTION RESTORE must accept any payload without a panic. If it refuses a payload, it must
//! change nothing. If it accepts one, the dump must restore the same libraries on another server,
//! which then dumps the same bytes.
//!
//! An input is its mode (one byte), and then a payload, or choices from which one is made:
//! libraries, plain and compressed. The target appends the version and the checksum, without which
//! the server refuses any payload.

use std::cell::RefCell;

use emulator::{Clock, DirectConnection, Emulator, Reply};

use crate::commands::take;
use crate::lua;

/// The version that Redis 7.0 writes.
const VERSION: u16 = 10;
const OPCODE_FUNCTION: u8 = 245;
/// The version and the checksum.
const FOOTER_BYTES: usize = 10;
const PARTS_MAX: usize = 4;
const POLICIES: [&[u8]; 4] = [b"APPEND", b"REPLACE", b"FLUSH", b"nothing"];
const CODES: [&[u8]; 6] = [
    b"#!lua name=l\nredis.register_function('f', function(keys, args) return 'f' end)",
    b"#!lua name=m\nredis.register_function('g', function() return redis.call('get', 'a') end) redis.register_function('h', function() end)",
    b"#!lua name=n\nredis.register_function{function_name='f', callback=function() end, description='d', flags={'no-writes', 'allow-stale'}}",
    b"#!lua name=l\nredis.register_function('g', function() return 'another' end)",
    b"#!lua name=x\nerror('no')",
    b"#!js name=x\n",
];

thread_local! {
    static EMULATOR: RefCell<Emulator> = RefCell::new(Emulator::with_clock(Clock::manual()));
}

pub fn check(data: &[u8]) {
    let Some((mode, mut choices)) = data.split_first() else { return };
    let payload =
        sealed(if mode % 4 == 0 { choices.to_vec() } else { payload(&mut choices).unwrap_or_default() });
    EMULATOR.with_borrow(|emulator| {
        emulator.reset(Clock::manual());
        emulator.script_budget(lua::BUDGET);
        let mut client = emulator.connection();
        if mode % 8 < 4 {
            let loaded = client.execute(&[b"FUNCTION", b"LOAD", CODES[0]]);
            assert_eq!(loaded, Reply::bulk("l"), "a library that is right is loaded");
        }
        let before = contents(&mut client);
        let policy = POLICIES[usize::from(mode / 8) % POLICIES.len()];
        if client.execute(&[b"FUNCTION", b"RESTORE", &payload, policy]) != Reply::OK {
            assert!(
                contents(&mut client) == before,
                "{} was refused, and has changed something",
                payload.escape_ascii()
            );
            return;
        }
        let after = contents(&mut client);
        client.execute(&[b"FCALL", b"f", b"1", b"a"]);

        emulator.reset(Clock::manual());
        let Reply::Bulk(dumped) = &after[0] else { panic!("FUNCTION DUMP answers {:?}", after[0]) };
        let libraries = dumped[..dumped.len() - FOOTER_BYTES].to_vec();
        assert!(sealed(libraries) == *dumped, "{} has another version or checksum", dumped.escape_ascii());
        let restored = client.execute(&[b"FUNCTION", b"RESTORE", dumped]);
        assert_eq!(restored, Reply::OK, "of {}", dumped.escape_ascii());
        assert!(contents(&mut client) == after, "{} is not what it was restored from", dumped.escape_ascii());
    });
}

fn contents(client: &mut DirectConnection) -> [Reply; 2] {
    [client.execute(&[b"FUNCTION", b"DUMP"]), client.execute(&[b"FUNCTION", b"LIST", b"WITHCODE"])]
}

fn sealed(mut payload: Vec<u8>) -> Vec<u8> {
    payload.extend_from_slice(&VERSION.to_le_bytes());
    payload.extend_from_slice(&crc64(&payload).to_le_bytes());
    payload
}

/// Computes the CRC bit by bit: x^64 divided by the polynomial that Redis uses, the lowest bit
/// first.
fn crc64(bytes: &[u8]) -> u64 {
    const POLYNOMIAL: u64 = 0xad93_d235_94c9_35a9;
    let mut remainder = 0;
    for byte in bytes {
        for bit in 0..8 {
            let is_odd = remainder >> 63 != u64::from(byte >> bit & 1);
            remainder <<= 1;
            if is_odd {
                remainder ^= POLYNOMIAL;
            }
        }
    }
    u64::reverse_bits(remainder)
}

/// Several libraries, one after the other.
fn payload(choices: &mut &[u8]) -> Option<Vec<u8>> {
    let mut payload = Vec::new();
    for _ in 0..=usize::from(take(choices)?) % PARTS_MAX {
        // Sometimes an opcode that is not a library.
        let opcode = take(choices)?;
        payload.push(if opcode < 240 { OPCODE_FUNCTION } else { opcode });
        let code = match take(choices)? {
            choice @ 0..200 => CODES[usize::from(choice) % CODES.len()].to_vec(),
            _ => [b"#!lua name=l\n", &lua::program(choices)[..]].concat(),
        };
        match take(choices)? {
            0..96 => {
                write_length(&mut payload, code.len(), take(choices)?);
                payload.extend(code);
            }
            lie => {
                let compressed = compress(&code, choices);
                let stated = if lie < 224 { code.len() } else { usize::from(take(choices)?) };
                payload.push(0xc3);
                write_length(&mut payload, compressed.len(), take(choices)?);
                write_length(&mut payload, stated, take(choices)?);
                payload.extend(compressed);
            }
        }
    }
    Some(payload)
}

/// Writes the length in one of the forms with enough room, or in a form that means another length.
fn write_length(payload: &mut Vec<u8>, length: usize, form: u8) {
    match form {
        0..64 if length < 0x40 => payload.push(length as u8),
        0..160 if length < 0x4000 => payload.extend_from_slice(&(0x4000 | length as u16).to_be_bytes()),
        0..200 => {
            payload.push(0x80);
            payload.extend_from_slice(&(length as u32).to_be_bytes());
        }
        200..250 => {
            payload.push(0x81);
            payload.extend_from_slice(&(length as u64).to_be_bytes());
        }
        form => payload.push(form),
    }
}

/// LZF: literal runs, and references to earlier bytes if there are any. Some references are
/// invalid.
fn compress(text: &[u8], choices: &mut &[u8]) -> Vec<u8> {
    const RUN_MAX: usize = 32;
    let (mut compressed, mut done) = (Vec::new(), 0);
    while done < text.len() {
        let choice = take(choices).unwrap_or_default();
        let copied = (1..=done.min(1 << 13)).find_map(|distance| {
            let same = (0..text.len() - done)
                .take(264)
                .take_while(|&idx| text[done - distance + idx % distance] == text[done + idx]);
            let len = same.count();
            (len >= 3 && !choice.is_multiple_of(4)).then_some((distance - 1, len))
        });
        match copied {
            Some((distance, len)) => {
                let high = (distance >> 8) as u8;
                match len - 2 {
                    short @ ..7 => compressed.push((short as u8) << 5 | high),
                    long => compressed.extend([7 << 5 | high, (long - 7) as u8]),
                }
                compressed.push(distance as u8);
                done += len;
            }
            None => {
                let len = (1 + usize::from(choice) % RUN_MAX).min(text.len() - done);
                compressed.push(len as u8 - 1);
                compressed.extend_from_slice(&text[done..done + len]);
                done += len;
            }
        }
        if choice == 255 {
            compressed.extend([take(choices).unwrap_or_default(), 0xff]);
        }
    }
    compressed
}
