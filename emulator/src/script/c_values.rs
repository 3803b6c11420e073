//! Values as C reads them.

/// C's conversion of a double to a 64-bit integer: it rounds towards zero, and returns the smallest
/// integer for values that do not fit.
pub(super) fn truncate(value: f64) -> i64 {
    if value.abs() < 9_223_372_036_854_775_808.0 { value as i64 } else { i64::MIN }
}

/// The part of a string that C reads: it ends at the first NUL.
pub(super) fn c_string(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or_default()
}
