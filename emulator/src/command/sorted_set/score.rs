//! Parses scores: C's `strtod`, with Redis's rules.

/// Parses a score, weight or increment. The text has only the number, and a double can hold it.
pub(in crate::command) fn parse(text: &[u8]) -> Option<f64> {
    let (value, is_exact_range) = number(text)?;
    (is_exact_range && !value.is_nan()).then_some(value)
}

/// Parses a bound of a range, for which Redis's rules are less strict.
///
/// Spaces may come first, an empty text is 0, a number that is too large is infinite, and a NUL
/// ends the text.
pub(super) fn parse_bound(text: &[u8]) -> Option<f64> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    let (value, _) = number(crate::parse::trim_start(text))?;
    (!value.is_nan()).then_some(value)
}

/// Parses a weight of `SORT`. Spaces may come first, an empty text is 0, and a NUL ends the text.
pub(in super::super) fn parse_weight(text: &[u8]) -> Option<f64> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    parse(crate::parse::trim_start(text))
}

/// Parses the whole text as a number, and returns whether it was in range. A number out of range
/// becomes infinite or 0.
fn number(text: &[u8]) -> Option<(f64, bool)> {
    if let Some(value) = short_whole(text) {
        return Some((value, true));
    }
    let text = std::str::from_utf8(text).ok()?;
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if let Some(digits) = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        let value = hexadecimal(digits)?;
        return Some((if text.starts_with('-') { -value } else { value }, value.is_finite()));
    }
    let value: f64 = text.parse().ok()?;
    let mantissa = unsigned.split(['e', 'E']).next().unwrap_or_default();
    let names_infinity = unsigned.starts_with(['i', 'I']);
    let is_lost = value == 0.0 && mantissa.contains(|digit: char| ('1'..='9').contains(&digit));
    Some((value, !is_lost && (value.is_infinite() == names_infinity)))
}

/// Parses a number of a few digits and nothing else, as most scores are.
fn short_whole(text: &[u8]) -> Option<f64> {
    /// A double holds every number of so many digits.
    const DIGITS_MAX: usize = 15;
    let is_short = (1..=DIGITS_MAX).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    is_short.then(|| text.iter().fold(0, |whole, digit| whole * 10 + i64::from(digit - b'0')) as f64)
}

/// Parses `1f.8p3`: hexadecimal digits, and a decimal exponent of 2.
fn hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, exponent) = match text.split_once(['p', 'P']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits = whole.chars().chain(fraction.chars());
    let value = digits
        .map(|digit| digit.to_digit(16))
        .try_fold(0.0, |value, digit| Some(value * 16.0 + f64::from(digit?)))?;
    Some(value * 2f64.powi(exponent.saturating_sub(4 * fraction.len() as i32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_strict_and_bounds_are_not() {
        for (text, score, bound) in [
            ("1", Some(1.0), Some(1.0)),
            ("0123456789012345", Some(123_456_789_012_345.0), Some(123_456_789_012_345.0)),
            ("9007199254740993", Some(9_007_199_254_740_992.0), Some(9_007_199_254_740_992.0)),
            ("-1.5e3", Some(-1500.0), Some(-1500.0)),
            (".5", Some(0.5), Some(0.5)),
            ("5.", Some(5.0), Some(5.0)),
            ("+inf", Some(f64::INFINITY), Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY), Some(f64::NEG_INFINITY)),
            ("0x1f.8p1", Some(63.0), Some(63.0)),
            ("1e400", None, Some(f64::INFINITY)),
            ("1e-400", None, Some(0.0)),
            ("0e-400", Some(0.0), Some(0.0)),
            ("", None, Some(0.0)),
            (" 1", None, Some(1.0)),
            ("1 ", None, None),
            ("1\0x", None, Some(1.0)),
            ("nan", None, None),
            ("e5", None, None),
            ("one", None, None),
        ] {
            assert_eq!((parse(text.as_bytes()), parse_bound(text.as_bytes())), (score, bound), "{text:?}");
        }
    }
}
