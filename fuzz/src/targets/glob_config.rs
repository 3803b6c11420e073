//! Every command that takes a pattern must select what a slow matcher selects, and must end soon.
//! If `CONFIG SET` returns OK, `CONFIG GET` must return a value that `CONFIG SET` accepts and that
//! comes back unchanged. If `CONFIG SET` fails, it must change nothing.
//!
//! An input is its mode (one byte) and the place where it is cut in two (one byte). Then come a
//! pattern and a text, or a name and a value.

use std::cell::RefCell;

use emulator::{Clock, DirectConnection, Emulator, Reply};

/// The most bytes of a pattern and of a text. An algorithm that takes the product of their lengths
/// ends soon, and an exponential one does not.
const TEXT_BYTES_MAX: usize = 256;

thread_local! {
    static EMULATOR: RefCell<Emulator> = RefCell::new(Emulator::with_clock(Clock::manual()));
}

pub fn check(data: &[u8]) {
    let [mode, cut, rest @ ..] = data else { return };
    let (left, right) = rest.split_at(usize::from(*cut).min(rest.len()));
    EMULATOR.with_borrow(|emulator| {
        emulator.reset(Clock::manual());
        let mut client = emulator.connection();
        match mode % 4 {
            0 => check_pattern(&mut client, left, right),
            // Many stars, and a text that they almost match.
            1 => check_pattern(&mut client, &long(left), &long(right)),
            2 => check_setting(&mut client, &[(left, right)]),
            _ => {
                let names = names(&mut client);
                let name = &names[usize::from(*cut) % names.len()];
                let (value, other) =
                    rest.split_at(rest.iter().position(|&byte| byte == 0xff).unwrap_or(rest.len()));
                let other_name = &names[usize::from(*mode) % names.len()];
                match other {
                    [_, other @ ..] => check_setting(&mut client, &[(name, value), (other_name, other)]),
                    [] => check_setting(&mut client, &[(name, value)]),
                }
            }
        }
    });
}

fn long(text: &[u8]) -> Vec<u8> {
    text.iter().copied().cycle().take(if text.is_empty() { 0 } else { TEXT_BYTES_MAX }).collect()
}

fn check_pattern(client: &mut DirectConnection, pattern: &[u8], text: &[u8]) {
    let expected = matches(pattern, text);
    let found = |reply: &Reply| match reply {
        Reply::Array(items) => items.contains(&Reply::bulk(text)),
        other => panic!("{} answers {other:?}", pattern.escape_ascii()),
    };
    // As a pattern for keys, a lone star matches every key, although it does not match an empty
    // text.
    let selected = expected || pattern == b"*";
    client.execute(&[b"SET", text, b"x"]);
    let keys = client.execute(&[b"KEYS", pattern]);
    assert_eq!(found(&keys), selected, "KEYS {} and {}", pattern.escape_ascii(), text.escape_ascii());
    let Reply::Array(scanned) = client.execute(&[b"SCAN", b"0", b"MATCH", pattern]) else {
        panic!("SCAN fails")
    };
    assert_eq!(found(&scanned[1]), selected, "SCAN {} and {}", pattern.escape_ascii(), text.escape_ascii());
    client.execute(&[b"PSUBSCRIBE", pattern]);
    let heard = client.clone().execute(&[b"PUBLISH", text, b"x"]);
    assert_eq!(
        heard,
        Reply::Integer(expected.into()),
        "PUBLISH {} and {}",
        pattern.escape_ascii(),
        text.escape_ascii()
    );
}

fn check_setting(client: &mut DirectConnection, pairs: &[(&[u8], &[u8])]) {
    let get =
        |client: &mut DirectConnection| pairs.iter().map(|(name, _)| value(client, name)).collect::<Vec<_>>();
    let before = get(client);
    let words = pairs.iter().flat_map(|(name, value)| [*name, *value]);
    let set: Vec<&[u8]> = [&b"CONFIG"[..], b"SET"].into_iter().chain(words).collect();
    if client.execute(&set) != Reply::OK {
        assert_eq!(get(client), before, "{pairs:?} failed, and has changed something");
        return;
    }
    let after = get(client);
    let words =
        pairs.iter().zip(&after).flat_map(|((name, _), value)| [*name, value.as_deref().unwrap_or_default()]);
    let again: Vec<&[u8]> = [&b"CONFIG"[..], b"SET"].into_iter().chain(words).collect();
    assert_eq!(client.execute(&again), Reply::OK, "{pairs:?} became {after:?}, which is refused");
    assert_eq!(get(client), after, "{pairs:?} became another when set again");
}

/// `None` if there is no such parameter, or if the name is a pattern.
fn value(client: &mut DirectConnection, name: &[u8]) -> Option<Vec<u8>> {
    match client.execute(&[b"CONFIG", b"GET", name]) {
        Reply::Map(pairs) => match &pairs[..] {
            [(_, Reply::Bulk(value))] => Some(value.to_vec()),
            _ => None,
        },
        other => panic!("CONFIG GET {} answers {other:?}", name.escape_ascii()),
    }
}

fn names(client: &mut DirectConnection) -> Vec<Vec<u8>> {
    let Reply::Map(pairs) = client.execute(&[b"CONFIG", b"GET", b"*"]) else {
        panic!("CONFIG GET * is no map")
    };
    let names = pairs.into_iter().map(|(name, _)| match name {
        Reply::Bulk(name) => name.to_vec(),
        other => panic!("a name is {other:?}"),
    });
    names.collect()
}

/// Whether a pattern matches a text. It computes the result for each end of the pattern and each
/// end of the text, from the last to the first.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    // `tails[i][j]` is whether the pattern from `i` on matches the text from `j` on.
    let mut tails = vec![vec![false; text.len() + 1]; pattern.len() + 1];
    tails[pattern.len()][text.len()] = true;
    for start in (0..pattern.len()).rev() {
        for place in (0..=text.len()).rev() {
            tails[start][place] = match pattern[start] {
                b'*' => tails[start + 1][place] || place < text.len() && tails[start][place + 1],
                _ if place == text.len() => false,
                _ => {
                    let (takes, len) = element(&pattern[start..], text[place]);
                    takes && tails[start + len][place + 1]
                }
            };
        }
    }
    tails[0][0]
}

/// Whether the first element of a pattern matches a byte, and the length of that element.
fn element(pattern: &[u8], byte: u8) -> (bool, usize) {
    match pattern {
        [b'?', ..] => (true, 1),
        [b'\\', escaped, ..] => (byte == *escaped, 2),
        [b'[', set @ ..] => {
            let is_negated = set.first() == Some(&b'^');
            let mut idx = usize::from(is_negated);
            let mut takes = false;
            while idx < set.len() && set[idx] != b']' {
                idx += match set[idx..] {
                    [b'\\', escaped, ..] => {
                        takes |= byte == escaped;
                        2
                    }
                    [from, b'-', to, ..] => {
                        takes |= (from.min(to)..=from.max(to)).contains(&byte);
                        3
                    }
                    [literal, ..] => {
                        takes |= byte == literal;
                        1
                    }
                    [] => unreachable!("the index is inside of the set"),
                };
            }
            // The length includes the brackets, the second of which may be missing.
            (takes != is_negated, 1 + (idx + 1).min(set.len()))
        }
        [literal, ..] => (byte == *literal, 1),
        [] => (false, 0),
    }
}
