//! What the subcommands of `EMULATOR` parse from their arguments.

use std::ops::RangeInclusive;

use crate::error::Error;

/// The end of the year 9999. A sum of two such times is still a time.
pub(super) const MILLIS_MAX: i64 = 253_402_300_799_999;

/// Parses an argument that is an integer within these bounds.
pub(super) fn number(arg: &[u8], bounds: RangeInclusive<i64>, what: &str) -> Result<i64, Error> {
    let parsed = crate::parse::parse_integer(arg).filter(|number| bounds.contains(number));
    parsed.ok_or_else(|| {
        let (arg, first, last) = (String::from_utf8_lossy(arg), bounds.start(), bounds.end());
        Error::new(format!("ERR {what} must be an integer from {first} to {last}, not '{arg}'"))
    })
}

/// The error for a word that is none of these.
pub(super) fn unknown(place: &str, word: &[u8], known: &[&str]) -> Error {
    let (word, known) = (String::from_utf8_lossy(word), known.join(", "));
    Error::new(format!("ERR {place} takes one of {known}, not '{word}'. Try EMULATOR HELP."))
}
