//! Numbers like C's `long double` on x86-64: 64 bits of significand and a wide exponent.
//!
//! `INCRBYFLOAT` and `HINCRBYFLOAT` compute with them. The last digits that clients get differ from
//! those of a double.

use std::fmt;

use num_bigint::{BigInt, BigUint, Sign};

const SIGNIFICAND_BITS: i64 = 64;
/// The exponents of the last bit of the smallest and of the largest number.
const EXPONENT_MIN: i64 = -16_445;
const EXPONENT_MAX: i64 = 16_320;
/// The largest exponent that is parsed: every larger one makes the number 0 or infinite, whatever
/// its digits are.
const WRITTEN_EXPONENT_MAX: i64 = 40_000;
/// The length of the longest text that is a number.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;
/// The number of printed digits after the point.
const FRACTION_DIGITS: usize = 17;

/// A finite number or infinity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LongDouble {
    /// `significand * 2^exponent`; the significand has at most 64 bits.
    Finite {
        /// The significand with its sign.
        significand: BigInt,
        /// The exponent of the last bit.
        exponent: i64,
    },
    /// A number of either sign that is too large.
    Infinite,
}

use LongDouble::{Finite, Infinite};

impl LongDouble {
    /// Parses a text as a number: decimal, hexadecimal or infinite. `None` if anything else is in
    /// the text, or a long double cannot hold the number.
    pub(crate) fn parse(text: &[u8]) -> Option<LongDouble> {
        let text =
            std::str::from_utf8(text).ok().filter(|text| text.len() <= TEXT_BYTES_MAX)?.to_ascii_lowercase();
        let (sign, text) = match text.strip_prefix('-') {
            Some(text) => (Sign::Minus, text),
            None => (Sign::Plus, text.strip_prefix('+').unwrap_or(&text)),
        };
        if matches!(text, "inf" | "infinity") {
            return Some(Infinite);
        }
        let (digits, radix, base, exponent_mark, digit_exponent) = match text.strip_prefix("0x") {
            Some(digits) => (digits, 16, 2, 'p', 4),
            None => (text, 10, 10, 'e', 1),
        };
        let (mantissa, exponent) = match digits.split_once(exponent_mark) {
            Some((mantissa, exponent)) => (mantissa, written_exponent(exponent)?),
            None => (digits, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = [whole, fraction].concat();
        if !digits.chars().all(|digit| digit.is_digit(radix)) {
            return None;
        }
        let digits = BigUint::parse_bytes(digits.as_bytes(), radix)?;
        let exponent = exponent - digit_exponent * fraction.len() as i64;
        let power = BigUint::from(base as u32).pow(exponent.unsigned_abs() as u32);
        let is_zero = digits == BigUint::ZERO;
        let number = match exponent {
            0.. => rounded(sign, &(digits * power), &BigUint::from(1u32)),
            _ => rounded(sign, &digits, &power),
        };
        let is_lost = match &number {
            Finite { significand, .. } => significand.sign() == Sign::NoSign && !is_zero,
            Infinite => true,
        };
        (!is_lost).then_some(number)
    }

    /// Returns the sum, rounded to nearest.
    pub(crate) fn plus(&self, other: &LongDouble) -> LongDouble {
        let (
            Finite { significand: a, exponent: a_exponent },
            Finite { significand: b, exponent: b_exponent },
        ) = (self, other)
        else {
            return Infinite;
        };
        let exponent = *a_exponent.min(b_exponent);
        let sum = (a << (a_exponent - exponent)) + (b << (b_exponent - exponent));
        let (sign, sum) = sum.into_parts();
        let power = BigUint::from(1u32) << exponent.unsigned_abs();
        if exponent < 0 {
            rounded(sign, &sum, &power)
        } else {
            rounded(sign, &(sum * power), &BigUint::from(1u32))
        }
    }

    /// Returns the product with an integer, rounded to nearest.
    pub(crate) fn times(&self, factor: u32) -> LongDouble {
        let Finite { significand, exponent } = self else { return Infinite };
        let product = significand.magnitude() * factor;
        let power = BigUint::from(1u32) << exponent.unsigned_abs();
        match exponent {
            0.. => rounded(significand.sign(), &(product * power), &BigUint::from(1u32)),
            _ => rounded(significand.sign(), &product, &power),
        }
    }

    /// Returns the smallest integer that is not less, if it fits into 64 bits.
    pub(crate) fn ceil(&self) -> Option<i64> {
        let Finite { significand, exponent } = self else { return None };
        let floor_of_negated = if *exponent < 0 {
            -significand >> exponent.unsigned_abs()
        } else {
            -significand << exponent.unsigned_abs()
        };
        i64::try_from(-floor_of_negated).ok()
    }
}

fn written_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let exponent = digits.parse().unwrap_or(WRITTEN_EXPONENT_MAX).min(WRITTEN_EXPONENT_MAX);
    Some(if text.starts_with('-') { -exponent } else { exponent })
}

/// Returns the number nearest to a fraction. If two are equally near, it is the even one.
fn rounded(sign: Sign, numerator: &BigUint, denominator: &BigUint) -> LongDouble {
    let bits = |number: &BigUint| number.bits() as i64;
    let exponent_guess = bits(numerator) - bits(denominator) - SIGNIFICAND_BITS;
    let at = |exponent: i64| {
        let shift = exponent.unsigned_abs();
        if exponent < 0 {
            divided(numerator << shift, denominator)
        } else {
            divided(numerator.clone(), &(denominator << shift))
        }
    };
    let mut exponent = exponent_guess.max(EXPONENT_MIN);
    let mut significand = at(exponent);
    if bits(&significand) > SIGNIFICAND_BITS {
        // For half of all fractions the guess is one too low.
        exponent += 1;
        significand = at(exponent);
    }
    if bits(&significand) > SIGNIFICAND_BITS {
        exponent += 1;
        significand >>= 1;
    }
    if exponent > EXPONENT_MAX {
        return Infinite;
    }
    Finite { significand: BigInt::from_biguint(sign, significand), exponent }
}

/// Returns the nearest integer. If two are equally near, it is the even one.
fn divided(numerator: BigUint, denominator: &BigUint) -> BigUint {
    let quotient = &numerator / denominator;
    let twice_rest: BigUint = (numerator - &quotient * denominator) << 1u32;
    let is_up = match twice_rest.cmp(denominator) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => quotient.bit(0),
        std::cmp::Ordering::Greater => true,
    };
    if is_up { quotient + 1u32 } else { quotient }
}

/// Writes up to 17 digits after the point, without zeros at the end: C's `%.17Lf`, shortened.
impl fmt::Display for LongDouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finite { significand, exponent } = self else { return f.write_str("inf") };
        let scaled = significand.magnitude() * BigUint::from(10u32).pow(FRACTION_DIGITS as u32);
        let power = exponent.unsigned_abs();
        let scaled =
            if *exponent < 0 { divided(scaled, &(BigUint::from(1u32) << power)) } else { scaled << power };
        let digits = format!("{scaled:0>width$}", width = FRACTION_DIGITS + 1);
        let (whole, fraction) = digits.split_at(digits.len() - FRACTION_DIGITS);
        let sign = if significand.sign() == Sign::Minus && scaled != BigUint::ZERO { "-" } else { "" };
        match fraction.trim_end_matches('0') {
            "" => write!(f, "{sign}{whole}"),
            fraction => write!(f, "{sign}{whole}.{fraction}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str) -> Option<String> {
        let [a, b] = [a, b].map(|text| LongDouble::parse(text.as_bytes()));
        Some(a?.plus(&b?).to_string())
    }

    #[test]
    fn products_are_rounded_before_they_are_rounded_up() {
        for (text, thousandfold) in [
            ("1.5", Some(1500)),
            ("0.253", Some(254)),
            ("0.254", Some(254)),
            ("0.501", Some(502)),
            ("16.368", Some(16_369)),
            ("0.0001", Some(1)),
            ("1e-3000", Some(1)),
            ("-0.001", Some(0)),
            ("-0.003", Some(-3)),
            ("9223372036854775", Some(9_223_372_036_854_775_000)),
            ("9223372036854776", None),
            ("1e4000", None),
            ("-inf", None),
        ] {
            let number = LongDouble::parse(text.as_bytes());
            assert_eq!(number.and_then(|number| number.times(1000).ceil()), thousandfold, "{text}");
        }
    }

    #[test]
    fn sums_are_those_of_a_long_double() {
        for (a, b, expected) in [
            ("10.50", "0.1", Some("10.6")),
            ("5.0e3", "2.0e2", Some("5200")),
            ("3", "-3", Some("0")),
            ("0.1", "0.2", Some("0.3")),
            ("0", "0x1p-18", Some("0.00000381469726562")),
            ("0", "0x1.8p1", Some("3")),
            ("-1e-20", "0", Some("0")),
            ("1e19", "1", Some("10000000000000000001")),
            ("1e20", "1", Some("100000000000000000000")),
            ("18446744073709551615", "1", Some("18446744073709551616")),
            ("18446744073709551616", "1", Some("18446744073709551616")),
            ("inf", "1", Some("inf")),
            ("1e4932", "1e4932", Some("inf")),
            ("1e5000", "0", None),
            ("1e-5000", "0", None),
            ("0e-99999999999999999999", "0", Some("0")),
            ("1e", "0", None),
            ("0x", "0", None),
            (".", "0", None),
            ("", "0", None),
            ("nan", "0", None),
            (" 1", "0", None),
            ("1_0", "0", None),
        ] {
            assert_eq!(sum(a, b).as_deref(), expected, "{a} + {b}");
        }
    }
}
