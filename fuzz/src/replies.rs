//! Parses replies as strictly as a client may. It is not derived from the emulator's code, because
//! it would share its mistakes.

/// The replies in `bytes`, or `None` if the rest is not a complete reply.
pub fn split(mut bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut replies = Vec::new();
    while !bytes.is_empty() {
        let rest = skip(bytes)?;
        replies.push(&bytes[..bytes.len() - rest.len()]);
        bytes = rest;
    }
    Some(replies)
}

/// The bytes after the first reply.
fn skip(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    let (line, rest) = (&bytes[..end], &bytes[end + 2..]);
    let (marker, text) = line.split_first()?;
    if text.contains(&b'\n') || text.contains(&b'\r') {
        return None;
    }
    let number = || std::str::from_utf8(text).ok()?.parse::<i64>().ok();
    match marker {
        b'+' | b'-' => Some(rest),
        b':' => number().map(|_| rest),
        b',' => std::str::from_utf8(text).ok()?.parse::<f64>().ok().map(|_| rest),
        b'#' => matches!(text, b"t" | b"f").then_some(rest),
        b'_' => text.is_empty().then_some(rest),
        b'$' if text == b"-1" => Some(rest),
        b'*' if text == b"-1" => Some(rest),
        // A big number has only digits, except if a script made it.
        b'(' => Some(rest),
        b'=' => {
            let (body, rest) = rest.split_at_checked(usize::try_from(number()?).ok()?)?;
            let rest = rest.strip_prefix(b"\r\n")?;
            (body.get(3) == Some(&b':')).then_some(rest)
        }
        b'$' => {
            let (_, rest) = rest.split_at_checked(usize::try_from(number()?).ok()?)?;
            rest.strip_prefix(b"\r\n")
        }
        b'*' | b'~' | b'>' => (0..u64::try_from(number()?).ok()?).try_fold(rest, |rest, _| skip(rest)),
        b'%' => (0..u64::try_from(number()?).ok()?.checked_mul(2)?).try_fold(rest, |rest, _| skip(rest)),
        _ => None,
    }
}
