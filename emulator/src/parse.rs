//! Spaces and integers, as strictly as Redis reads them.

/// Whether C's `isspace` accepts this byte. It includes `\v`.
pub fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// The text without the spaces at its beginning.
pub fn trim_start(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|&&byte| is_space(byte)).count();
    &text[spaces..]
}

/// Parses a 64-bit integer as strictly as Redis: no sign but `-`, no leading zeros, no spaces.
pub fn parse_integer(digits: &[u8]) -> Option<i64> {
    let unsigned = digits.strip_prefix(b"-").unwrap_or(digits);
    let is_canonical = match unsigned {
        [b'0'] => digits.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if is_canonical { std::str::from_utf8(digits).ok()?.parse().ok() } else { None }
}
